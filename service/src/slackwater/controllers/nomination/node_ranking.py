"""Chooses nodes for pending pods in a snapshot: each pod goes to the feasible node with the best score at that moment.

- `Ranking`: the feasible rows of one equivalence group, the best first.
- `Chooser`: places the pods, and keeps the rankings from one choice to the next.

In: the snapshot and pods from the backlog, in order. Out: a `Choice`. Invariant: a choice leaves the snapshot as it was; the
caller then holds room for the chosen pods and updates the snapshot. This module does not decide which pods wait (`backlog`) or
how many may be nominated at once (`aimd_window`).
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from slackwater.fit.best_node import EMPTINESS, MOST_COMPARED, Scoring, score_room, to_compare
from slackwater.fit.feasible_nodes import feasible, judged_apart, refused
from slackwater.fit.filter.inter_pod_affinity import term_counter
from slackwater.fit.filter.node_accounting import judge_ledger
from slackwater.fit.filter.node_resources_fit import judge_node_resources_fit
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.events import PodNomination
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId

_OF_NODES: Final = ("TaintToleration", "NodeAffinity", "ImageLocality")
_OF_OTHERS: Final = ("PodTopologySpread", "InterPodAffinity")
#: If more than one row in so many has changed, updating all rows together is cheaper than one by one.
_MANY: Final = 8
_NOT_FEASIBLE: Final = -1
_NOWHERE: Final[Rows] = np.zeros(0, np.intp)
#: Predicates that read what pods take of a row.
_OF_RESOURCES: Final = frozenset({"NodeResourcesFit", "Ledger"})


class Ranking:
    """The feasible rows of one equivalence group in one snapshot, the best first.

        ranking.best(most)   # up to `most` rows of the highest score, those with the most room first; empty: no row is feasible

    The score is kube-scheduler's (`fit.node_scores`) plus our own by weight. Each part is computed again when what it reads
    changes:

        resources            for the rows where pods came or went
        node properties      when a node or the set of feasible rows changed, since these scores compare the feasible rows
        places of other pods when any pod came or went; only for groups that have terms about other pods, or are in such terms

    So the next pod of a group costs a few operations on one row.
    """

    def __init__(self, snapshot: ClusterSnapshot, kind: KindId, scoring: Scoring) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._scoring = scoring
        self._facts = self._pods = -1
        self._feasible: Mask = np.zeros(0, np.bool_)
        #: Rows that pass every predicate but those in `_OF_RESOURCES`. Computed only for groups for which
        #: `depends_on_placements` is false.
        self._open: Mask = np.zeros(0, np.bool_)
        #: Scores by what they read, shape (n_rows,); undefined where a row is not feasible.
        self._of_room: Int64 = np.zeros(0, np.int64)
        self._of_nodes: Int64 = np.zeros(0, np.int64)
        #: The sum of the scores; the row's emptiness in its lower digits orders the rows of equal score, often thousands.
        self._total: Int64 = np.zeros(0, np.int64)

    @property
    def depends_on_placements(self) -> bool:
        """Do the verdicts or scores for the group's next pod depend on the place of its last pod, beyond that row's
        resources?"""
        snapshot, kind = self._snapshot, self._snapshot.of(self._kind)
        asks, counters = kind.asks, snapshot.counters
        itself = asks.spread or asks.affinity or asks.anti_affinity or asks.preferred_pods or asks.spread_by_default is not None
        rare = asks.disks or asks.inline_disks or asks.host_ports
        return bool(itself or rare or any(counters.about(kind, role) for role in ("affinity", "preferred", "anti")))

    def best(self, most: int) -> Rows:
        """Up to `most` rows of the highest score, those with the most room first; empty if no row is feasible."""
        self._renew()
        if not len(self._total):
            return _NOWHERE
        at = int(self._total.argmax())
        highest = int(self._total[at])
        if highest < 0:
            return _NOWHERE
        if most == 1:
            return np.array([at], np.intp)
        rows: Rows = np.flatnonzero(self._total >= highest - highest % EMPTINESS)
        return rows[np.argsort(-self._total[rows], kind="stable")[:most]]

    def _renew(self) -> None:
        snapshot = self._snapshot
        facts, pods = snapshot.facts.journal.position, snapshot.journal.position
        if facts == self._facts and pods == self._pods:
            return
        changed = snapshot.journal.since(self._pods, at_most=snapshot.n_rows // _MANY) if facts == self._facts else None
        depends_on_placements = self.depends_on_placements
        if changed is None or depends_on_placements:
            self._renew_all(changed, depends_on_placements=depends_on_placements)
        else:
            self._renew_rows(changed)
        self._facts, self._pods = facts, pods

    def _renew_rows(self, changed: Rows) -> None:
        """Updates these rows only. Valid if nothing but the rows' room has changed, and `depends_on_placements` is false."""
        snapshot = self._snapshot
        fits: Mask = judge_node_resources_fit(snapshot, snapshot.of(self._kind), changed) == Reason.OK
        if snapshot.ledger is not None:
            fits &= judge_ledger(snapshot.of(self._kind).kind.requests, snapshot.ledger, changed) == Reason.OK
        fits &= self._open[changed]
        same = bool((fits == self._feasible[changed]).all())
        self._feasible[changed] = fits
        self._score_room(changed[fits])
        if same:
            rows = changed[fits]
            self._total[rows] = self._of_room[rows] + self._of_nodes[rows]
            return
        self._of_nodes = self._scored(_OF_NODES, np.flatnonzero(self._feasible))
        self._total = np.where(self._feasible, self._of_room + self._of_nodes, _NOT_FEASIBLE)

    def _renew_all(self, changed: Rows | None, *, depends_on_placements: bool) -> None:
        snapshot = self._snapshot
        before, self._feasible = self._feasible, feasible(snapshot, self._kind).feasible
        rows = np.flatnonzero(self._feasible)
        if changed is None:
            self._of_room = np.zeros(snapshot.n_rows, np.int64)
        # All changed rows, feasible or not: pods on other rows may make a row feasible later, and the row is not scored then.
        self._score_room(np.arange(snapshot.n_rows) if changed is None else changed)
        if changed is None or not np.array_equal(before, self._feasible):
            self._of_nodes = self._scored(_OF_NODES, rows)
        total = self._of_room + self._of_nodes
        if depends_on_placements:
            total += self._scored(_OF_OTHERS, rows)
        else:
            self._open = _open_rows(snapshot, self._kind)
        self._total = np.where(self._feasible, total, _NOT_FEASIBLE)

    def _score_room(self, rows: Rows) -> None:
        if len(rows):
            self._of_room[rows] = score_room(self._snapshot, self._kind, rows, self._scoring)

    def _scored(self, names: tuple[str, ...], rows: Rows) -> Int64:
        """The weighted sum of these plug-ins' scores, shape (n_rows,); 0 for rows that are not in `rows`."""
        snapshot, kind = self._snapshot, self._snapshot.of(self._kind)
        total = np.zeros(snapshot.n_rows, np.int64)
        for name, plugin in self._scoring.compared.items() if len(rows) else ():
            if name in names:
                total[rows] += EMPTINESS * plugin.weight * plugin.score(snapshot, kind, rows)
        return total


def _open_rows(snapshot: ClusterSnapshot, kind: KindId) -> Mask:
    found: Mask = np.ones(snapshot.n_rows, np.bool_)
    if refused(snapshot, snapshot.of(kind)) is not None:
        return ~found
    for name, codes in judged_apart(snapshot, kind).items():
        if name not in _OF_RESOURCES:
            found &= codes == Reason.OK
    return found


#: The most rankings that are kept: 125 kB each at 5,000 nodes.
_MOST_KINDS = 128


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of one choice. `picks`: pods with their chosen nodes. `unfit`: pods that fit nowhere now, or whose best node
    cannot be known yet."""

    picks: tuple[PodNomination, ...]
    unfit: tuple[Pod, ...]


class Chooser:
    """Chooses nodes for pods, and keeps rankings from one choice to the next while the snapshot is the same object.

    Within one priority it places the pods of an equivalence group together, so one search finds equally good rows for several
    pods. It undoes the placements in the snapshot at the end of a choice.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._snapshot: ClusterSnapshot | None = None
        self._rankings: dict[KindId, Ranking] = {}

    def forget(self) -> None:
        """Drops all rankings. Called when our own score or the images on nodes, which no journal shows, may have changed."""
        self._snapshot, self._rankings = None, {}

    def choose(
        self,
        snapshot: ClusterSnapshot,
        pods: Sequence[Pod],
        elsewhere: Sequence[Pod] = (),
        already_nominated: Sequence[Pod] = (),
    ) -> Choice:
        """Chooses nodes for the pods, which come in order of priority. Leaves the snapshot as it was. None is chosen for pods
        for which too many selectors would have to be evaluated.

        `elsewhere`: pods that kube-scheduler is placing now, on unknown nodes. A pod of the same equivalence group is not
        chosen for if its feasible nodes depend on the places of those pods. `already_nominated`: nominated pods that are not
        bound yet. Of an equivalence group with a hard topology spread only one pod at a time is nominated, because
        kube-scheduler may take the pods in another order.
        """
        if snapshot is not self._snapshot:
            self._snapshot, self._rankings = snapshot, {}
        unsure, still = _kinds(snapshot, elsewhere), _kinds(snapshot, already_nominated)
        picks: list[PodNomination] = []
        left = MOST_COMPARED
        unfit: list[Pod] = []
        with snapshot.fork():
            for kind, same in _by_kind(pods, snapshot.number(pods).tolist()):
                cost = to_compare(snapshot, kind)
                known = cost <= left and not self._is_unsure(snapshot, kind, unsure)
                left -= cost if known else 0
                spreads = any(each.hard for each in snapshot.of(kind).asks.spread)
                most = int(kind not in still) if spreads else len(same)
                rows = self._rows(snapshot, kind, min(most, len(same))) if known else []
                picks += [PodNomination(pod.uid, snapshot.facts.nodes[row].name) for pod, row in zip(same, rows, strict=False)]
                unfit += same[len(rows) :]
        return Choice(tuple(picks), tuple(unfit))

    @staticmethod
    def _is_unsure(snapshot: ClusterSnapshot, kind: KindId, unsure: Container[int]) -> bool:
        return _is_strict(snapshot, kind) and (kind in unsure or _is_first_of_affinity_group(snapshot, kind))

    def _rows(self, snapshot: ClusterSnapshot, kind: KindId, count: int) -> list[int]:
        """Places up to `count` pods of the group in the snapshot. Returns their rows; fewer than `count` if no more fit."""
        ranking = self._ranking(snapshot, kind)
        at_once = 1 if ranking.depends_on_placements else count
        found: list[int] = []
        while len(found) < count:
            best = ranking.best(min(at_once, count - len(found))).tolist()
            if not best:
                break
            for row in best:
                snapshot.place(kind, row)
            found += best
        return found

    def _ranking(self, snapshot: ClusterSnapshot, kind: KindId) -> Ranking:
        known = self._rankings.pop(kind, None)
        if known is None and len(self._rankings) >= _MOST_KINDS:
            del self._rankings[next(iter(self._rankings))]
        self._rankings[kind] = known or Ranking(snapshot, kind, self._scoring)
        return self._rankings[kind]


def _kinds(snapshot: ClusterSnapshot, pods: Sequence[Pod]) -> set[int]:
    """The equivalence groups of the pods that have pod constraints. Those with too many rules are not in the snapshot."""
    picky = [pod for pod in pods if pod.kind.pod_constraints is not None and pod.kind.n_rules <= MOST_RULES]
    return set(snapshot.number(picky).tolist()) if picky else set()


def _is_strict(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Do the places of the group's pods decide which rows are feasible for the next pod of the group?"""
    asks = snapshot.of(kind).asks
    return bool(asks.affinity or asks.anti_affinity or asks.host_ports or asks.disks or any(each.hard for each in asks.spread))


def _is_first_of_affinity_group(snapshot: ClusterSnapshot, kind: KindId) -> bool:
    """Is no pod placed yet that the group's required pod affinity matches? Then the group's first pod decides where all have to
    go, and a wrong node for it would be wrong for all."""
    numbered = snapshot.of(kind)
    affinity = numbered.asks.affinity
    return bool(affinity) and not snapshot.counters.read(term_counter(snapshot, *affinity))[: snapshot.n_rows].any()


def _by_kind(pods: Sequence[Pod], kinds: Sequence[int]) -> Iterator[tuple[KindId, list[Pod]]]:
    """Groups the pods by priority and equivalence group. The groups are in the order of their first pods."""
    numbered = list(zip(pods, kinds, strict=True))
    for _, group in groupby(numbered, key=lambda one: one[0].priority):
        by_kind: dict[int, list[Pod]] = {}
        for pod, kind in group:
            by_kind.setdefault(kind, []).append(pod)
        for kind, same in by_kind.items():
            yield KindId(kind), same
