"""What a pod's own copies mean for the next copy: counts by the values of a node label, kept while copies are placed.

Anti-affinity that a kind has against itself lets one copy to each value. A hard topology spread lets a copy where the
number at the value exceeds the smallest by at most the skew; the smallest may rise, and open what was closed. Nothing
here changes the picture.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.selectors import selects
from slackwater.simulate.counters import Carrying
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.nodefacts import ABSENT
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.inter_pod_affinity import repelling_counters, term_counter
from slackwater.simulate.predicates.pod_topology_spread import (
    counting_rows,
    hard_constraints,
    matches_by_value,
    rows_with_labels,
    spread_counter,
)

Int32 = npt.NDArray[np.int32]

#: Steps between two looks at the caller's `stop`.
_STEPS: Final = 64


class DomainLimit:
    """One label key over the candidates, in their order.

    A copy may stand at a value while `counts[value] - least <= room`. `moving`: least is the smallest of the counts that
    are not ABSENT; it stays 0 otherwise. `adds` is what a copy adds to its value. Candidates without the label are free.
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
        self.least = int(counted.min(initial=np.iinfo(np.int64).max)) if len(counted) else 0
        self.n_least = int((counted == self.least).sum())

    def open(self) -> Mask:
        """Which candidates take one more copy."""
        allowed = np.append(np.maximum(self.counts, 0) - self.least <= self.room, True)
        opened: Mask = allowed[self.ids]
        return opened

    def copies_at(self, at: int, most: int) -> int:
        """How many copies a candidate takes before an answer of `open` changes for another one, the last one included."""
        value = int(self.ids[at])
        if value == ABSENT or not self.adds:
            return most
        count = int(self.counts[value])
        if self.moving and count == self.least and self.n_least == 1:
            return 1
        return min(most, self.room + self.least - count + 1)

    def add(self, at: int, copies: int) -> bool:
        """Copies stand at a candidate now. Does `open` answer otherwise for anybody?"""
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


def own_limits(picture: Picture, kind: Numbered, rows: Rows) -> list[DomainLimit] | None:
    """The limits that copies of the kind set one another on the rows; None where only looking pod by pod will do.

    Where there is any about spread, all of the kind's hard spread constraints are among them.
    """
    limits = [_apart(picture, key, rows) for key in _own_keys(picture, kind)]
    if not counts_itself(picture, kind):
        return limits
    constraints = hard_constraints(kind)
    carrying = rows_with_labels(picture, constraints)
    for constraint in constraints:
        if not counting_rows(picture, kind, constraint, carrying)[rows].all():
            return None
        matches = matches_by_value(picture, kind, constraint, carrying)
        moving = int((matches != ABSENT).sum()) >= constraint.min_domains
        ids = picture.facts.label(constraint.topology_key).ids[rows]
        room = constraint.max_skew - int(selects(constraint.selector, kind.labels))
        adds = 0 if constraint.selector == () else spread_counter(picture, kind, constraint).of.weight(kind)
        limits.append(DomainLimit(ids, matches, room=room, adds=adds, moving=moving))
    return limits


def counts_itself(picture: Picture, kind: Numbered) -> bool:
    """Does a hard spread constraint of the kind count its own copies?"""
    return any(
        constraint.selector != () and spread_counter(picture, kind, constraint).of.weight(kind)
        for constraint in hard_constraints(kind)
    )


def _own_keys(picture: Picture, kind: Numbered) -> list[str]:
    """The topology keys at whose values copies of the kind bear no other copy."""
    own = [term.topology_key for term in kind.asks.anti_affinity if term_counter(picture, term).of.weight(kind)]
    repelling = [counter.of for counter in repelling_counters(picture, kind)]
    own += [of.term.topology_key for of in repelling if isinstance(of, Carrying) and of.weight(kind)]
    return list(dict.fromkeys(own))


def _apart(picture: Picture, key: str, rows: Rows) -> DomainLimit:
    column = picture.facts.label(key)
    return DomainLimit(column.ids[rows], np.zeros(len(column.values), np.int64), room=0, adds=1, moving=False)


def one_for_each_value(copies: Int64, limit: DomainLimit) -> Int64:
    """The copies that are left of `copies` where each value takes one; shape and order are those of the candidates."""
    at = np.flatnonzero((copies > 0) & (limit.ids != ABSENT))
    values = limit.ids[at]
    first = np.zeros(len(limit.counts), np.intp)
    first[values[::-1]] = at[::-1]  # of several with one value, the first is written last
    left = np.where(limit.ids == ABSENT, copies, 0)
    left[at[first[values] == at]] = 1
    return left


def step_by_step(
    copies: Int64, limits: Sequence[DomainLimit], wanted: int, stop: Callable[[], bool]
) -> tuple[list[tuple[int, int]], bool]:
    """Where `wanted` copies go one after another, each to the first candidate that takes it.

    Gives (candidate, how many) in the order of placing, and whether `stop` cut it off. A step places as many copies as go
    to one candidate before anything opens or closes elsewhere.
    """
    left = copies.copy()
    taken: list[tuple[int, int]] = []
    opened = _opened(left, limits)
    while wanted and len(left):
        at = int(opened.argmax())
        if not opened[at]:
            break
        if len(taken) % _STEPS == _STEPS - 1 and stop():
            return taken, True
        count = min(wanted, int(left[at]))
        for limit in limits:
            count = limit.copies_at(at, count)
        taken.append((at, count))
        left[at] -= count
        wanted -= count
        moved = [limit.add(at, count) for limit in limits]
        if any(moved):
            opened = _opened(left, limits)
        elif not left[at]:
            opened[at] = False
    return taken, False


def _opened(left: Int64, limits: Sequence[DomainLimit]) -> Mask:
    opened: Mask = left > 0
    for limit in limits:
        opened = opened & limit.open()
    return opened
