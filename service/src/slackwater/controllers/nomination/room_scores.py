"""Scores the rows that kube-scheduler offers for one pod, and finds the best of them.

    Samples(scoring).best_of(snapshot, kind, rows)
    RoomScores(scoring).of(snapshot, kind, rows)      # kept, and computed again only for rows where pods came or went since

- `Scoring`: the plug-ins that score, by what they read, and our own score.
- `RoomScores`: the part of the score that depends on a row's own room alone.
- `Samples`: the whole score of a sample, and its best row.

In: a snapshot, an equivalence group and rows that are feasible for it. Out: the `Best` row. This module does not judge whether
the pod fits; scores that compare rows with one another are those of `fit.node_scores`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from slackwater.fit.node_scores import ScorePlugin, ScoreProfile
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU, MEMORY

#: Our own score of rows for an equivalence group, already multiplied by its weight in kube-scheduler. It reads what the group's
#: pods request.
OwnScore = Callable[[ClusterSnapshot, NumberedGroup, Rows], Int64]

#: One point of score, in the unit of totals.
EMPTINESS: Final = 1 << 20
#: Pod sizes whose scores are kept: 45 kB each at 5,000 nodes.
_MOST_SIZES: Final = 128
#: When some stale rows have to be scored, so many times as many stale rows are scored with them: that costs little more.
_AHEAD: Final = 8

#: All that these scores read of a group: what its pods request, and what is assumed where they request nothing.
_Size = tuple[Amounts, Amounts | None, Amounts | None]


class Scoring:
    """Our own score, and the plug-ins of kube-scheduler's profile by what they read.

    `of_room` read a row's own room alone. `compared` compare rows with one another."""

    def __init__(
        self, own: OwnScore, profile: ScoreProfile | None = None, version: KubernetesVersion = DEFAULT_VERSION
    ) -> None:
        plugins = (profile or ScoreProfile()).plugins(version)
        self.own: Final = own
        self.of_room: Final = tuple(plugin for plugin in plugins.values() if plugin.differs is None)
        self.compared: Final[Mapping[str, ScorePlugin]] = {
            name: plugin for name, plugin in plugins.items() if plugin.differs is not None
        }


def score_room(snapshot: ClusterSnapshot, kind: KindId, rows: Rows, scoring: Scoring) -> Int64:
    """The room score of each row, shape (len(rows),), in units of one point over `EMPTINESS`."""
    numbered = snapshot.of(kind)
    total = scoring.own(snapshot, numbered, rows)
    for plugin in scoring.of_room:
        total = total + plugin.weight * plugin.score(snapshot, numbered, rows)
    return total * EMPTINESS + _emptiness(snapshot, rows)


def _emptiness(snapshot: ClusterSnapshot, rows: Rows) -> Int64:
    """How much of each row's CPU and memory is free: 0 to `EMPTINESS` - 1."""
    lines = slice(CPU, MEMORY + 1)
    capacity = np.maximum(snapshot.facts.allocatable[lines].take(rows, axis=1), 1)
    shares = np.minimum(snapshot.scored[lines].take(rows, axis=1) / capacity, 1.0).sum(axis=0)
    found: Int64 = ((2.0 - shares) / 2.0 * (EMPTINESS - 1)).astype(np.int64)
    return found


@dataclass(slots=True)
class _Kept:
    """The scores of one pod size by row, as of these positions of the journals."""

    scores: Int64
    stale: Mask
    facts: int
    pods: int


class RoomScores:
    """Room scores, kept for each pod size.

    kube-scheduler asks about a hundred nodes at a time, round robin, so most rows are unchanged since it last asked about them.
    Scores are integers, so thousands of rows tie. Therefore one point of score counts `EMPTINESS`, and the row's free CPU and
    memory break ties below that.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._snapshot: ClusterSnapshot | None = None
        self._kept: dict[_Size, _Kept] = {}

    def forget(self) -> None:
        """Drops all scores: our own score may have changed."""
        self._kept.clear()

    def of(self, snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Int64:
        """The room score of each row, as `score_room` computes it."""
        kept = self._up_to_date(snapshot, kind)
        stale: Mask = kept.stale.take(rows)
        if stale.any():
            some = np.concatenate([rows[stale], np.flatnonzero(kept.stale)[: _AHEAD * len(rows)]])
            kept.scores[some] = score_room(snapshot, kind, some, self._scoring)
            kept.stale[some] = False
        return kept.scores.take(rows)

    def _up_to_date(self, snapshot: ClusterSnapshot, kind: KindId) -> _Kept:
        """The kept scores for the size of the group's pods, with the stale rows marked."""
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
            kept = _Kept(np.zeros(n_rows, np.int64), np.ones(n_rows, np.bool_), facts, pods)
        elif len(changed):
            kept.stale[changed] = True
            kept.pods = pods
        self._kept[size] = kept  # put last: the size that was not asked about for longest is dropped first
        return kept


def _size(numbered: NumberedGroup) -> _Size:
    return numbered.kind.requests, numbered.asks.scored_before, numbered.asks.scored


class Best(NamedTuple):
    """The position of the best row. `compared`: scores that compare rows were used, so among fewer rows another may be best."""

    at: int
    compared: bool


class Samples:
    """Scores samples, and keeps what does not change from one sample to the next.

    The score is kube-scheduler's plus our own by weight. kube-scheduler filters a sample of the nodes, and some of its scores
    compare the nodes of that sample with one another; so do these. Scores that cannot differ between rows for a group are kept,
    like room scores. Among equals the emptiest row wins, then the first.
    """

    def __init__(self, scoring: Scoring) -> None:
        self._rooms = RoomScores(scoring)
        self._compared = tuple(scoring.compared.values())
        self._comparing: dict[KindId, tuple[ScorePlugin, ...]] = {}
        self._snapshot: ClusterSnapshot | None = None
        self._as_of = (-1, -1, -1)

    def forget(self) -> None:
        """Drops room scores: our own score may have changed."""
        self._rooms.forget()

    def best_of(self, snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Best:
        """The best of `rows`, which has shape (rows,) and at least one entry."""
        numbered, comparing = snapshot.of(kind), self._comparing_for(snapshot, kind)
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
