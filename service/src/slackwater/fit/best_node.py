"""Scores the rows that kube-scheduler offers for one pod, and finds the best of them.

    Samples(scoring).best_of(snapshot, kind, rows)
    RoomScores(scoring).of(snapshot, kind, rows)      # cached; computed again only for rows where pods came or went since

- `Scoring`: the plug-ins that score, by what they read, and our own score.
- `RoomScores`: the part of the score that depends on a row's own room alone.
- `Samples`: the whole score of a sample, and its best row.

In: a snapshot, an equivalence group and rows that are feasible for the group. Out: the `Best` row. This module does not judge
whether the pod fits. Scores that compare rows with one another come from `fit.node_scores`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from slackwater.fit.node_scores import ScorePlugin, ScoreProfile
from slackwater.fit.plugins.inter_pod_affinity import pods_of_terms
from slackwater.fit.plugins.pod_topology_spread import pods_of_constraint
from slackwater.fit.scoring import Room, RoomScore, Value, room_on, room_on_row
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY

#: One point of score in a total. Values below one point order rows of equal score by their free CPU and memory.
EMPTINESS: Final = 1 << 20
#: The most pod sizes whose scores are cached: 45 kB each at 5,000 nodes.
_MOST_SIZES: Final = 128
#: Up to so many rows are scored one by one, with Python's numbers.
_FEW: Final = 16
#: When the stale rows of a sample are scored and there are more stale ones, up to so many times the sample's rows are scored
#: with them: that costs little more.
_AHEAD: Final = 8

#: The most selectors that are evaluated for one question: 20 ms of work.
MOST_COMPARED: Final = 10_000

#: All that room scores read of a group: what its pods request, and what the scores assume for containers without requests.
_Size = tuple[Amounts, Amounts | None, Amounts | None]


class Scoring:
    """What scoring uses: our own score, and the score plug-ins of kube-scheduler's profile, divided by what they read.

    The functions `of_room` read only a row's own room. The plug-ins `compared` compare rows with one another."""

    def __init__(
        self, own: RoomScore, profile: ScoreProfile | None = None, version: KubernetesVersion = DEFAULT_VERSION
    ) -> None:
        plugins = (profile or ScoreProfile()).plugins(version)
        #: The score functions that read only a row's own room, with their weights; the first is our own.
        self.of_room: Final = (
            (own, 1),
            *((plugin.of_room, plugin.weight) for plugin in plugins.values() if plugin.of_room is not None),
        )
        self.compared: Final[Mapping[str, ScorePlugin]] = {
            name: plugin for name, plugin in plugins.items() if plugin.differs is not None
        }


def score_room(snapshot: ClusterSnapshot, kind: KindId, rows: Rows, scoring: Scoring) -> Int64:
    """The room score of each row, shape (len(rows),): our own score and kube-scheduler's plug-ins that read only the row's
    room. One point is `EMPTINESS`; the remainder is the row's emptiness."""
    if len(rows) > _FEW:
        found: Int64 = _score_of(room_on(snapshot, rows), snapshot.of(kind), scoring)
        return found
    return np.array([score_row(snapshot, kind, Row(row), scoring) for row in rows.tolist()], np.int64)


def score_row(snapshot: ClusterSnapshot, kind: KindId, row: Row, scoring: Scoring) -> int:
    """The room score of one row."""
    return int(_score_of(room_on_row(snapshot, row), snapshot.of(kind), scoring))


def _score_of(room: Room, kind: NumberedGroup, scoring: Scoring) -> Value:
    total: Value = 0
    for score, weight in scoring.of_room:
        total = total + weight * score(room, kind)
    # The free share of each row's CPU and memory on average, scaled to 0..`EMPTINESS` - 1.
    capacity, scored, of = room.capacity, room.scored, room.of
    cpu = of.smaller(scored[CPU] / of.larger(capacity[CPU], 1), 1.0)
    memory = of.smaller(scored[MEMORY] / of.larger(capacity[MEMORY], 1), 1.0)
    return total * EMPTINESS + of.whole((2.0 - (cpu + memory)) / 2.0 * (EMPTINESS - 1))


@dataclass(slots=True)
class _SizeScores:
    """The cached scores of one pod size, shape (n_rows,). `stale`: rows to score again. `facts`, `pods`: the positions in the
    snapshot's journals up to which `stale` takes changes into account."""

    scores: Int64
    stale: Mask
    facts: int
    pods: int


class RoomScores:
    """A cache of room scores by pod size.

    kube-scheduler asks about a hundred nodes at a time, round robin, so most rows are unchanged since it last asked about them.
    Scores are integers, so thousands of rows tie. Therefore one point of score is `EMPTINESS`, and the row's free CPU and
    memory break ties below one point.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._snapshot: ClusterSnapshot | None = None
        self._kept: dict[_Size, _SizeScores] = {}

    def forget(self) -> None:
        """Drops all scores. Called when our own score may have changed."""
        self._snapshot, self._kept = None, {}

    def of(self, snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Int64:
        """The room score of each row, as `score_room` computes it."""
        kept = self._up_to_date(snapshot, kind)
        stale = rows[kept.stale.take(rows)]
        if len(stale):
            if np.count_nonzero(kept.stale) > _FEW:
                stale = np.concatenate([stale, np.flatnonzero(kept.stale)[: _AHEAD * len(rows)]])
            kept.scores[stale] = score_room(snapshot, kind, stale, self._scoring)
            kept.stale[stale] = False
        return kept.scores.take(rows)

    def _up_to_date(self, snapshot: ClusterSnapshot, kind: KindId) -> _SizeScores:
        """The cached scores for the size of the group's pods, with the rows that changed marked as stale."""
        if snapshot is not self._snapshot:
            self._snapshot, self._kept = snapshot, {}
        facts, pods, size = snapshot.facts.journal.position, snapshot.journal.position, _size(snapshot.of(kind))
        kept = self._kept.pop(size, None)
        # A changed node may be the largest one, which the scores of all rows depend on.
        changed = None if kept is None or kept.facts != facts else snapshot.journal.since(kept.pods, at_most=snapshot.n_rows)
        if kept is None or changed is None:
            if len(self._kept) >= _MOST_SIZES:
                del self._kept[next(iter(self._kept))]
            n_rows = snapshot.n_rows
            kept = _SizeScores(np.zeros(n_rows, np.int64), np.ones(n_rows, np.bool_), facts, pods)
        elif len(changed):
            kept.stale[changed] = True
            kept.pods = pods
        self._kept[size] = kept  # at the end: the least recently used size is dropped first
        return kept


def _size(numbered: NumberedGroup) -> _Size:
    return numbered.kind.requests, numbered.asks.scored_before, numbered.asks.scored


class Best(NamedTuple):
    """The best row of a sample. `at`: its position in the sample. `compared`: scores that compare rows were used, so in a part
    of the sample another row may be the best."""

    at: int
    compared: bool


class Samples:
    """Finds the best row of a sample, and caches what does not change from one sample to the next.

    The score is kube-scheduler's plus our own by weight. kube-scheduler filters a sample of the nodes, and some of its scores
    compare the nodes of that sample with one another; so do these. Cached are room scores, and for each group the plug-ins
    whose scores can differ between rows. Among rows of equal score the emptiest wins, then the first.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._rooms = RoomScores(scoring)
        self._compared = tuple(scoring.compared.values())
        self._comparing: dict[KindId, tuple[ScorePlugin, ...]] = {}
        self._snapshot: ClusterSnapshot | None = None
        self._as_of = (-1, -1, -1)

    def forget(self) -> None:
        """Drops what is cached. Called when our own score may have changed."""
        self._rooms.forget()
        self._snapshot, self._comparing = None, {}

    def best_of(self, snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Best | None:
        """Finds the best of `rows`, an array of shape (rows,) with at least one row. None: too many selectors would have to be
        compared with too many labels."""
        numbered = snapshot.of(kind)
        # The pods that scores for the group count.
        counted = [pods_of_terms(snapshot, weighted.term) for weighted in numbered.asks.preferred_pods]
        counted += [pods_of_constraint(numbered, constraint) for constraint in numbered.asks.spread]
        if snapshot.counters.to_compare(numbered, counted) > MOST_COMPARED:
            return None
        comparing = self._comparing_for(snapshot, kind)
        total = self._rooms.of(snapshot, kind, rows)
        for plugin in comparing:
            total += EMPTINESS * plugin.weight * plugin.score(snapshot, numbered, rows)
        return Best(int(total.argmax()), bool(comparing))

    def _comparing_for(self, snapshot: ClusterSnapshot, kind: KindId) -> tuple[ScorePlugin, ...]:
        facts = snapshot.facts
        as_of = facts.journal.position, facts.images_version, len(snapshot.kinds)
        if snapshot is not self._snapshot or as_of != self._as_of:
            self._snapshot, self._as_of, self._comparing = snapshot, as_of, {}
        found = self._comparing.get(kind)
        if found is None:
            numbered = snapshot.of(kind)
            found = tuple(each for each in self._compared if each.differs and each.differs(snapshot, numbered))
            self._comparing[kind] = found
        return found
