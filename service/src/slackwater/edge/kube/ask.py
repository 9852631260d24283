"""What a pod asks, from its wire form: picks the amounts that `model.requests` adds up, and finds the missing ones."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from slackwater.edge.kube.wire import (
    AmountsWire,
    ContainerStatusWire,
    ContainerWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    Quantity,
    ResourcesWire,
)
from slackwater.model.requests import InitRequest, effective_nanos, pod_nanos, rounded_up
from slackwater.model.resources import CPU, MEMORY, RESOURCES, Amounts
from slackwater_protocol.units import parse_nanos

#: Distinct (cpu, memory) pairs of texts that are kept read.
_CACHED_PAIRS: Final = 16_384


class _Pair(NamedTuple):
    """Nanos of CPU and of memory; 0 where not set. Indexed by CPU and MEMORY."""

    cpu: int
    memory: int


_ZERO: Final = _Pair(0, 0)
_NO_AMOUNTS: Final = AmountsWire()
_NO_STATUS: Final = PodStatusWire()
_Statuses = Mapping[str, ContainerStatusWire]


def pod_requests(wire: PodWire, *, spec_only: bool = False) -> Amounts:
    """See `model.requests`; with `spec_only` whatever the status tells of a resize. Raises `QuantityError`."""
    status = _NO_STATUS if spec_only else wire.status
    return _pod_requests(wire.spec, status, infeasible=resize_pending(status) == "Infeasible")


def held_requests(wire: PodWire) -> Amounts:
    """What the pod holds while its node does not grant what the spec asks. Raises `QuantityError`."""
    return _pod_requests(wire.spec, wire.status, infeasible=True)


def container_requests(container: ContainerWire) -> Amounts:
    """What the spec asks for one container. Raises `QuantityError`."""
    pair = _pair(_requests(container.resources))
    return rounded_up(cpu_nanos=pair.cpu, memory_nanos=pair.memory)


def _pod_requests(spec: PodSpecWire, status: PodStatusWire, *, infeasible: bool) -> Amounts:
    statuses = _statuses(status)
    apps = [_effective(c, statuses, infeasible=infeasible) for c in spec.containers or ()]
    overhead = _pair(spec.overhead)
    if not spec.init_containers and spec.resources is None and len(apps) == 1:  # nearly every pod
        return rounded_up(cpu_nanos=apps[0].cpu + overhead.cpu, memory_nanos=apps[0].memory + overhead.memory)
    inits = [(_init(c, statuses, infeasible=infeasible), _is_sidecar(c)) for c in spec.init_containers or ()]
    whole = _pod_level(spec, status, infeasible=infeasible)
    cpu, memory = (
        pod_nanos(
            apps=[pair[resource] for pair in apps],
            inits=[InitRequest(pair[resource], sidecar) for pair, sidecar in inits],
            pod_level=whole[resource],
            overhead=overhead[resource],
        )
        for resource in (CPU, MEMORY)
    )
    return rounded_up(cpu_nanos=cpu, memory_nanos=memory)


def missing_request(spec: PodSpecWire) -> str | None:
    """The first app container, then sidecar, and its first resource without a request: "app: memory"; or None.

    A limit without a request is no gap: the API server has made it the request. Nor is a gap that a request of the pod
    as a whole covers.
    """
    whole = _requests(spec.resources)
    for container in _long_running(spec):
        asked = _requests(container.resources)
        if asked.cpu is None and whole.cpu is None:
            return f"{container.name}: {RESOURCES[CPU]}"
        if asked.memory is None and whole.memory is None:
            return f"{container.name}: {RESOURCES[MEMORY]}"
    return None


def _long_running(spec: PodSpecWire) -> list[ContainerWire]:
    apps = spec.containers or []
    return [*apps, *filter(_is_sidecar, spec.init_containers)] if spec.init_containers else apps


def _is_sidecar(container: ContainerWire) -> bool:
    return container.restart_policy == "Always"


def _init(container: ContainerWire, statuses: _Statuses, *, infeasible: bool) -> _Pair:
    """An init container that ends cannot be resized, so its status does not count."""
    if _is_sidecar(container):
        return _effective(container, statuses, infeasible=infeasible)
    return _pair(_requests(container.resources))


def _effective(container: ContainerWire, statuses: _Statuses, *, infeasible: bool) -> _Pair:
    asked = _requests(container.resources)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return _pair(asked)
    return _in_resize(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _in_resize(asked: AmountsWire, actual: ResourcesWire, granted: AmountsWire | None, *, infeasible: bool) -> _Pair:
    if asked == actual.requests == granted:  # at rest, like nearly every pod nearly always
        return _pair(asked)
    want, now, grant = _pair(asked), _pair(actual.requests), _pair(granted)
    return _Pair(
        effective_nanos(want.cpu, (now.cpu, grant.cpu), infeasible=infeasible),
        effective_nanos(want.memory, (now.memory, grant.memory), infeasible=infeasible),
    )


def _pod_level(spec: PodSpecWire, status: PodStatusWire, *, infeasible: bool) -> tuple[int | None, int | None]:
    """The request of the pod as a whole, resource by resource; None where the spec sets none, whatever the status says."""
    wanted = _requests(spec.resources)
    if wanted.cpu is None and wanted.memory is None:
        return (None, None)
    if status.resources is None:
        nanos = _pair(wanted)
    else:
        nanos = _in_resize(wanted, status.resources, status.allocated_resources, infeasible=infeasible)
    return (None if wanted.cpu is None else nanos.cpu, None if wanted.memory is None else nanos.memory)


def _statuses(status: PodStatusWire) -> _Statuses:
    found = {s.name: s for s in status.container_statuses or ()}
    if status.init_container_statuses:
        found.update((s.name, s) for s in status.init_container_statuses)
    return found


def resize_pending(status: PodStatusWire) -> Literal["Deferred", "Infeasible"] | None:
    """Whether the node has told that it cannot resize the pod now, or ever."""
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return "Infeasible" if condition.reason == "Infeasible" else "Deferred"
    return None


def _requests(resources: ResourcesWire | None) -> AmountsWire:
    return (resources.requests if resources is not None else None) or _NO_AMOUNTS


def _pair(amounts: AmountsWire | None) -> _Pair:
    return _ZERO if amounts is None else _nanos(amounts.cpu, amounts.memory)


@lru_cache(maxsize=_CACHED_PAIRS)
def _nanos(cpu: Quantity | None, memory: Quantity | None) -> _Pair:
    return _Pair(0 if cpu is None else parse_nanos(cpu), 0 if memory is None else parse_nanos(memory))
