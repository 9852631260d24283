"""Computes what a pod requests from its wire form: decodes ResourceLists, picks amounts for `model.resources`, and finds
missing requests.

Each distinct ResourceList is decoded once, because very many objects contain the same few texts. CPU and memory, which every
decision reads, become fields. All other resources stay a sorted list. Lists that cannot be read raise ValueError
(`QuantityError`, msgspec's errors). Numbers are bounded where they become integers of a column (`whole`,
`model.resources.rounded_up`).
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from slackwater.adapters.api_objects import Quantity
from slackwater.adapters.kube.structs import (
    AmountsRaw,
    ContainerStatusWire,
    ContainerWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    ResourcesWire,
)
from slackwater.model.devices import CLASS_RESOURCE_PREFIX
from slackwater.model.interning import cached_texts
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.resources import (
    CPU,
    LARGEST_AMOUNT,
    MEMORY,
    RESOURCES,
    Amounts,
    InitRequest,
    effective_nanos,
    is_extended_resource,
    pod_nanos,
    rounded_up,
)
from slackwater_protocol.units import QuantityError, parse_nanos

#: How many distinct texts are cached, and their greatest length.
_CACHED_LISTS: Final = 16_384
_LONGEST_LIST: Final = 256
_LIST: Final = msgspec.json.Decoder(dict[str, Quantity | None] | None)
_NULL: Final = b"null"
_NANOS: Final = 1_000_000_000
_NATIVE: Final = "kubernetes.io/"


class ResourceListAmounts(NamedTuple):
    """The amounts of one ResourceList, in nanos. `cpu` and `memory` are None if not named; `rest` is sorted by name."""

    cpu: int | None = None
    memory: int | None = None
    rest: tuple[tuple[str, int], ...] = ()


NOTHING_ASKED: Final = ResourceListAmounts()


def read_amounts(raw: AmountsRaw) -> ResourceListAmounts:
    return _read(bytes(raw))


@cached_texts(most=_CACHED_LISTS, longest=_LONGEST_LIST)
def _read(raw: bytes) -> ResourceListAmounts:
    found = {} if raw == _NULL else _LIST.decode(raw) or {}
    nanos = {name: parse_nanos(amount) for name, amount in found.items() if amount is not None}
    cpu, memory = nanos.pop("cpu", None), nanos.pop("memory", None)
    return ResourceListAmounts(cpu, memory, tuple(sorted(nanos.items())))


def read_requests(raw: AmountsRaw) -> ResourceListAmounts:
    """Decodes requests, limits or overhead: lists that must have no negative amounts. Otherwise raises `QuantityError`."""
    return _read_requests(bytes(raw))


@cached_texts(most=_CACHED_LISTS, longest=_LONGEST_LIST)
def _read_requests(raw: bytes) -> ResourceListAmounts:
    asked = _read(raw)
    for name, nanos in (("cpu", asked.cpu), ("memory", asked.memory), *asked.rest):
        if nanos is not None and nanos < 0:
            raise QuantityError(f"{nanos / _NANOS:g}", f"negative {name}, want 0 or more")
    return asked


def _reported(raw: AmountsRaw) -> ResourceListAmounts:
    """Decodes amounts of a status, which the API server does not check: negative ones count as 0."""
    cpu, memory, rest = _read(bytes(raw))
    if min(cpu or 0, memory or 0, *(nanos for _, nanos in rest), 0) >= 0:
        return ResourceListAmounts(cpu, memory, rest)
    cpu, memory = (None if nanos is None else max(nanos, 0) for nanos in (cpu, memory))
    return ResourceListAmounts(cpu, memory, tuple((name, max(nanos, 0)) for name, nanos in rest))


def whole(nanos: int) -> int:
    """Nanos rounded up to whole units, as kube-scheduler counts every resource but CPU; at most `LARGEST_AMOUNT`."""
    return max(-LARGEST_AMOUNT, min(-(-nanos // _NANOS), LARGEST_AMOUNT))


def is_extended(name: str) -> bool:
    """True if a DeviceClass may back the resource: an extended resource, or one that names a class."""
    return name.startswith(CLASS_RESOURCE_PREFIX) or is_extended_resource(name)


def is_scalar(name: str) -> bool:
    """True if kube-scheduler counts the resource as a scalar resource, that is, one other than CPU and memory."""
    if name == "ephemeral-storage" or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and (not name.startswith("requests.") or _NATIVE in name)


#: What kube-scheduler's scoring assumes for a container without a request: 100 millicores, 200 MiB. In nanos.
_ASSUMED: Final = (100 * 10**6, 200 * 1024 * 1024 * 10**9)
_NO_STATUS: Final = PodStatusWire()
_HUGE_PAGES: Final = "hugepages-"
_Statuses = Mapping[str, ContainerStatusWire]


class _Containers(NamedTuple):
    """The amounts of a pod's containers, as the spec or the status has them. `inits` pairs each amount with "is a sidecar".

    `exact`: missing amounts are 0, whatever default `nanos` has for them."""

    apps: Sequence[ResourceListAmounts]
    inits: Sequence[tuple[ResourceListAmounts, bool]] = ()
    exact: bool = False

    def nanos(self, of: Callable[[ResourceListAmounts], int | None], assumed: int) -> int:
        """The pod's total of one resource in nanos. `of` picks the resource; `assumed` stands for a missing amount."""
        missing = 0 if self.exact else assumed

        def filled(asked: ResourceListAmounts) -> int:
            nanos = of(asked)
            return missing if nanos is None else nanos

        inits = [InitRequest(filled(asked), sidecar) for asked, sidecar in self.inits]
        return pod_nanos(apps=[filled(asked) for asked in self.apps], inits=inits, pod_level=None)

    def each(self) -> Iterable[ResourceListAmounts]:
        return (*self.apps, *(asked for asked, _ in self.inits))

    def scalar_nanos(self) -> dict[str, int]:
        """The pod's totals of all resources but CPU and memory, in nanos. For each resource only the containers that name it
        are looked at, since a pod may have thousands of both."""
        apps: defaultdict[str, list[int]] = defaultdict(list)
        inits: defaultdict[str, list[InitRequest]] = defaultdict(list)
        for asked in self.apps:
            for name, nanos in asked.rest:
                apps[name].append(nanos)
        for asked, sidecar in self.inits:
            for name, nanos in asked.rest:
                inits[name].append(InitRequest(nanos, sidecar))
        names = dict.fromkeys((*apps, *inits))
        return {name: pod_nanos(apps=apps[name], inits=inits[name], pod_level=None) for name in names}


class Ask:
    """The requests of one pod's containers, with resizes taken into account. Raises `QuantityError` for an invalid quantity.

    `placed`: the pod has a node, so a resize may be under way; like kube-scheduler, the status is read for such pods only.
    `held`: computes what the pod has now, without an increase that its node has not granted. `granted`: computes as if the node
    had granted all of the spec's requests, as a pod that replaces this one would request them.
    """

    __slots__ = ("_overhead", "_views", "_whole")

    def __init__(
        self,
        wire: PodWire,
        kubernetes: KubernetesVersion = DEFAULT_VERSION,
        *,
        placed: bool = True,
        held: bool = False,
        granted: bool = False,
    ) -> None:
        spec = wire.spec
        status = wire.status if placed else _NO_STATUS
        infeasible = held or (not granted and resize_pending(status) == "Infeasible")
        self._overhead = read_requests(spec.overhead)
        leveled = spec.resources is not None and kubernetes.follows(Rule.POD_LEVEL_RESOURCES)
        resized = leveled and kubernetes.follows(Rule.POD_LEVEL_RESIZE)
        by_sums = kubernetes.follows(Rule.RESIZED_BY_SUMS)
        level_status = status if resized else _NO_STATUS
        #: The pod's request is the largest of these.
        self._views: Sequence[_Containers]
        reports = status.container_statuses or status.init_container_statuses or status.resources is not None
        if by_sums and placed and (reports or (infeasible and not held)):
            resizes = kubernetes.follows(Rule.POD_LEVEL_RESIZE)
            self._views = _sums(spec, status, resized=resizes, infeasible=infeasible, held=held)
        else:
            self._views = (_by_largest(spec, _statuses(status), infeasible=infeasible),)
        self._whole = _pod_level(spec, level_status, infeasible=infeasible, more=by_sums) if leveled else NOTHING_ASKED

    def requests(self) -> Amounts:
        """The pod's CPU and memory requests, by the formula of `model.resources`."""
        first = self._views[0]
        # Nearly every pod: one container, nothing in resize.
        if self._whole is NOTHING_ASKED and len(self._views) == 1 and not first.inits and len(first.apps) == 1:
            (app,), overhead = first.apps, self._overhead
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

    @property
    def has_scalars(self) -> bool:
        """Whether a container names a resource other than CPU and memory."""
        return any(asked.rest for asked in self._containers())

    def scalars(self) -> tuple[tuple[str, int], ...]:
        """The requests of scalar resources, sorted by name, without zeros."""
        lists = (*self._containers(), self._overhead, self._whole)
        if not any(asked.rest for asked in lists):
            return ()
        names = sorted({name for asked in lists for name, _ in asked.rest if is_scalar(name)})
        views = [view.scalar_nanos() for view in self._views]
        level, overhead = dict(self._whole.rest), dict(self._overhead.rest)

        def total(name: str) -> int:
            asked = level.get(name) if name.startswith(_HUGE_PAGES) else None
            return (max(view.get(name, 0) for view in views) if asked is None else asked) + overhead.get(name, 0)

        found = ((name, whole(total(name))) for name in names)
        return tuple(pair for pair in found if pair[1])

    def _containers(self) -> Iterable[ResourceListAmounts]:
        return itertools.chain.from_iterable(view.each() for view in self._views)

    def _stated(self, resource: int) -> bool:
        return any(_of(asked, resource) is not None for asked in (*self._containers(), self._overhead, self._whole))

    def _nanos(self, resource: int, assumed: int, *, level: bool = True) -> int:
        whole = _of(self._whole, resource) if level else None
        if whole is None:
            whole = max(view.nanos(partial(_of, resource=resource), assumed) for view in self._views)
        return whole + (_of(self._overhead, resource) or 0)


def pod_requests(wire: PodWire, kubernetes: KubernetesVersion = DEFAULT_VERSION, *, spec_only: bool = False) -> Amounts:
    """The pod's requests by `model.resources`; with `spec_only` the status of a resize is ignored. Raises `QuantityError`."""
    return Ask(wire, kubernetes, placed=not spec_only).requests()


def held_requests(wire: PodWire, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> Amounts:
    """What the pod has now: its requests without an increase that its node has not granted. Raises `QuantityError`."""
    return Ask(wire, kubernetes, held=True).requests()


def container_requests(container: ContainerWire) -> Amounts:
    """The requests in the spec of one container. Raises `QuantityError`."""
    asked = _requests(container.resources)
    return rounded_up(cpu_nanos=asked.cpu or 0, memory_nanos=asked.memory or 0)


def _of(asked: ResourceListAmounts, resource: int) -> int | None:
    return asked.cpu if resource == CPU else asked.memory


def missing_request(spec: PodSpecWire, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> str | None:
    """Names the first app container or sidecar without a request, and the resource ("app: memory"); None if there is none.

    A limit without a request is complete, because the API server copies the limit to the request. A pod-level request covers
    its containers.
    """
    whole_pod = _requests(spec.resources) if kubernetes.follows(Rule.POD_LEVEL_RESOURCES) else NOTHING_ASKED
    for container in (*(spec.containers or ()), *filter(_is_sidecar, spec.init_containers or ())):
        asked = _requests(container.resources)
        if asked.cpu is None and whole_pod.cpu is None:
            return f"{container.name}: {RESOURCES[CPU]}"
        if asked.memory is None and whole_pod.memory is None:
            return f"{container.name}: {RESOURCES[MEMORY]}"
    return None


def _is_sidecar(container: ContainerWire) -> bool:
    return container.restart_policy == "Always"


def _by_largest(spec: PodSpecWire, statuses: _Statuses, *, infeasible: bool) -> _Containers:
    """The containers, each with the largest amounts that it may have during a resize: the rule before Kubernetes 1.37.

    An init container that is no sidecar cannot be resized, so its status is not read."""
    inits = [
        (_effective(c, statuses, infeasible=infeasible), True) if _is_sidecar(c) else (_requests(c.resources), False)
        for c in spec.init_containers or ()
    ]
    return _Containers([_effective(c, statuses, infeasible=infeasible) for c in spec.containers or ()], inits)


def _sums(spec: PodSpecWire, status: PodStatusWire, *, resized: bool, infeasible: bool, held: bool) -> Sequence[_Containers]:
    """The containers' amounts in three views: in the spec, allocated by the node, and actual.

    This is the rule since Kubernetes 1.37. Pod-level amounts in the status replace the last two views. If the resize is
    infeasible, the spec's view is left out, and a container whose status has no amounts counts for nothing; with `held` for its
    spec, since it does have something."""
    statuses, nothing_new = _statuses(status), NOTHING_ASKED if infeasible and not held else None
    asked = _of_all(spec, lambda container: _requests(container.resources))
    if (
        resized
        and status.resources is not None
        and not (_is_null(status.allocated_resources) or _is_null(status.resources.requests))
    ):
        allocated, actual = _reported(status.allocated_resources), _reported(status.resources.requests)
        reported = [_Containers([allocated], exact=True), _Containers([actual], exact=True)]
    else:

        def allocated_of(container: ContainerWire) -> ResourceListAmounts:
            found = statuses.get(container.name)
            if found is not None and not _is_null(found.allocated_resources):
                return _reported(found.allocated_resources)
            return _requests(container.resources) if nothing_new is None else nothing_new

        def actual_of(container: ContainerWire) -> ResourceListAmounts:
            found = statuses.get(container.name)
            if found is not None and found.resources is not None and not _is_null(found.resources.requests):
                return _reported(found.resources.requests)
            return allocated_of(container)

        reported = [_of_all(spec, allocated_of), _of_all(spec, actual_of)]
    return reported if infeasible else [asked, *reported]


def _of_all(spec: PodSpecWire, amounts: Callable[[ContainerWire], ResourceListAmounts]) -> _Containers:
    inits = [(amounts(container), _is_sidecar(container)) for container in spec.init_containers or ()]
    return _Containers([amounts(container) for container in spec.containers or ()], inits)


def _is_null(raw: AmountsRaw) -> bool:
    return bytes(raw) == _NULL


def _effective(container: ContainerWire, statuses: _Statuses, *, infeasible: bool) -> ResourceListAmounts:
    asked = _requests(container.resources)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    return _in_resize(asked, status.resources, status.allocated_resources, infeasible=infeasible)


def _in_resize(
    asked: ResourceListAmounts, actual: ResourcesWire, granted: AmountsRaw, *, infeasible: bool
) -> ResourceListAmounts:
    now, grant = _reported(actual.requests), _reported(granted)
    if asked == now == grant:  # no resize is under way, which is nearly always so
        return asked
    wants, here, allowed = dict(asked.rest), dict(now.rest), dict(grant.rest)
    names = sorted({*wants, *here, *allowed})

    def largest(want: int | None, has: int | None, may: int | None) -> int | None:
        if has is None and may is None and (want is None or infeasible):
            return None
        return effective_nanos(want or 0, (has or 0, may or 0), infeasible=infeasible)

    each = ((name, largest(wants.get(name), here.get(name), allowed.get(name))) for name in names)
    rest = ((name, nanos) for name, nanos in each if nanos is not None)
    cpu, memory = largest(asked.cpu, now.cpu, grant.cpu), largest(asked.memory, now.memory, grant.memory)
    return ResourceListAmounts(cpu, memory, tuple(rest))


def _pod_level(spec: PodSpecWire, status: PodStatusWire, *, infeasible: bool, more: bool) -> ResourceListAmounts:
    """The pod-level request of each resource that the spec names, with `more` also of those that only the status names."""
    wanted = _requests(spec.resources)
    if status.resources is None or wanted is NOTHING_ASKED:
        return wanted
    found = _in_resize(wanted, status.resources, status.allocated_resources, infeasible=infeasible)
    if more:
        return found
    cpu = None if wanted.cpu is None else found.cpu or 0
    memory, rest = None if wanted.memory is None else found.memory or 0, dict(found.rest)
    return ResourceListAmounts(cpu, memory, tuple((name, rest.get(name) or 0) for name, _ in wanted.rest))


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


def _requests(resources: ResourcesWire | None) -> ResourceListAmounts:
    return NOTHING_ASKED if resources is None else read_requests(resources.requests)
