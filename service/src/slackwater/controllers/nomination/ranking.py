"""A ranking: the feasible rows of one equivalence group by score, kept up to date while pods come and go.

    ranking.best(most)   # up to `most` rows of the highest score, those with the most room first; empty: no row is feasible

The score is kube-scheduler's (`fit.scores`) plus our own by weight. Each part is computed again when what it reads changes:

    resources            for rows where pods came or went
    node properties      when a node changed, or the set of feasible rows: these scores compare the feasible rows
    places of other pods when any pod moved, and only for groups with terms about other pods, or that others have terms about

So the next pod of a group costs a few operations on one row. Deliberately absent: which pod is placed, and placing it.
"""

from typing import Final

import numpy as np

from slackwater.controllers.nomination.room import EMPTINESS, Scoring, score_room
from slackwater.fit.feasible import feasible, judged_apart, refused
from slackwater.fit.filter.ledger_fit import judge_ledger
from slackwater.fit.filter.node_resources_fit import judge_node_resources_fit
from slackwater.model.columns import Int64, Mask, Rows
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
    """The feasible rows of one equivalence group, the best first. It belongs to one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, kind: KindId, scoring: Scoring) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._scoring = scoring
        self._facts = self._pods = -1
        self._feasible: Mask = np.zeros(0, np.bool_)
        #: Rows that pass every predicate but those on CPU, memory and the like; kept for groups that are not `social`.
        self._open: Mask = np.zeros(0, np.bool_)
        #: Scores by what they read, shape (n_rows,); undefined where a row is not feasible.
        self._of_room: Int64 = np.zeros(0, np.int64)
        self._of_nodes: Int64 = np.zeros(0, np.int64)
        #: The sum of the scores, with the row's emptiness in the lower bits: scores are integers, and thousands of rows tie.
        self._total: Int64 = np.zeros(0, np.int64)

    @property
    def social(self) -> bool:
        """Do scores or verdicts of the group's next pod depend on where the last one went, beyond that row's resources?"""
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
        social = self.social
        if changed is None or social:
            self._renew_all(changed, social=social)
        else:
            self._renew_rows(changed)
        self._facts, self._pods = facts, pods

    def _renew_rows(self, changed: Rows) -> None:
        """Updates single rows. Only room has changed there, and the group is not `social`."""
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

    def _renew_all(self, changed: Rows | None, *, social: bool) -> None:
        snapshot = self._snapshot
        before, self._feasible = self._feasible, feasible(snapshot, self._kind).feasible
        rows = np.flatnonzero(self._feasible)
        if changed is None:
            self._of_room = np.zeros(snapshot.n_rows, np.int64)
        # All changed rows, feasible or not: pods elsewhere may make a row feasible later without any change on the row itself.
        self._score_room(np.arange(snapshot.n_rows) if changed is None else changed)
        if changed is None or not np.array_equal(before, self._feasible):
            self._of_nodes = self._scored(_OF_NODES, rows)
        total = self._of_room + self._of_nodes
        if social:
            total += self._scored(_OF_OTHERS, rows)
        else:
            self._open = _open_rows(snapshot, self._kind)
        self._total = np.where(self._feasible, total, _NOT_FEASIBLE)

    def _score_room(self, rows: Rows) -> None:
        if len(rows):
            self._of_room[rows] = score_room(self._snapshot, self._kind, rows, self._scoring)

    def _scored(self, names: tuple[str, ...], rows: Rows) -> Int64:
        """The sum of these plug-ins' scores, for all rows; 0 for rows that are not in `rows`."""
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
