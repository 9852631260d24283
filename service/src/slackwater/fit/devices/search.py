"""The search for an allocation: the first devices, in kube-scheduler's order, that satisfy all requests of a pod's claims.

Like kube-scheduler's, it is exhaustive: request by request, device by device, and back one step when no device is left. It ends
at the first full solution. kube-scheduler gives up after some seconds; here the limit is a number of steps, so that the same
input always gives the same answer. A long search remembers what it could not complete: the same devices in the hands of other
requests leave the same to the requests that follow.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from slackwater.fit.devices.board import (
    ALLOCATED_FROM,
    AskBoard,
    Board,
    DeviceError,
    RequestBoard,
    Usage,
    is_hopeless,
    may_fail,
)
from slackwater.fit.devices.capacity import Consumption
from slackwater.model.devices import MOST_RESULTS
from slackwater.model.kubernetes_rules import Rule

#: Steps of one search; each tries one device, or goes on to the next request.
_MOST_STEPS: Final = 100_000
_FEW_STEPS: Final = 2_000
_TOO_LONG: Final = f"no allocation was found within {_MOST_STEPS:,} steps"
#: How deep calls may nest: two levels for each device, three for each request.
_MOST_DEEP: Final = 600


class PickedDevice(NamedTuple):
    """A device that the search chose. All fields are indexes: of the claim, of the request in the claim, of the ask in the
    request, and of the device on the board."""

    claim: int
    request: int
    ask: int
    device: int


class Failure(Enum):
    """Why there is no allocation."""

    NONE_FITS = "cannot allocate all claims"
    INVALID_POOL = "invalid resource pools were encountered"
    FAILED = "kube-scheduler fails"
    UNSUPPORTED = "not modelled"


@dataclass(frozen=True, slots=True)
class Unallocatable:
    """The result of a search without a solution. `text` explains the failures FAILED and UNSUPPORTED; otherwise it is empty."""

    failure: Failure
    text: str = ""


class _End(Exception):
    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.result = Unallocatable(failure, text)


class _TooManySteps(Exception):
    pass


class _Found(Enum):
    YES = 1
    NO = 2
    TOO_MANY = 3  #: more devices than one claim may have


def search(board: Board, usage: Usage) -> tuple[PickedDevice, ...] | Unallocatable:
    """Finds the devices for the claims of a board, or why there are none.

    If a short search does not end, each claim is searched alone before the long search: a claim that cannot be allocated alone
    cannot be allocated together with others.
    """
    found = _searched(board, usage, _FEW_STEPS)
    if found is not None:
        return found
    if len(board.claims) > 1 and not any(map(may_fail, board.claims)):
        for claim in board.claims:
            alone = _searched(board._replace(claims=(claim,)), usage, _FEW_STEPS)
            if isinstance(alone, Unallocatable):
                return alone
    found = _searched(board, usage, _MOST_STEPS)
    return Unallocatable(Failure.UNSUPPORTED, _TOO_LONG) if found is None else found


def _searched(board: Board, usage: Usage, steps: int) -> tuple[PickedDevice, ...] | Unallocatable | None:
    """The result of a search; None if it takes more than `steps` steps."""
    try:
        return _Search(board, usage, steps).run()
    except _TooManySteps:
        return None
    except _End as end:
        return end.result


class _Search:
    """One search, with the devices chosen so far."""

    def __init__(self, board: Board, usage: Usage, most_steps: int) -> None:
        self._board = board
        self._most_steps = most_steps
        self._usage = usage
        self._steps = 0
        self._picks: list[PickedDevice] = []
        #: The devices that each claim chose, and how many times each device was chosen for one request alone.
        self._chosen: list[set[int]] = [set() for _ in board.claims]
        self._alone: list[int] = [0] * len(board.devices)
        self._results: list[int] = [0] * len(board.claims)
        self._consumed: dict[int, dict[str, int]] = {}
        self._sharers: dict[int, int] = {}
        #: What is left of counters, by the first pool that shares them (`PoolBoard.shares`).
        self._counters: dict[int, list[int]] = {}
        self._constraints = [
            [_Constrained(of_all=Rule.DISTINCT_FROM_ALL in board.rules) for _ in claim.constraints] for claim in board.claims
        ]
        self._every: dict[tuple[int, int, int], list[int]] = {}
        #: For each pick, whether it took counters of its pool.
        self._drawn: list[bool] = []
        #: The states (`_state`) without a solution; None in a short search, where looking them up costs more than it saves.
        self._failed: set[tuple[object, ...]] | None = None if most_steps == _FEW_STEPS else set()

    def run(self) -> tuple[PickedDevice, ...] | Unallocatable:
        board, rules = self._board, self._board.rules
        # In 1.34 both the API server and the allocator forget to look at the gate.
        knows_distinct = Rule.CONSUMABLE_CAPACITY in rules or Rule.INCOMPLETE_POOLS_UNUSED not in rules
        for at, claim in enumerate(board.claims):
            if any(constraint.distinct for constraint in claim.constraints) and not knows_distinct:
                raise _End(Failure.FAILED, "empty constraint (distinctAttribute needs the gate DRAConsumableCapacity)")
            least = sum(
                min(self._need(at, number, which, ask) for which, ask in enumerate(request.asks))
                for number, request in enumerate(claim.requests)
            )
            if least > MOST_RESULTS:
                raise _End(Failure.FAILED, f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}")
        # How deep the calls of the search can nest.
        depth = sum(
            3 + 2 * min(MOST_RESULTS, max(self._need(at, number, which, ask) for which, ask in enumerate(request.asks)))
            for at, claim in enumerate(board.claims)
            for number, request in enumerate(claim.requests)
        )
        if depth > _MOST_DEEP:
            raise _End(Failure.UNSUPPORTED, "one pod asks for more devices than are searched")
        if not is_hopeless(board, self._usage) and self._claim_request(0, 0) is _Found.YES:
            return tuple(self._picks)
        if any(pool.state == "invalid" for pool in board.pools):
            if Rule.INCOMPLETE_POOLS_UNUSED in rules:
                return Unallocatable(Failure.INVALID_POOL)
            return Unallocatable(Failure.FAILED, "a resource pool is invalid")
        return Unallocatable(Failure.NONE_FITS)

    def _need(self, claim: int, request: int, which: int, ask: AskBoard) -> int:
        """How many devices an ask needs. An ask for all devices needs every pool to be complete and valid: otherwise the search
        ends."""
        if ask.wanted is not None:
            return ask.wanted
        key = (claim, request, which)
        if key not in self._every:
            for pool in self._board.pools:
                if pool.state != "usable":
                    why = "invalid" if pool.state == "invalid" else "being updated"
                    raise _End(Failure.FAILED, f"request {ask.name} asks for all devices, but a resource pool is {why}")
            self._every[key] = [
                at for at in range(len(self._board.devices)) if self._selectable(ask, at) and self._is_among_all(ask, at)
            ]
        return len(self._every[key])

    def _claim_request(self, claim: int, request: int) -> _Found:
        """Allocates this request of this claim and everything after it."""
        if claim >= len(self._board.claims):
            return _Found.YES
        requests = self._board.claims[claim].requests
        if request >= len(requests):
            found = self._claim_request(claim + 1, 0)
            # Another choice for an earlier claim may need fewer devices of its own.
            return _Found.NO if found is _Found.TOO_MANY else found
        if not requests[request].alternatives:
            return self._ask(claim, request, 0, 0, 0)
        all_too_many = True
        for which in range(len(requests[request].asks)):
            found = self._ask(claim, request, which, 0, 0)
            if found is _Found.YES:
                return found
            all_too_many = all_too_many and found is _Found.TOO_MANY
        return _Found.TOO_MANY if all_too_many else _Found.NO

    def _ask(self, claim: int, request: int, which: int, nth: int, start: int) -> _Found:
        """Allocates the ask's devices from the nth on, then everything after the ask. Devices are tried from position `start`
        on."""
        self._step()
        ask = self._board.claims[claim].requests[request].asks[which]
        need = self._need(claim, request, which, ask)
        if ask.wanted is None and not need:
            return _Found.NO
        if nth >= need:
            return self._claim_request(claim, request + 1)
        if self._results[claim] + need - nth > MOST_RESULTS:
            return _Found.TOO_MANY
        if ask.wanted is None:
            pick = PickedDevice(claim, request, which, self._every[claim, request, which][nth])
            return self._with(pick, ask, nth, 0, must=True) or _Found.NO
        several_times = Rule.SHARED_ONCE not in self._board.rules
        for at in range(start, len(self._board.devices)):
            if not self._is_candidate(claim, ask, at):
                continue
            again = self._board.devices[at].shareable and several_times
            found = self._with(PickedDevice(claim, request, which, at), ask, nth, at if again else at + 1, must=False)
            if found is _Found.YES or found is _Found.TOO_MANY:
                return found
        return _Found.NO

    def _with(self, pick: PickedDevice, ask: AskBoard, nth: int, start: int, *, must: bool) -> _Found | None:
        """Continues the search with this device chosen, and gives the device back if that finds no solution. None if the device
        cannot be chosen."""
        self._step()
        request = self._board.claims[pick.claim].requests[pick.request]
        if not self._take(pick, request, ask, must=must):
            return None
        if self._failed is not None and (state := self._state(pick, nth, start)) in self._failed:
            found = _Found.NO
        else:
            found = self._ask(pick.claim, pick.request, pick.ask, nth + 1, start)
            if self._failed is not None and found is _Found.NO:
                self._failed.add(state)
        if found is not _Found.YES:
            self._give_back(pick, request, ask)
        return found

    def _state(self, pick: PickedDevice, nth: int, start: int) -> tuple[object, ...]:
        """All that the rest of the search depends on after its latest pick, and nothing of who got which device before."""
        claims = self._board.claims
        taken = sorted(
            (each.device, claims[each.claim].requests[each.request].asks[each.ask].consumes[each.device] or ())
            for each in self._picks
        )
        counters = sorted((pool, tuple(left)) for pool, left in self._counters.items())
        constrained = tuple(each.state for each in self._constraints[pick.claim])
        chosen = frozenset(self._chosen[pick.claim])
        return *pick[:3], nth, start, tuple(taken), tuple(counters), self._results[pick.claim], chosen, constrained

    def _step(self) -> None:
        self._steps += 1
        if self._steps > self._most_steps:
            raise _TooManySteps

    # --- one device -------------------------------------------------------------------------------------------------------

    def _is_candidate(self, claim: int, ask: AskBoard, at: int) -> bool:
        if self._board.pools[self._board.devices[at].pool].state not in ALLOCATED_FROM:
            return False
        taken = at in self._chosen[claim] if ask.admin else self._usage.alone[at] or self._alone[at] > 0
        return not taken and self._selectable(ask, at) and self._has_room(ask, at)

    def _selectable(self, ask: AskBoard, at: int) -> bool:
        answer = ask.selectable[at]
        if isinstance(answer, DeviceError):
            raise _End(Failure.FAILED if answer.supported else Failure.UNSUPPORTED, answer.text)
        return answer

    def _is_among_all(self, ask: AskBoard, at: int) -> bool:
        """Whether an ask for all devices includes the device, judged by the device's capacity."""
        if Rule.ALL_BY_CAPACITY in self._board.rules:
            return ask.consumes[at] is not None
        return self._has_room(ask, at)

    def _has_room(self, ask: AskBoard, at: int) -> bool:
        """Whether the device has enough capacity left for what the ask consumes."""
        consumes = ask.consumes[at]
        if consumes is None:
            return False
        taken, now = dict(self._usage.consumed[at] or ()), self._consumed.get(at, {})
        return all(taken.get(name, 0) + now.get(name, 0) + more <= amount for name, more, amount in consumes)

    def _take(self, pick: PickedDevice, request: RequestBoard, ask: AskBoard, *, must: bool) -> bool:
        at = pick.device
        device = self._board.devices[at]
        if not device.shareable and ask.admin and at in self._chosen[pick.claim]:
            return False
        if not ask.admin and (self._usage.alone[at] or self._alone[at] > 0):
            return False
        shared = self._usage.consumed[at] is not None or self._sharers.get(at, 0) > 0
        draws = bool(device.consumes) and not (device.shareable and shared)
        if draws and not self._draw(device.pool, device.consumes):
            return False
        allowed = ask.tolerated[at]
        if allowed and not self._constrain(pick, request, ask):
            if must:
                raise _End(Failure.FAILED, f"request {ask.name}: cannot add a device, a constraint would not be satisfied")
            allowed = False
        if allowed and not self._has_room(ask, at):
            self._unconstrain(pick, request, ask)
            allowed = False
        if not allowed:
            if draws:
                self._return(device.pool, device.consumes)
            return False
        if device.shareable:
            self._share(at, ask.consumes[at] or (), 1)
        else:
            self._chosen[pick.claim].add(at)
            self._alone[at] += 1
        self._results[pick.claim] += 1
        self._picks.append(pick)
        self._drawn.append(draws)
        return True

    def _give_back(self, pick: PickedDevice, request: RequestBoard, ask: AskBoard) -> None:
        at = pick.device
        device = self._board.devices[at]
        self._picks.pop()
        self._results[pick.claim] -= 1
        if device.shareable:
            self._share(at, ask.consumes[at] or (), -1)
        else:
            self._chosen[pick.claim].discard(at)
            self._alone[at] -= 1
        self._unconstrain(pick, request, ask)
        if self._drawn.pop():
            self._return(device.pool, device.consumes)

    def _share(self, at: int, consumes: Consumption, count: int) -> None:
        self._sharers[at] = self._sharers.get(at, 0) + count
        amounts = self._consumed.setdefault(at, {})
        for name, more, _ in consumes:
            amounts[name] = amounts.get(name, 0) + count * more

    def _draw(self, pool: int, consumes: tuple[tuple[int, int], ...]) -> bool:
        """Takes what a device consumes from its pool's counters. False, and nothing is taken, if a counter would be below 0."""
        first = self._board.pools[pool].shares
        if first not in self._counters:
            # The pool that is tried first says what there is, also for others of its name.
            self._counters[first] = list(self._usage.counters[pool])
        left = self._counters[first]
        for line, amount in consumes:
            left[line] -= amount
        if min(left, default=0) < 0:
            self._return(pool, consumes)
            return False
        return True

    def _return(self, pool: int, consumes: tuple[tuple[int, int], ...]) -> None:
        left = self._counters[self._board.pools[pool].shares]
        for line, amount in consumes:
            left[line] += amount

    # --- constraints ------------------------------------------------------------------------------------------------------

    def _constrain(self, pick: PickedDevice, request: RequestBoard, ask: AskBoard) -> bool:
        """Adds the device to the constraints of its claim. False, and nothing is added, if a constraint does not allow it."""
        claim = self._board.claims[pick.claim]
        for number, constraint in enumerate(claim.constraints):
            if not _concerns(constraint.requests, request, ask):
                continue
            value = constraint.values[pick.device]
            if not self._constraints[pick.claim][number].add(request.name, value, distinct=constraint.distinct):
                self._unconstrain(pick, request, ask, number)
                return False
        return True

    def _unconstrain(self, pick: PickedDevice, request: RequestBoard, ask: AskBoard, before: int | None = None) -> None:
        """Takes the device out of the constraints of its claim, or only of those `before` a number."""
        for number, constraint in enumerate(self._board.claims[pick.claim].constraints[:before]):
            if _concerns(constraint.requests, request, ask):
                self._constraints[pick.claim][number].remove(request.name)


class _Constrained:
    """The values of the devices that a constraint has allowed so far, in order.

    kube-scheduler before 1.37 keeps one distinct value for each request, that of its latest device, and forgets it when a
    device of the request is taken back. So a request for three devices may get the values a, b, a. This class does the same,
    unless `of_all` is set.
    """

    __slots__ = ("_latest", "_of_all", "_values")

    def __init__(self, *, of_all: bool) -> None:
        self._of_all = of_all
        self._values: list[int] = []
        self._latest: dict[str, int] = {}

    def add(self, request: str, value: int, *, distinct: bool) -> bool:
        if value < 0:
            return False
        if distinct and value in (self._values if self._of_all else self._latest.values()):
            return False
        if not distinct and self._values and value != self._values[0]:
            return False
        self._values.append(value)
        self._latest[request] = value
        return True

    @property
    def state(self) -> tuple[object, ...]:
        """What decides about further values."""
        return tuple(self._values), tuple(self._latest.items())

    def remove(self, request: str) -> None:
        self._values.pop()
        self._latest.pop(request, None)


def _concerns(requests: frozenset[str], request: RequestBoard, ask: AskBoard) -> bool:
    """Whether a constraint applies to a request: `requests` is empty, or has the request or the chosen alternative."""
    alternative = request.alternatives and f"{request.name}/{ask.name}" in requests
    return not requests or request.name in requests or alternative
