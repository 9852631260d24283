"""Limits for placing several copies of a pod: each copy may close topology domains (values of a node label) for the next copy.

Anti-affinity of an equivalence group against itself allows one copy for each value. A hard topology spread allows a copy if the
value's count then exceeds the smallest count by at most the skew; when the smallest count rises, a closed value may open again.
This module keeps these counts while copies are placed. It does not change the snapshot.

"Candidates" are the rows that take a copy by all other rules, in the order in which they are tried.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.fit.plugins.inter_pod_affinity import repelling_counters, term_counter
from slackwater.fit.plugins.pod_topology_spread import (
    CountingRows,
    hard_constraints,
    matches_by_value,
    rows_with_labels,
    spread_counter,
)
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.selectors import selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import TermCarriers
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT

Int32 = npt.NDArray[np.int32]

#: The smallest count if no value is counted.
_NOBODY: Final = int(np.iinfo(np.int64).max)
#: Labels with at most this many values are handled value by value.
_FEW_VALUES: Final = 64
#: The number of steps between two calls of the caller's `stop`.
_STEPS: Final = 64


class DomainLimit:
    """The limit that one topology key sets for further copies on the candidates.

    `ids` is the number of each candidate's value, `counts` the count for each value. A value takes a copy while `counts[value]
    - least <= room`. With `moving`, `least` is the smallest of the counts that are not ABSENT; otherwise it stays 0. `adds` is
    what a copy adds to its value's count. Candidates without the label are not limited.
    """

    __slots__ = ("adds", "counts", "ids", "least", "moving", "n_least", "room")

    def __init__(self, ids: Int32, counts: Int64, *, room: int, adds: int, moving: bool) -> None:
        self.ids, self.counts = ids, counts
        self.room, self.adds, self.moving = room, adds, moving
        self.least = self.n_least = 0
        if moving:
            self._find_least()

    def _find_least(self) -> None:
        counted = self.counts[self.counts != ABSENT]
        self.least = int(counted.min(initial=_NOBODY))
        self.n_least = int((counted == self.least).sum())

    @property
    def takes_one(self) -> bool:
        """Whether each open value takes exactly one copy, whatever the other values have."""
        return self.room == 0 and self.adds == 1 and not self.moving

    def open(self) -> Mask:
        """Which candidates may take one more copy, shape (candidates,)."""
        allowed = np.append(np.maximum(self.counts, 0) - self.least <= self.room, True)
        opened: Mask = allowed[self.ids]
        return opened

    def copies_at(self, at: int, most: int) -> int:
        """How many copies, at most `most`, an open candidate takes until the answer of `open` changes for some candidate. The
        last copy may be the one that changes it."""
        value = int(self.ids[at])
        if value == ABSENT or not self.adds:
            return most
        count = int(self.counts[value])
        if self.moving and count == self.least and self.n_least == 1:
            return 1
        return min(most, self.room + self.least - count + 1)

    def add(self, at: int, copies: int) -> bool:
        """Adds copies to a candidate. Returns whether this changes the answer of `open` for some candidate."""
        value = int(self.ids[at])
        if value == ABSENT or not self.adds:
            return False
        before = int(self.counts[value])
        self.counts[value] = before + copies
        if self.moving and before == self.least:
            self.n_least -= 1
            if not self.n_least:
                self._find_least()
                return True
        return before + copies - self.least > self.room


def own_limits(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> list[DomainLimit]:
    """The limits that the pods of a group set for one another when several of them are placed (anti-affinity, spread).

    If `counts_itself` is true, they include all hard spread constraints, and each row must have the topology keys of these.
    """
    own = [term.topology_key for term in kind.asks.anti_affinity if kind.id in term_counter(snapshot, term).kinds]
    repelling = [counter.of for counter in repelling_counters(snapshot, kind) if kind.id in counter.kinds]
    own += [of.term.topology_key for of in repelling if isinstance(of, TermCarriers)]
    columns = map(snapshot.facts.label, dict.fromkeys(own))  # their values take only one copy
    limits = [DomainLimit(c.ids[rows], np.zeros(len(c.values), np.int64), room=0, adds=1, moving=False) for c in columns]
    if not counts_itself(snapshot, kind):
        return limits
    constraints = hard_constraints(kind)
    counting = CountingRows(snapshot, kind, rows_with_labels(snapshot, constraints))
    for constraint in constraints:
        # Every candidate counts for the constraint: rows that its policies exclude are not feasible by affinity and taints
        # either.
        matches = matches_by_value(snapshot, kind, constraint, counting)
        moving = int((matches != ABSENT).sum()) >= constraint.min_domains
        ids = snapshot.facts.label(constraint.topology_key).ids[rows]
        room = constraint.max_skew - int(selects(constraint.selector, kind.labels))
        adds = 0 if constraint.selector == () else spread_counter(snapshot, kind, constraint).kinds.get(kind.id, 0)
        limits.append(DomainLimit(ids, matches, room=room, adds=adds, moving=moving))
    return limits


def counts_itself(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether a hard spread constraint of the equivalence group counts the group's own copies."""
    return any(
        constraint.selector != () and spread_counter(snapshot, kind, constraint).kinds.get(kind.id, 0)
        for constraint in hard_constraints(kind)
    )


def in_sequence(copies: Int64, limits: Sequence[DomainLimit], wanted: int, stop: Callable[[], bool]) -> tuple[Rows, bool]:
    """Places `wanted` copies one after another, each on the first candidate that takes one at that moment. Returns the
    candidate of each copy (an index), and whether `stop` cut the placing off.

    `copies` is how many copies each candidate takes by all other rules. The result is shorter than `wanted` if no more copies
    fit.
    """
    if not limits:
        return _filled(copies, wanted), False
    if len(limits) == 1 and limits[0].takes_one:
        return _filled(_one_for_each_value(copies, limits[0]), wanted), False
    if len(limits) == 1 and len(limits[0].counts) <= _FEW_VALUES:
        return _value_by_value(copies, limits[0], wanted, stop)
    return _step_by_step(copies, limits, wanted, stop)


def _filled(copies: Int64, wanted: int) -> Rows:
    """The candidate of each copy if one candidate is filled after another."""
    before = np.cumsum(copies) - copies
    return np.repeat(np.arange(len(copies)), np.clip(wanted - before, 0, copies))


def _one_for_each_value(copies: Int64, limit: DomainLimit) -> Int64:
    """How many copies each candidate takes if each open value takes one."""
    at = np.flatnonzero(limit.open() & (limit.ids != ABSENT))
    values = limit.ids[at]
    first = np.zeros(len(limit.counts), np.intp)
    first[values[::-1]] = at[::-1]  # of candidates with the same value, the first is written last
    left = np.where(limit.ids == ABSENT, copies, 0)
    left[at[first[values] == at]] = 1
    return left


def _step_by_step(copies: Int64, limits: Sequence[DomainLimit], wanted: int, stop: Callable[[], bool]) -> tuple[Rows, bool]:
    """Places copies in steps: in each step one candidate takes as many as possible before the limits open or close another one.
    Returns what `in_sequence` returns."""
    left = copies.copy()
    steps: list[tuple[int, int]] = []
    cut = False
    opened = _opened(left, limits)
    while wanted and len(left):
        at = int(opened.argmax())
        if not opened[at]:
            break
        if len(steps) % _STEPS == _STEPS - 1 and stop():
            cut = True
            break
        count = min(wanted, int(left[at]))
        for limit in limits:
            count = limit.copies_at(at, count)
        steps.append((at, count))
        left[at] -= count
        wanted -= count
        moved = [limit.add(at, count) for limit in limits]
        if any(moved):
            opened = _opened(left, limits)
        elif not left[at]:
            opened[at] = False
    return _repeated(steps), cut


def _value_by_value(copies: Int64, limit: DomainLimit, wanted: int, stop: Callable[[], bool]) -> tuple[Rows, bool]:
    """Places copies as `_step_by_step` does, with the same result, for one limit with few values, such as zones: a step looks
    at values, not at candidates."""
    queues = _Queues(copies, limit)
    steps: list[tuple[int, int]] = []
    while wanted and (step := queues.step(wanted)):
        if len(steps) % _STEPS == _STEPS - 1 and stop():
            return _repeated(steps), True
        steps.append(step)
        wanted -= step[1]
        queues.take(*step)
    return _repeated(steps), False


class _Queues:
    """The candidates of each value that take a copy, last candidate first: only the first candidate of each value, the end of
    the list, matters.

    Candidates without the label form one more value, which is always open. For few values this is faster than numpy.
    """

    def __init__(self, copies: Int64, limit: DomainLimit) -> None:
        self._left: list[int] = copies.tolist()
        self._ids: list[int] = limit.ids.tolist()
        self._counts: list[int] = limit.counts.tolist()
        self._room, self._adds, self._moving = limit.room, limit.adds, limit.moving
        self._waiting: dict[int, list[int]] = {}
        for at in reversed(np.flatnonzero(copies > 0).tolist()):
            self._waiting.setdefault(self._ids[at], []).append(at)

    def step(self, wanted: int) -> tuple[int, int] | None:
        """The first candidate that takes a copy, and how many copies it takes before another candidate becomes the first; None
        if no candidate takes one."""
        least = min((count for count in self._counts if count != ABSENT), default=_NOBODY) if self._moving else 0
        open_to = [queue[-1] for value, queue in self._waiting.items() if self._is_open(value, least)]
        if not open_to:
            return None
        at = min(open_to)
        most, value = min(wanted, self._left[at]), self._ids[at]
        return at, most if value == ABSENT or not self._adds else min(most, self._run(at, value, least))

    def _run(self, at: int, value: int, least: int) -> int:
        """How many copies the value takes in a row until it closes or an earlier candidate opens."""
        count = self._counts[value]
        if not self._moving or count > least:
            return self._room + least - count + 1
        others = [other for it, other in enumerate(self._counts) if it != value and other != ABSENT]
        next_count = min(others, default=None)
        opens = [
            max(self._counts[other], 0) - self._room
            for other, queue in self._waiting.items()
            if other != ABSENT and queue[-1] < at and not self._is_open(other, least)
        ]
        ends = [] if next_count is None else [next_count + self._room + 1]
        # While this value has the smallest count, the minimum rises with it, up to the next smallest count.
        ends += [opening for opening in opens if next_count is None or opening <= next_count]
        return min(ends) - count if ends else self._left[at]

    def _is_open(self, value: int, least: int) -> bool:
        return value == ABSENT or max(self._counts[value], 0) - least <= self._room

    def take(self, at: int, copies: int) -> None:
        value = self._ids[at]
        if value != ABSENT and self._adds:
            self._counts[value] += copies
        self._left[at] -= copies
        if not self._left[at]:
            self._waiting[value].pop()
            if not self._waiting[value]:
                del self._waiting[value]


def _repeated(steps: Sequence[tuple[int, int]]) -> Rows:
    table = np.array(steps, np.intp).reshape(-1, 2)
    repeated: Rows = np.repeat(table[:, 0], table[:, 1])
    return repeated


def _opened(left: Int64, limits: Sequence[DomainLimit]) -> Mask:
    opened: Mask = left > 0
    for limit in limits:
        opened = opened & limit.open()
    return opened
