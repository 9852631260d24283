"""Sample scoring: finds the best of the rows that kube-scheduler offers for one pod.

    Samples(scoring).best_of(snapshot, kind, rows)

The score is kube-scheduler's plus our own by weight. kube-scheduler filters a sample of the nodes, and some of its scores
compare the nodes of that sample with one another; so do these. Which of them cannot differ between rows for a group is kept, as
room scores are. Among equals the emptiest row wins, then the first. Deliberately absent: whether the pod fits there.
"""

from typing import NamedTuple

from slackwater.controllers.nomination.room import EMPTINESS, RoomScores, Scoring
from slackwater.fit.scores import ScorePlugin
from slackwater.model.columns import Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId


class Best(NamedTuple):
    """The position of the best row. `compared`: scores that compare rows were used, so among fewer rows another may be best."""

    at: int
    compared: bool


class Samples:
    """Scores samples, and keeps what does not change from one to the next."""

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
            found = tuple(each for each in self._compared if each.tells_apart and each.tells_apart(snapshot, numbered))
            self._comparing[kind] = found
        return found
