"""First-fit packing: each pod goes to the first row, in the order of `rows`, that is feasible for it at that moment.

    with snapshot.fork() as trial:
        placements = place_pods(snapshot, kinds, rows=order, hints=hints, stop=stop)
        trial.commit()                     # or drop it: the snapshot is as before
    placements.rows                        # for each pod its row, NOWHERE where it has none

The result is exactly that of placing pod by pod, but a run of pods of one equivalence group costs a few operations on whole
columns. How many copies each row takes is a division (`copies_on`), and the limits that copies set for one another are counted
(`fit.domain_limits`). The cost is lowest if pods of one group come together. Pods with claims or in-line disks are placed one
by one.

Hints come first: every pod with a hint of its own is tried there, in order, before any other pod is placed. The other pods are
then tried at their group's hint, and on the rows. `stop` is called between steps and may cut the packing off anywhere: pods
placed until then are where the whole packing would have put them, the rest is `unreached`.

The caller decides the order of pods and of rows. This module adds no nodes, and reads no clock.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from slackwater.fit.assumed_claims import assume_claims, has_claims
from slackwater.fit.domain_limits import counts_itself, in_sequence, own_limits
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import feasible, feasible_on
from slackwater.fit.plugins.inter_pod_affinity import matches_all_its_terms, term_counter
from slackwater.fit.plugins.node_resources import asked_lines
from slackwater.fit.plugins.pod_topology_spread import TOPOLOGY_SPREAD, hard_constraints, rows_with_labels
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.devices import ResourceClaim
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import HOSTNAME, PODS


def copies_on(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    """How many pods of the group each of `rows` takes by itself, shape (len(rows),), >= 1. The rows must be feasible for the
    group."""
    if kind.asks.host_ports:
        return np.ones(len(rows), np.int64)
    used = snapshot.used_against(kind.kind)
    copies: Int64 = snapshot.facts.allocatable[PODS][rows] - used[PODS][rows]
    for line, amount in asked_lines(snapshot, kind):
        free = snapshot.facts.allocatable[line][rows] - used[line][rows]
        np.minimum(copies, free // amount, out=copies)
    if (ledger := snapshot.ledger_against(kind.kind)) is not None:
        room = ledger.free(rows)
        for resource, wanted in enumerate(kind.kind.requests):
            if wanted:
                np.minimum(copies, room[resource] // wanted, out=copies)
    return copies


#: Stands for the row of a pod that fits nowhere.
NOWHERE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The rows to try first. Hints that are not among the rows of the packing are ignored.

    `pods` has a row for each pod, NOWHERE for a pod without a hint; shape (pods,). `kinds` has a row for some equivalence
    groups.
    """

    pods: Rows | None = None
    kinds: Mapping[KindId, int] = field(default_factory=dict)


NO_HINTS: Final = Hints()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedPods:
    """Pods of one equivalence group that fit nowhere.

    `reasons` are (verdict, number of rows) pairs from when the first of the pods was tried, most rows first.
    """

    kind: KindId
    pods: tuple[int, ...]  #: positions in the pods that were given
    reasons: tuple[tuple[Reason, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """The result of a packing. `rows` has a row for each pod, or NOWHERE; shape (pods,). `order` has the positions of the
    placed pods, in the order in which they were placed. `left` are the pods that fit nowhere. `claims` are the claims of
    devices of placed pods, by the pods' positions."""

    rows: Rows
    order: Rows
    left: tuple[UnplacedPods, ...]
    unreached: tuple[int, ...]  #: positions of pods that were not tried because the packing was cut off
    claims: Mapping[int, tuple[ResourceClaim, ...]] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        return bool(self.unreached)


def place_pods(
    snapshot: ClusterSnapshot,
    kinds: Rows,
    *,
    rows: Rows,
    hints: Hints = NO_HINTS,
    stop: Callable[[], bool] = lambda: False,
    reasons: bool = True,
    together: bool = False,
) -> Placements:
    """Places pods on the snapshot one after another. `kinds` has each pod's equivalence group, `rows` the rows to try, in order
    and distinct.

    To find the reasons why pods are left costs as much as placing them; without `reasons` this is skipped. With `together`,
    pods that need one another on one node go only to a row that takes all of the run.
    """
    packing = _Packing(snapshot, len(kinds), rows, stop, reasons=reasons, together=together)
    all_rows = np.arange(len(kinds))
    if hints.pods is not None:
        for kind, run in runs(kinds, all_rows[packing.knows(hints.pods)]):
            with concerning(kind):
                packing.try_at(kind, run, hints.pods[run])
    for kind, run in runs(kinds, all_rows[packing.at == NOWHERE]):
        with concerning(kind):
            packing.place(kind, run, hint=hints.kinds.get(kind, NOWHERE))
    return packing.result()


def runs(kinds: Rows, pods: Rows) -> Iterator[tuple[KindId, Rows]]:
    """Splits `pods` (positions in `kinds`) into runs of the same equivalence group, in order: (group, positions)."""
    if not len(pods):
        return
    of = kinds[pods]
    bounds = [0, *(np.flatnonzero(of[1:] != of[:-1]) + 1).tolist(), len(pods)]
    for start, end in pairwise(bounds):
        yield KindId(int(of[start])), pods[start:end]


def place_planned(snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> None:
    """Places one pod of the group on each of `rows`, in order: where an earlier packing placed them on an equal snapshot."""
    if has_claims(snapshot, snapshot.of(kind)):
        for row in rows.tolist():  # a volume or device that one pod takes is not available to the next
            assume_claims(snapshot, kind, Row(row))
            snapshot.place(kind, row)
    else:
        where, counts = np.unique(rows, return_counts=True)
        snapshot.place_many(kind, where, counts)


def begins_together(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Must all pods of the group be on one node, which the first of them chooses, because by required affinity they follow one
    another and there is no pod yet that they follow?"""
    terms = kind.asks.affinity
    if not any(term.topology_key == HOSTNAME for term in terms) or not matches_all_its_terms(snapshot, kind):
        return False
    return not snapshot.counters.read(term_counter(snapshot, *terms))[: snapshot.n_rows].any()


class _Packing:
    """A packing under way. `at` has the row of each pod, NOWHERE for pods not placed yet."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        n_pods: int,
        order: Rows,
        stop: Callable[[], bool],
        *,
        reasons: bool,
        together: bool,
    ) -> None:
        self.at: Rows = np.full(n_pods, NOWHERE, np.intp)
        self.claims: dict[int, tuple[ResourceClaim, ...]] = {}
        self._snapshot = snapshot
        self._order = order
        self._among: Mask = np.zeros(snapshot.n_rows, np.bool_)
        self._among[order] = True
        self._is_over = stop
        self._reasons = reasons
        self._together = together
        self._cut = False
        self._placed: list[Rows] = [np.zeros(0, np.intp)]
        self._left: dict[KindId, tuple[list[int], tuple[tuple[Reason, int], ...]]] = {}

    def knows(self, hints: Rows) -> Mask:
        """Which of the hints are among the rows of the packing."""
        inside = (hints >= 0) & (hints < len(self._among))
        known: Mask = inside & self._among[np.where(inside, hints, 0)] if len(self._among) else inside
        return known

    def try_at(self, kind: KindId, pods: Rows, hints: Rows) -> None:
        """Places those pods of a run that fit at their own hints; the others stay unplaced and get no reasons."""
        if self._is_cut():
            return
        if _copies_limit_each_other(self._snapshot, self._snapshot.of(kind)):
            for pod, hint in zip(pods, hints, strict=True):
                if self._is_cut():
                    return
                self._put_one(kind, np.array([pod]), np.array([hint]))
            return
        # If several pods have the same hint, the first ones get it, as many as the row takes.
        fits = feasible_on(self._snapshot, kind, hints)
        pods, hints = pods[fits], hints[fits]
        rows, steps = np.unique(hints, return_inverse=True)
        # For each pod, how many pods before it have the same hint.
        order, counts = np.argsort(steps, kind="stable"), np.bincount(steps)
        ranks = np.empty(len(steps), np.intp)
        ranks[order] = np.arange(len(steps)) - np.repeat(np.cumsum(counts) - counts, counts)
        placed = ranks < copies_on(self._snapshot, self._snapshot.of(kind), rows)[steps]
        self._put(kind, pods[placed], rows, steps[placed])

    def place(self, kind: KindId, pods: Rows, hint: int) -> None:
        """Places a run of pods of one equivalence group, from the front on. Pods that do not fit are left, unless the packing
        is cut off."""
        numbered = self._snapshot.of(kind)
        if self._cut:
            return
        asks = numbered.asks
        # With none of these, what fitted nowhere fits nowhere after others were placed either.
        if kind in self._left and not (asks.affinity or asks.claims or asks.resource_claims or hard_constraints(numbered)):
            self._leave(kind, pods)
            return
        order = self._order
        if self.knows(np.array([hint])).all():
            order = np.append(hint, order[order != hint])
        if self._together and len(pods) > 1 and begins_together(self._snapshot, numbered):
            order = order[feasible(self._snapshot, kind).feasible[order]]
            order = order[copies_on(self._snapshot, numbered, order) >= len(pods)]  # the rows that take all of them
        for batch in _batches(self._snapshot, numbered, pods):
            if self._is_cut():
                return
            placed = self._put_one(kind, batch, order) if len(batch) == 1 else self._put_some(kind, batch, order)
            if placed < len(batch):
                if not self._cut:
                    self._leave(kind, pods[self.at[pods] == NOWHERE])
                return

    def result(self) -> Placements:
        left = tuple(UnplacedPods(kind=kind, pods=tuple(pods), reasons=why) for kind, (pods, why) in self._left.items())
        reached = self.at != NOWHERE
        for each in left:
            reached[list(each.pods)] = True
        unreached = tuple(np.flatnonzero(~reached).tolist())
        return Placements(rows=self.at, order=np.concatenate(self._placed), left=left, unreached=unreached, claims=self.claims)

    def _is_cut(self) -> bool:
        self._cut = self._cut or self._is_over()
        return self._cut

    def _leave(self, kind: KindId, pods: Rows) -> None:
        """Notes that these pods fit nowhere now."""
        if kind not in self._left:
            why: tuple[tuple[Reason, int], ...] = ()
            if self._reasons:
                counts = np.bincount(feasible(self._snapshot, kind).codes[self._order], minlength=len(Reason))
                most = np.argsort(-counts, kind="stable")
                why = tuple((Reason(code), int(counts[code])) for code in most.tolist() if counts[code])
            self._left[kind] = ([], why)
        self._left[kind][0].extend(pods.tolist())

    def _put_one(self, kind: KindId, pods: Rows, order: Rows) -> int:
        """Places a single pod as `_put_some` would, at half the cost, since there are no limits among copies. Returns the
        number placed, 0 or 1."""
        alone = len(order) == 1
        fits = feasible_on(self._snapshot, kind, order) if alone else feasible(self._snapshot, kind).feasible[order]
        at = int(fits.argmax()) if len(fits) else 0
        if not len(fits) or not fits[at]:
            return 0
        row = int(order[at])
        if has_claims(self._snapshot, self._snapshot.of(kind)):
            self.claims[int(pods[0])] = tuple(assume_claims(self._snapshot, kind, Row(row)))
        self._snapshot.place(kind, row)
        self.at[pods] = row
        self._placed.append(pods)
        return 1

    def _put_some(self, kind: KindId, pods: Rows, order: Rows) -> int:
        """Places as many pods of a batch as fit, from the front on; returns how many."""
        snapshot, numbered = self._snapshot, self._snapshot.of(kind)
        spreads = counts_itself(snapshot, numbered)
        fits = feasible(snapshot, kind, without=(TOPOLOGY_SPREAD,) if spreads else ()).feasible
        if spreads:
            fits &= rows_with_labels(snapshot, hard_constraints(numbered))
        rows = order[fits[order]]
        limits = own_limits(snapshot, numbered, rows)
        if not limits:
            rows = rows[: len(pods)]  # each takes at least one copy
        steps, cut = in_sequence(copies_on(snapshot, numbered, rows), limits, len(pods), self._is_over)
        self._cut = cut
        self._put(kind, pods[: len(steps)], rows, steps)
        return len(steps)

    def _put(self, kind: KindId, pods: Rows, rows: Rows, steps: Rows) -> None:
        """Places the pods on `rows[steps]`, one each."""
        if not len(pods):
            return
        self.at[pods] = rows[steps]
        self._placed.append(pods)
        counts = np.bincount(steps, minlength=len(rows))
        used = np.flatnonzero(counts)
        self._snapshot.place_many(kind, rows[used], counts[used])


def _batches(snapshot: ClusterSnapshot, kind: NumberedGroup, pods: Rows) -> Iterator[Rows]:
    """Splits a run of pods where verdicts on copies change in ways that `fit.domain_limits` does not count."""
    if kind.asks.disks or has_claims(snapshot, kind):
        # Volumes and devices that the first pod takes are not available to the next, or restrict it to the same node.
        yield from np.split(pods, len(pods))
    elif kind.asks.affinity and len(pods) > 1 and matches_all_its_terms(snapshot, kind):
        # The first of a series may go where the others may not go after it.
        yield pods[:1]
        yield pods[1:]
    else:
        yield pods


def _copies_limit_each_other(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    """Whether a copy may close a row for the next copy by something else than filling it."""
    asks = kind.asks
    return bool(asks.disks or asks.affinity or asks.anti_affinity or hard_constraints(kind)) or has_claims(snapshot, kind)
