"""A board: for one node and one pod, which device satisfies which request of the pod's claims. It is computed before the search
for an allocation.

A board identifies devices only by their positions in kube-scheduler's order, not by name. So nodes with equal devices have
equal boards, and one search answers for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
    DeviceTaint,
    DeviceToleration,
    Version,
)
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule

#: The states of pools whose devices may be allocated.
ALLOCATED_FROM = frozenset({"usable", "partial"})
#: The amount of a counter that other pools have and this one lacks: kube-scheduler does not check it.
_NO_LIMIT = 1 << 200
_PREVENTING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class DeviceError:
    """Why an ask cannot be judged for a device. With `supported` kube-scheduler fails too, and ends the pod's scheduling cycle;
    without it, the rule is not modelled here."""

    text: str
    supported: bool = True


class AskBoard(NamedTuple):
    """One ask for `wanted` devices (None: all). Each tuple has an entry for each device.

    `selectable`: the selectors accept the device and the node can use it. `tolerated`: the ask tolerates the device's taints.
    `consumes` is what the ask takes of the device's capacity; None if the device never has that much.
    """

    name: str
    wanted: int | None
    admin: bool
    selectable: tuple[bool | DeviceError, ...]
    tolerated: tuple[bool, ...]
    consumes: tuple[Consumption | None, ...]


class RequestBoard(NamedTuple):
    """A request with its asks. `name` is the request's own name; in results, alternatives are named request/ask."""

    name: str
    alternatives: bool
    asks: tuple[AskBoard, ...]


class ConstraintBoard(NamedTuple):
    """A constraint, with a number for each device's value of the attribute: equal values have equal numbers, -1 is no value."""

    distinct: bool
    requests: frozenset[str]
    values: tuple[int, ...]


class ClaimBoard(NamedTuple):
    """The requests and constraints of a claim."""

    requests: tuple[RequestBoard, ...]
    constraints: tuple[ConstraintBoard, ...]


class DeviceBoard(NamedTuple):
    """What the search has to know of a device itself. `pool` is the index of its pool; `consumes` are (index in the pool's
    counters, amount) pairs."""

    pool: int
    shareable: bool
    consumes: tuple[tuple[int, int], ...]


class PoolBoard(NamedTuple):
    """A pool: its state, which says whether its devices can be allocated, and the amounts of its counters. `shares` is the
    index of the first pool that draws from the same counters, usually its own."""

    state: str
    counters: tuple[int, ...]
    shares: int


@lru_cache(maxsize=8)
def rules_of(kubernetes: KubernetesVersion) -> frozenset[Rule]:
    """The rules that a version of Kubernetes follows."""
    return frozenset(rule for rule in Rule if kubernetes.follows(rule))


class Board(NamedTuple):
    """The devices of a node and what the claims of a pod ask of each, by the rules of one version of Kubernetes."""

    claims: tuple[ClaimBoard, ...]
    devices: tuple[DeviceBoard, ...]
    pools: tuple[PoolBoard, ...]
    rules: frozenset[Rule] = rules_of(DEFAULT_VERSION)


class Usage(NamedTuple):
    """What existing allocations use of a board's devices.

    `alone`: whether each device is in use by one request alone. `consumed`: for each device that requests share, its consumed
    capacity; None for other devices. `counters`: what is left of each pool's counters.
    """

    alone: tuple[bool, ...]
    consumed: tuple[tuple[tuple[str, int], ...] | None, ...]
    counters: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A board together with the real devices at its positions.

    `consumers` has for each pool the devices that draw on its counters, also those on other nodes, each with what it takes.
    """

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
    rules: frozenset[Rule],
) -> Layout:
    """Computes the layout of a node's pools for some claims. `known` has the numbers of all boards so far; a new board is added
    to it."""
    devices: list[PoolDevice] = []
    boards: list[DeviceBoard] = []
    pools: list[PoolBoard] = []
    consumers = []
    for at, (pool, (first, lines)) in enumerate(zip(nodes.pools, _counter_lines(nodes, rules), strict=True)):
        devices.extend(pool.devices)
        boards.extend(DeviceBoard(at, each.device.shareable, _lines(each.device, lines)) for each in pool.devices)
        amounts = {(each.name, name): amount for each in pool.counters for name, amount in each.counters}
        pools.append(PoolBoard(pool.state, tuple(amounts.get(line, _NO_LIMIT) for line in lines), first))
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


def _counter_lines(nodes: NodePools, rules: frozenset[Rule]) -> list[tuple[int, dict[tuple[str, str], int]]]:
    """For each pool the first pool that shares its counters, and the indexes of these counters by their names."""
    known: dict[object, tuple[int, dict[tuple[str, str], int]]] = {}
    found = []
    # Pools of one name draw from the counters of the first of them that is tried; 1.34 keeps counters by slice.
    by_name = Rule.INCOMPLETE_POOLS_UNUSED in rules and Rule.COUNTERS_BY_DRIVER not in rules
    for at, pool in enumerate(nodes.pools):
        first, lines = known.setdefault(pool.id[1] if by_name else pool.id, (at, {}))
        for each in pool.counters:
            for name, _ in each.counters:
                lines.setdefault((each.name, name), len(lines))
        found.append((first, lines))
    return found


def _lines(device: Device, lines: Mapping[tuple[str, str], int]) -> tuple[tuple[int, int], ...]:
    return tuple((lines[each.name, name], amount) for each in device.consumes for name, amount in each.counters)


class _View:
    """Computes what each ask may get of a node's devices (`AskBoard`). Asks that differ only in name, number or admin access
    share one computation."""

    def __init__(
        self, devices: Sequence[PoolDevice], classes: Mapping[str, DeviceClass], selectors: Selectors, rules: frozenset[Rule]
    ) -> None:
        self.devices = devices
        self._classes = classes
        self._selectors = selectors
        self._rules = rules
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
            tolerated=tuple([_all_tolerated(each.device.taints, ask.tolerations, self._rules) for each in devices]),
            consumes=tuple([None if isinstance(more, DeviceError) else more for more in consumes]),
        )

    def _consumption(self, ask: DeviceAsk, device: Device) -> Consumption | DeviceError | None:
        try:
            return consumption(
                device,
                ask.consumes,
                thousandths=Rule.FRACTIONAL_CAPACITY in self._rules,
                in_range=Rule.AMOUNTS_IN_RANGE in self._rules,
            )
        except AmountError as err:
            return DeviceError(str(err))


def _claim(claim: ClaimSpec, view: _View) -> ClaimBoard:
    return ClaimBoard(
        requests=tuple(
            RequestBoard(request.name, request.alternatives, tuple(map(view.of, request.asks))) for request in claim.requests
        ),
        constraints=tuple(
            ConstraintBoard(each.distinct, frozenset(each.requests), _values(each.attribute, view.devices))
            for each in claim.constraints
        ),
    )


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


def _all_tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...], rules: frozenset[Rule]) -> bool:
    preventing = (taint for taint in taints if taint.effect in _PREVENTING or Rule.ONLY_KNOWN_EFFECTS not in rules)
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in preventing)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def _values(attribute: str, devices: Sequence[PoolDevice]) -> tuple[int, ...]:
    numbers: dict[tuple[str, Attribute], int] = {}
    values = (_value(attribute, each) for each in devices)
    return tuple(-1 if value is None else numbers.setdefault((type(value).__name__, value), len(numbers)) for value in values)


def _value(attribute: str, each: PoolDevice) -> str | int | bool | Version | None:
    """The device's value of a fully qualified attribute, None if it has none. The driver's own attributes may be published
    without its domain."""
    found = dict(each.device.attributes)
    if attribute in found:
        return found[attribute]
    domain, slash, name = attribute.partition("/")
    return found.get(name) if slash and domain == each.id.driver else None


def is_hopeless(board: Board, usage: Usage) -> bool:
    """Whether the claims certainly cannot be allocated: too few devices suit a single request, or all those requests together
    that need devices for themselves. False also if the search may end in an error."""
    requests = [request for claim in board.claims for request in claim.requests]
    if any(may_fail(claim) for claim in board.claims):
        return False
    wanted, suiting = 0, set[int]()
    for request in requests:
        found = [_suiting(board, usage, ask) for ask in request.asks]
        if not any(_suffices(board, ask, devices) for ask, devices in zip(request.asks, found, strict=True)):
            return True
        ask, devices = request.asks[0], found[0]
        alone = not request.alternatives and ask.wanted is not None and not ask.admin
        if alone and not any(board.devices[at].shareable for at in devices):
            wanted += ask.wanted or 0
            suiting.update(devices)
    return wanted > len(suiting)


def may_fail(claim: ClaimBoard) -> bool:
    """Whether kube-scheduler may end with an error on the claim: a selector fails, or a request for all devices violates a
    constraint."""
    asks = [ask for request in claim.requests for ask in request.asks]
    if claim.constraints and any(ask.wanted is None for ask in asks):
        return True
    return any(isinstance(each, DeviceError) for ask in asks for each in ask.selectable)


def _suiting(board: Board, usage: Usage, ask: AskBoard) -> list[int]:
    """The positions of devices that the ask could get if nothing else were asked for."""
    return [
        at
        for at, device in enumerate(board.devices)
        if ask.selectable[at] is True
        and ask.tolerated[at]
        and ask.consumes[at] is not None
        and board.pools[device.pool].state in ALLOCATED_FROM
        and (ask.admin or not usage.alone[at])
    ]


def _suffices(board: Board, ask: AskBoard, devices: list[int]) -> bool:
    """Whether these devices may be enough. For an ask for all devices one is enough here: only the search knows how many there
    are. So it is where a request may get a shared device several times."""
    again = Rule.SHARED_ONCE not in board.rules and any(board.devices[at].shareable for at in devices)
    return len(devices) >= (1 if ask.wanted is None or again else ask.wanted)
