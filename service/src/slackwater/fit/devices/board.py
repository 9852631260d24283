"""A board: what the devices of one node mean to the asks of one pod's claims, computed before the search for an allocation.

A board has no names of devices, only their positions in kube-scheduler's order. Nodes of the same make have equal boards, so
one search answers for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slackwater.fit.devices.capacity import AmountError, Consumption, consumption
from slackwater.fit.devices.pools import NodePools, PoolDevice
from slackwater.fit.devices.selectors import SelectorError, Selectors, UnsupportedSelector
from slackwater.model.devices import (
    Attribute,
    ClaimSpec,
    Device,
    DeviceAsk,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    Version,
)
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule

#: States of pools whose devices are allocated.
ALLOCATED_FROM = frozenset({"usable", "partial"})
_PREVENTING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class DeviceError:
    """Why an ask cannot be judged for a device. `supported`: kube-scheduler fails there too, and ends the pod's cycle."""

    text: str
    supported: bool = True


class AskBoard(NamedTuple):
    """One ask for `wanted` devices (None: all), with an entry for each device: whether the selectors accept it and the node
    reaches it, whether its taints are tolerated, and what the ask consumes of it (None where it asks more than there ever is).
    """

    name: str
    wanted: int | None
    admin: bool
    selectable: tuple[bool | DeviceError, ...]
    tolerated: tuple[bool, ...]
    consumes: tuple[Consumption | None, ...]


class RequestBoard(NamedTuple):
    """A request with its asks. `name` is its own; results of alternatives are named request/ask."""

    name: str
    alternatives: bool
    asks: tuple[AskBoard, ...]


class ConstraintBoard(NamedTuple):
    """A constraint, with the value of its attribute for each device: equal numbers are equal values, -1 is none."""

    distinct: bool
    requests: frozenset[str]
    values: tuple[int, ...]


class ClaimBoard(NamedTuple):
    """The requests and constraints of a claim."""

    requests: tuple[RequestBoard, ...]
    constraints: tuple[ConstraintBoard, ...]


class DeviceBoard(NamedTuple):
    """What the search has to know of a device itself. `consumes` are lines of the counters of its pool, with amounts."""

    pool: int
    shareable: bool
    consumes: tuple[tuple[int, int], ...]


class PoolBoard(NamedTuple):
    """A pool: whether its devices can be allocated, and the amounts of its counters."""

    state: str
    counters: tuple[int, ...]


class SearchRules(NamedTuple):
    """The rules of a version of Kubernetes for the search.

    `distinct` constraints are known; an invalid pool fails the pod; "all" devices include those whose capacity is in use;
    amounts have thousandths; a share without an amount counts; distinct values differ from those of all devices.
    """

    distinct: bool
    fails_at_invalid_pool: bool
    all_by_capacity: bool
    thousandths: bool
    every_share: bool
    distinct_from_all: bool

    @classmethod
    def of(cls, kubernetes: KubernetesVersion) -> "SearchRules":
        return cls(
            # In 1.34 both the API server and the allocator forget to look at the gate.
            distinct=kubernetes.follows(Rule.CONSUMABLE_CAPACITY) or not kubernetes.follows(Rule.INCOMPLETE_POOLS_UNUSED),
            fails_at_invalid_pool=not kubernetes.follows(Rule.INCOMPLETE_POOLS_UNUSED),
            all_by_capacity=kubernetes.follows(Rule.ALL_BY_CAPACITY),
            thousandths=kubernetes.follows(Rule.FRACTIONAL_CAPACITY),
            every_share=kubernetes.follows(Rule.SHARES_WITHOUT_AMOUNT),
            distinct_from_all=kubernetes.follows(Rule.DISTINCT_FROM_ALL),
        )


class Board(NamedTuple):
    """The devices of a node, and what the claims of a pod ask of them, by the rules of a version."""

    claims: tuple[ClaimBoard, ...]
    devices: tuple[DeviceBoard, ...]
    pools: tuple[PoolBoard, ...]
    rules: SearchRules = SearchRules.of(DEFAULT_VERSION)


class Usage(NamedTuple):
    """What allocations use of the devices of a board: `alone` are devices in use, `consumed` the consumed capacity of devices
    that requests share (None for a device without shares), `counters` what is left of each pool's counters."""

    alone: tuple[bool, ...]
    consumed: tuple[tuple[tuple[str, int], ...] | None, ...]
    counters: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A board with the devices at its positions, and for each pool the devices on other nodes that share its counters."""

    board: Board
    number: int  #: equal boards have equal numbers
    devices: tuple[PoolDevice, ...]
    ids: tuple[DeviceId, ...]  #: of the devices
    consumers: tuple[tuple[tuple[PoolDevice, tuple[tuple[int, int], ...]], ...], ...]


def lay_out(
    claims: Sequence[ClaimSpec],
    nodes: NodePools,
    classes: Mapping[str, DeviceClass],
    selectors: Selectors,
    known: dict[Board, int],
    *,
    rules: SearchRules,
) -> Layout:
    """The layout of a node's pools for some claims; `known` has the numbers of the boards so far."""
    devices: list[PoolDevice] = []
    boards: list[DeviceBoard] = []
    pools: list[PoolBoard] = []
    consumers = []
    for at, pool in enumerate(nodes.pools):
        lines = {
            (each.name, name): line
            for line, (each, name) in enumerate((each, name) for each in pool.counters for name, _ in each.counters)
        }
        devices.extend(pool.devices)
        boards.extend(DeviceBoard(at, each.device.shareable, _lines(each.device, lines)) for each in pool.devices)
        pools.append(PoolBoard(pool.state, tuple(amount for each in pool.counters for _, amount in each.counters)))
        drawing = (*pool.devices, *pool.others) if lines else ()
        consumers.append(tuple((each, _lines(each.device, lines)) for each in drawing if each.device.consumes))
    view = _View(devices, classes, selectors, rules)
    board = Board(
        claims=tuple(_claim(claim, view) for claim in claims),
        devices=tuple(boards),
        pools=tuple(pools),
        rules=rules,
    )
    return Layout(
        board=board,
        number=known.setdefault(board, len(known)),
        devices=tuple(devices),
        ids=tuple(each.id for each in devices),
        consumers=tuple(consumers),
    )


def _lines(device: Device, lines: Mapping[tuple[str, str], int]) -> tuple[tuple[int, int], ...]:
    return tuple((lines[each.name, name], amount) for each in device.consumes for name, amount in each.counters)


class _View:
    """The devices of a node, and what asks mean to them: asks that differ in name or number alone share it."""

    def __init__(
        self, devices: Sequence[PoolDevice], classes: Mapping[str, DeviceClass], selectors: Selectors, rules: SearchRules
    ) -> None:
        self.devices = devices
        self._classes = classes
        self._selectors = selectors
        self._thousandths = rules.thousandths
        self._known: dict[object, AskBoard] = {}

    def of(self, ask: DeviceAsk) -> AskBoard:
        key = (ask.class_name, ask.selectors, ask.tolerations, ask.consumes)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._board(ask)
        return found._replace(name=ask.name, wanted=ask.count, admin=ask.admin)

    def _board(self, ask: DeviceAsk) -> AskBoard:
        classes, selectors, devices = self._classes, self._selectors, self.devices
        consumes = [self._consumption(ask, each.device) for each in devices]
        selectable = [_selectable(ask, classes, each, selectors) for each in devices]
        return AskBoard(
            name=ask.name,
            wanted=ask.count,
            admin=ask.admin,
            selectable=tuple(
                [
                    more if known is True and isinstance(more, DeviceError) else known
                    for known, more in zip(selectable, consumes, strict=True)
                ]
            ),
            tolerated=tuple([_tolerated(each.device.taints, ask.tolerations) for each in devices]),
            consumes=tuple([None if isinstance(more, DeviceError) else more for more in consumes]),
        )

    def _consumption(self, ask: DeviceAsk, device: Device) -> Consumption | DeviceError | None:
        try:
            return consumption(device, ask.consumes, thousandths=self._thousandths)
        except AmountError as err:
            return DeviceError(str(err))


def _claim(claim: ClaimSpec, view: _View) -> ClaimBoard:
    return ClaimBoard(
        requests=tuple(_request(request, view) for request in claim.requests),
        constraints=tuple(
            ConstraintBoard(each.distinct, frozenset(each.requests), _values(each.attribute, view.devices))
            for each in claim.constraints
        ),
    )


def _request(request: DeviceRequest, view: _View) -> RequestBoard:
    return RequestBoard(request.name, request.alternatives, tuple(map(view.of, request.asks)))


def _selectable(
    ask: DeviceAsk, classes: Mapping[str, DeviceClass], each: PoolDevice, selectors: Selectors
) -> bool | DeviceError:
    found = classes.get(ask.class_name)
    if found is None:
        return DeviceError(f"could not retrieve device class {ask.class_name}")
    try:
        accepted = selectors.match((*found.selectors, *ask.selectors), each.id.driver, each.device)
    except SelectorError as err:
        return DeviceError(f"CEL runtime error: {err}")
    except UnsupportedSelector as err:
        return DeviceError(str(err), supported=False)
    return accepted and each.reached


def _tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    return all(
        taint.effect not in _PREVENTING or any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def _values(attribute: str, devices: Sequence[PoolDevice]) -> tuple[int, ...]:
    numbers: dict[tuple[str, Attribute], int] = {}
    values = (_value(attribute, each) for each in devices)
    return tuple(-1 if value is None else numbers.setdefault((type(value).__name__, value), len(numbers)) for value in values)


def _value(attribute: str, each: PoolDevice) -> str | int | bool | Version | None:
    """The value of a fully qualified attribute. The driver's own attributes may be published without its domain."""
    found = dict(each.device.attributes)
    if attribute in found:
        return found[attribute]
    domain, slash, name = attribute.partition("/")
    return found.get(name) if slash and domain == each.id.driver else None
