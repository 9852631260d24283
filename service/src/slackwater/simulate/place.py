"""First-fit packing: each pod goes to the first row, in the order given, that is feasible for it when its turn comes.

    with picture.fork() as trial:
        placements = place_pods(picture, kinds, rows=order, hints=hints, stop=stop)
        trial.commit()                     # or drop it: the picture is as before
    placements.rows                        # for each pod its row, NOWHERE where it has none

The answer is exactly that of placing pod by pod; a run of pods of one kind costs a few operations on whole columns. How
many copies each row takes is a division (`copies`), what copies mean for one another is counted (`domainlimits`). Only
pods with claims or in-line disks, and pods that come alone, are looked at one by one.

Hints come first: every pod with a hint of its own is tried there, in order, before any other pod is placed; then pods are
tried on their kind's hint, and then on the rows. `stop` is asked between steps and may cut the packing off anywhere:
what is placed by then is placed rightly, the rest is `unreached`.

Deliberately absent: the order of pods and rows (the caller's), new nodes (`estimate`), and what time it is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.simulate.assume import assume_volumes
from slackwater.simulate.copies import copies_on
from slackwater.simulate.domainlimits import DomainLimit, counts_itself, one_for_each_value, own_limits, step_by_step
from slackwater.simulate.feasible import feasible
from slackwater.simulate.kindtable import KindId, Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.inter_pod_affinity import matches_all_its_terms
from slackwater.simulate.predicates.pod_topology_spread import hard_constraints, rows_with_labels

#: In place of a row: the pod has none.
NOWHERE: Final = -1
_SPREAD: Final = "PodTopologySpread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Rows to be tried first; those that are not among the rows of the packing are passed over.

    `pods` has one for each pod, NOWHERE where there is none; shape (pods,).
    """

    pods: Rows | None = None
    kinds: Mapping[KindId, int] = field(default_factory=dict)


NO_HINTS: Final = Hints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Pods of one kind that fit nowhere.

    `reasons` are the verdicts on the rows when the first of them was tried, and on how many rows each; most rows first.
    """

    kind: KindId
    pods: tuple[int, ...]  #: positions in what was to be placed
    reasons: tuple[tuple[Reason, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """Where pods went: `rows` has a row for each, or NOWHERE; shape (pods,)."""

    rows: Rows
    left: tuple[Left, ...]
    unreached: tuple[int, ...]  #: positions of pods that were not looked at because the packing was cut off

    @property
    def cut(self) -> bool:
        return bool(self.unreached)

    @property
    def n_left(self) -> int:
        return sum(len(left.pods) for left in self.left)


def place_pods(
    picture: Picture,
    kinds: Rows,
    *,
    rows: Rows,
    hints: Hints = NO_HINTS,
    stop: Callable[[], bool] = lambda: False,
) -> Placements:
    """Places pods, given by their kinds in order, on the picture. `rows` are distinct; see the module."""
    packing = Packing(picture, len(kinds), rows=rows, hints=hints.kinds, stop=stop)
    everyone = np.arange(len(kinds))
    if hints.pods is not None:
        hinted = everyone[hints.pods >= 0]
        for run in _runs(kinds, hinted):
            packing.try_at(KindId(int(kinds[run[0]])), run, hints.pods[run])
    for run in _runs(kinds, everyone[packing.rows == NOWHERE]):
        packing.place(KindId(int(kinds[run[0]])), run)
    return packing.result()


def _runs(kinds: Rows, pods: Rows) -> Iterator[Rows]:
    """The pods in order, cut where the kind changes."""
    if not len(pods):
        return
    of = kinds[pods]
    bounds = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(pods)]
    for start, end in pairwise(bounds):
        yield pods[start:end]


class Packing:
    """One packing under way. `rows` are the placements so far."""

    def __init__(
        self, picture: Picture, n_pods: int, *, rows: Rows, hints: Mapping[KindId, int], stop: Callable[[], bool]
    ) -> None:
        self.rows: Rows = np.full(n_pods, NOWHERE, np.intp)
        self.cut = False
        self._picture = picture
        self._stop = stop
        self._hints = hints
        self._left: dict[KindId, tuple[list[int], tuple[tuple[Reason, int], ...]]] = {}
        self.use_rows(rows)

    def use_rows(self, rows: Rows) -> None:
        """Packs onto these rows from now on; pods that were left stay left."""
        self._order = rows
        self._among: Mask = np.zeros(self._picture.n_rows, np.bool_)
        self._among[rows] = True

    def place(self, kind: KindId, pods: Rows) -> int:
        """Places a run of pods of one kind; how many, from the front on. The others are left, or the packing is cut off."""
        placed = self.place_some(kind, pods)
        if placed < len(pods) and not self.cut:
            self.leave(kind, pods[placed:])
        return placed

    def place_some(self, kind: KindId, pods: Rows) -> int:
        """The same, but nothing is said of the others."""
        if self.cut or (kind in self._left and not _may_open(self._picture.of(kind))):
            return 0
        if self._stop():
            self.cut = True
            return 0
        numbered = self._picture.of(kind)
        order = self._order_for(kind)
        alone = len(pods) == 1 or bool(numbered.asks.claims or numbered.asks.disks)
        if alone:
            return self._one_by_one(kind, pods, order)
        if numbered.asks.affinity and matches_all_its_terms(self._picture, numbered):
            # The first of a series may go where the others then may not.
            first = self._one_by_one(kind, pods[:1], order)
            return first + (self._together(kind, pods[1:], order) if first else 0)
        return self._together(kind, pods, order)

    def leave(self, kind: KindId, pods: Rows) -> None:
        """These fit nowhere as things are now."""
        if kind not in self._left:
            codes = feasible(self._picture, kind).codes[self._order]
            counts = np.bincount(codes, minlength=len(Reason))
            most = np.argsort(-counts, kind="stable")
            reasons = tuple((Reason(code), int(counts[code])) for code in most.tolist() if counts[code])
            self._left[kind] = ([], reasons)
        self._left[kind][0].extend(pods.tolist())

    def try_at(self, kind: KindId, pods: Rows, hints: Rows) -> None:
        """Places those of a run that fit at their own hint; nothing is said of the others."""
        if self._stop():
            self.cut = True
        known = hints < len(self._among)
        pods, hints = pods[known], hints[known]
        inside = self._among[hints]
        pods, hints = pods[inside], hints[inside]
        numbered = self._picture.of(kind)
        if numbered.asks.claims or numbered.asks.disks or numbered.asks.spread or terms_bind(numbered):
            for pod, row in zip(pods.tolist(), hints.tolist(), strict=True):
                self._one_by_one(kind, np.array([pod]), np.array([row]))
        elif not self.cut and len(pods):
            self._at_hints(kind, numbered, pods, hints)

    def result(self) -> Placements:
        left = tuple(Left(kind=kind, pods=tuple(pods), reasons=why) for kind, (pods, why) in self._left.items())
        known = {pod for each in left for pod in each.pods}
        unreached = [pod for pod in np.flatnonzero(self.rows == NOWHERE).tolist() if pod not in known]
        return Placements(rows=self.rows, left=left, unreached=tuple(unreached))

    def _order_for(self, kind: KindId) -> Rows:
        hint = self._hints.get(kind, NOWHERE)
        if not 0 <= hint < len(self._among) or not self._among[hint]:
            return self._order
        return np.concatenate(([hint], self._order[self._order != hint]))

    def _one_by_one(self, kind: KindId, pods: Rows, order: Rows) -> int:
        for index, pod in enumerate(pods.tolist()):
            if self.cut or (index and self._stop()):
                self.cut = True
                return index
            fits = feasible(self._picture, kind).codes[order] == Reason.OK
            at = int(fits.argmax()) if len(fits) else 0
            if not len(fits) or not fits[at]:
                return index
            row = int(order[at])
            assume_volumes(self._picture, kind, Row(row))
            self._picture.place(kind, row)
            self.rows[pod] = row
        return len(pods)

    def _together(self, kind: KindId, pods: Rows, order: Rows) -> int:
        picture, numbered = self._picture, self._picture.of(kind)
        spreads = counts_itself(picture, numbered)
        fits = feasible(picture, kind, without=_SPREAD if spreads else None).codes[order] == Reason.OK
        if spreads:
            fits &= rows_with_labels(picture, hard_constraints(numbered))[order]
        rows = order[fits]
        if not len(rows):
            return 0
        limits = own_limits(picture, numbered, rows)
        if limits is None:
            return self._one_by_one(kind, pods, order)
        taken = self._taken(copies_on(picture, numbered, rows), limits, len(pods))
        at = np.fromiter((at for at, _ in taken), np.intp, len(taken))
        counts = np.fromiter((count for _, count in taken), np.int64, len(taken))
        return self._put(kind, pods, rows, at, counts)

    def _taken(self, copies: Int64, limits: list[DomainLimit], wanted: int) -> list[tuple[int, int]]:
        """(candidate, copies) in the order of placing."""
        if not limits or (len(limits) == 1 and not limits[0].moving and not limits[0].room):
            return _filled(one_for_each_value(copies, limits[0]) if limits else copies, wanted)
        taken, self.cut = step_by_step(copies, limits, wanted, self._stop)
        return taken

    def _at_hints(self, kind: KindId, numbered: Numbered, pods: Rows, hints: Rows) -> None:
        """Of pods with the same hint, as many as it takes copies: the first ones."""
        fits = feasible(self._picture, kind).codes[hints] == Reason.OK
        pods, hints = pods[fits], hints[fits]
        if not len(pods):
            return
        rows, of, counts = np.unique(hints, return_inverse=True, return_counts=True)
        order = np.argsort(of, kind="stable")
        rank = np.empty(len(pods), np.int64)
        rank[order] = np.arange(len(pods)) - np.repeat(np.cumsum(counts) - counts, counts)
        copies = copies_on(self._picture, numbered, rows)
        placed = rank < copies[of]
        self.rows[pods[placed]] = hints[placed]
        self._picture.place_many(kind, rows, np.minimum(copies, counts))

    def _put(self, kind: KindId, pods: Rows, rows: Rows, at: Rows, counts: Int64) -> int:
        placed = int(counts.sum())
        if placed:
            self.rows[pods[:placed]] = np.repeat(rows[at], counts)
            each = np.zeros(len(rows), np.int64)
            np.add.at(each, at, counts)
            used = np.flatnonzero(each)
            self._picture.place_many(kind, rows[used], each[used])
        return placed


def terms_bind(numbered: Numbered) -> bool:
    """Does the kind ask who stands beside it?"""
    return bool(numbered.asks.affinity or numbered.asks.anti_affinity)


def _may_open(numbered: Numbered) -> bool:
    """May a kind that fitted nowhere fit somewhere after other pods were placed?"""
    asks = numbered.asks
    return bool(asks.affinity or asks.claims or any(constraint.hard for constraint in asks.spread))


def _filled(copies: Int64, wanted: int) -> list[tuple[int, int]]:
    """Candidates filled one after another."""
    before = np.cumsum(copies) - copies
    counts = np.minimum(copies, wanted - before)
    at = np.flatnonzero(counts > 0)
    return list(zip(at.tolist(), counts[at].tolist(), strict=True))
