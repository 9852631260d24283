"""Computes what a pod requests from its wire form: picks amounts for `model.requests`, and finds missing requests."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from slackwater.adapters.kube.amounts import NOTHING_ASKED, Asked, is_scalar, read_requests, whole
from slackwater.adapters.kube.wire import (
    AmountsRaw,
    ContainerStatusWire,
    ContainerWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    ResourcesWire,
)
from slackwater.model.requests import InitRequest, effective_nanos, pod_nanos, rounded_up
from slackwater.model.resources import CPU, MEMORY, RESOURCES, Amounts

#: What kube-scheduler's scoring assumes for a container without a request: 100 millicores, 200 MiB. In nanos.
_ASSUMED: Final = (100 * 10**6, 200 * 1024 * 1024 * 10**9)
_NO_STATUS: Final = PodStatusWire()
_HUGE_PAGES: Final = "hugepages-"
_Statuses = Mapping[str, ContainerStatusWire]


class Ask:
    """The requests of one pod's containers, with resizes taken into account. Raises `QuantityError` for an invalid quantity.

    `placed`: the pod has a node, so a resize may be under way; like kube-scheduler, the status is read for such pods only.
    `held`: counts what the pod holds while its node has not granted the spec's requests. `granted`: counts as if the node had
    granted everything, as a pod that is created again in place of this one may request.
    """

    __slots__ = ("_apps", "_inits", "_overhead", "_whole")

    def __init__(self, wire: PodWire, *, placed: bool = True, held: bool = False, granted: bool = False) -> None:
        spec = wire.spec
        status = wire.status if placed else _NO_STATUS
        infeasible = held or (not granted and resize_pending(status) == "Infeasible")
        statuses = _statuses(status)
        self._apps = [_effective(c, statuses, infeasible=infeasible) for c in spec.containers or ()]
        inits = spec.init_containers or ()
        self._inits = [(_init(c, statuses, infeasible=infeasible), _is_sidecar(c)) for c in inits]
        self._overhead = read_requests(spec.overhead)
        self._whole = NOTHING_ASKED if spec.resources is None else _pod_level(spec, status, infeasible=infeasible)

    def requests(self) -> Amounts:
        """The pod's CPU and memory requests, by the formula of `model.requests`."""
        if not self._inits and self._whole is NOTHING_ASKED and len(self._apps) == 1:  # nearly every pod
            (app,), overhead = self._apps, self._overhead
            cpu, memory = (app.cpu or 0) + (overhead.cpu or 0), (app.memory or 0) + (overhead.memory or 0)
            return rounded_up(cpu_nanos=cpu, memory_nanos=memory)
        return rounded_up(cpu_nanos=self._nanos(CPU, 0), memory_nanos=self._nanos(MEMORY, 0))

    def cpu_nanos(self) -> int:
        """The pod's CPU request in nanos, not rounded."""
        return self._nanos(CPU, 0)

    def scored(self) -> Amounts | None:
        """The requests that scoring assumes for the pod on its node, if they exceed `requests`; otherwise None."""
        if self._complete():
            return None
        # A pod-level request covers the requests that its containers leave out.
        any_whole = self._whole.cpu is not None or self._whole.memory is not None or bool(self._whole.rest)
        assumed = [0 if any_whole and self._stated(resource) else _ASSUMED[resource] for resource in (CPU, MEMORY)]
        return rounded_up(cpu_nanos=self._nanos(CPU, assumed[CPU]), memory_nanos=self._nanos(MEMORY, assumed[MEMORY]))

    def scored_before(self) -> Amounts | None:
        """The requests that scoring assumes while the pod has no node, if they differ: pod-level requests are then ignored."""
        if self._whole is NOTHING_ASKED:
            return None
        cpu, memory = (self._nanos(resource, _ASSUMED[resource], level=False) for resource in (CPU, MEMORY))
        return rounded_up(cpu_nanos=cpu, memory_nanos=memory)

    def _complete(self) -> bool:
        return all(asked.cpu is not None and asked.memory is not None for asked in self._containers())

    def scalars(self) -> tuple[tuple[str, int], ...]:
        """The requests of scalar resources, sorted by name, without zeros."""
        lists = (*self._containers(), self._overhead, self._whole)
        if not any(asked.rest for asked in lists):
            return ()
        names = sorted({name for asked in lists for name, _ in asked.rest if is_scalar(name)})
        found = ((name, whole(self._scalar_nanos(name))) for name in names)
        return tuple(pair for pair in found if pair[1])

    def _containers(self) -> Iterable[Asked]:
        return (*self._apps, *(asked for asked, _ in self._inits))

    def _stated(self, resource: int) -> bool:
        return any(_of(asked, resource) is not None for asked in (*self._containers(), self._overhead, self._whole))

    def _nanos(self, resource: int, assumed: int, *, level: bool = True) -> int:
        def of(asked: Asked) -> int:
            nanos = _of(asked, resource)
            return assumed if nanos is None else nanos

        return pod_nanos(
            apps=[of(asked) for asked in self._apps],
            inits=[InitRequest(of(asked), sidecar) for asked, sidecar in self._inits],
            pod_level=_of(self._whole, resource) if level else None,
            overhead=_of(self._overhead, resource) or 0,
        )

    def _scalar_nanos(self, name: str) -> int:
        return pod_nanos(
            apps=[_named(asked, name) or 0 for asked in self._apps],
            inits=[InitRequest(_named(asked, name) or 0, sidecar) for asked, sidecar in self._inits],
            pod_level=_named(self._whole, name) if name.startswith(_HUGE_PAGES) else None,
            overhead=_named(self._overhead, name) or 0,
        )


def pod_requests(wire: PodWire, *, spec_only: bool = False) -> Amounts:
    """The pod's requests by `model.requests`; with `spec_only` the status of a resize is ignored. Raises `QuantityError`."""
    return Ask(wire, placed=not spec_only).requests()


def held_requests(wire: PodWire) -> Amounts:
    """What the pod holds while its node has not granted the spec's requests. Raises `QuantityError`."""
    return Ask(wire, held=True).requests()


def container_requests(container: ContainerWire) -> Amounts:
    """The requests in the spec of one container. Raises `QuantityError`."""
    asked = _requests(container.resources)
    return rounded_up(cpu_nanos=asked.cpu or 0, memory_nanos=asked.memory or 0)


def _of(asked: Asked, resource: int) -> int | None:
    return asked.cpu if resource == CPU else asked.memory


def _named(asked: Asked, name: str) -> int | None:
    return next((nanos for found, nanos in asked.rest if found == name), None)


def missing_request(spec: PodSpecWire) -> str | None:
    """Names the first app container or sidecar without a request, and the resource ("app: memory"); None if there is none.

    A limit without a request is complete, because the API server copies the limit to the request. A pod-level request covers
    its containers.
    """
    whole_pod = _requests(spec.resources)
    for container in _long_running(spec):
        asked = _requests(container.resources)
        if asked.cpu is None and whole_pod.cpu is None:
            return f"{container.name}: {RESOURCES[CPU]}"
        if asked.memory is None and whole_pod.memory is None:
            return f"{container.name}: {RESOURCES[MEMORY]}"
    return None


def _long_running(spec: PodSpecWire) -> list[ContainerWire]:
    apps = spec.containers or []
    return [*apps, *filter(_is_sidecar, spec.init_containers)] if spec.init_containers else apps


def _is_sidecar(container: ContainerWire) -> bool:
    return container.restart_policy == "Always"


def _init(container: ContainerWire, statuses: _Statuses, *, infeasible: bool) -> Asked:
    """An init container that ends cannot be resized, so its status does not count."""
    if _is_sidecar(container):
        return _effective(container, statuses, infeasible=infeasible)
    return _requests(container.resources)


def _effective(container: ContainerWire, statuses: _Statuses, *, infeasible: bool) -> Asked:
    asked = _requests(container.resources)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    return _in_resize(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _in_resize(asked: Asked, actual: ResourcesWire, granted: AmountsRaw, *, infeasible: bool) -> Asked:
    now, grant = read_requests(actual.requests), read_requests(granted)
    if asked == now == grant:  # no resize is under way, which is nearly always so
        return asked
    names = sorted({name for amounts in (asked, now, grant) for name, _ in amounts.rest})

    def largest(want: int | None, here: int | None, allowed: int | None) -> int | None:
        if want is None and here is None and allowed is None:
            return None
        return effective_nanos(want or 0, (here or 0, allowed or 0), infeasible=infeasible)

    rest = ((name, largest(_named(asked, name), _named(now, name), _named(grant, name)) or 0) for name in names)
    cpu, memory = largest(asked.cpu, now.cpu, grant.cpu), largest(asked.memory, now.memory, grant.memory)
    return Asked(cpu, memory, tuple(rest))


def _pod_level(spec: PodSpecWire, status: PodStatusWire, *, infeasible: bool) -> Asked:
    """The pod-level request of each resource that the spec names; resources that only the status names are ignored."""
    wanted = _requests(spec.resources)
    if status.resources is None or wanted is NOTHING_ASKED:
        return wanted
    found = _in_resize(wanted, status.resources, status.allocated_resources, infeasible=infeasible)
    cpu = None if wanted.cpu is None else found.cpu
    memory = None if wanted.memory is None else found.memory
    return Asked(cpu, memory, tuple((name, _named(found, name) or 0) for name, _ in wanted.rest))


def _statuses(status: PodStatusWire) -> _Statuses:
    found = {s.name: s for s in status.container_statuses or ()}
    if status.init_container_statuses:
        found.update((s.name, s) for s in status.init_container_statuses)
    return found


def resize_pending(status: PodStatusWire) -> Literal["Deferred", "Infeasible"] | None:
    """Whether the node has reported that it cannot resize the pod now (Deferred) or ever (Infeasible); None if neither."""
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return "Infeasible" if condition.reason == "Infeasible" else "Deferred"
    return None


def _requests(resources: ResourcesWire | None) -> Asked:
    return NOTHING_ASKED if resources is None else read_requests(resources.requests)
