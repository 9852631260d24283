"""The best of the rows that kube-scheduler offers for one pod: as its own scoring would have it, and with our score by weight.

    Samples(own).best_of(snapshot, kind, rows)

kube-scheduler filters a sample of the nodes, and its scores compare the nodes of that sample with one another. So do these;
which of them have nothing to compare for a kind is kept, as its scores of room are. Among equals the emptiest row is taken,
and of those the first. Deliberately absent: whether the pod fits there.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from slackwater.controllers.nomination.room import EMPTINESS, OwnScore, RoomScores
from slackwater.fit.scores import PREFERENCES, TELLS_APART
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, Numbered

#: A score, and what one point of it counts.
_Compared = tuple[Callable[[ClusterSnapshot, Numbered, Rows], Int64], int]
_COMPARED: Final[dict[str, _Compared]] = {
    name: (score, EMPTINESS * weight) for name, (score, weight) in PREFERENCES.items() if name in TELLS_APART
}


class Best(NamedTuple):
    """The position of the best row. `compared`: by scores that compare rows, so that among fewer another may be best."""

    at: int
    compared: bool


class Samples:
    """Finds the best of the nodes that kube-scheduler offers for one pod."""

    def __init__(self, own: OwnScore) -> None:
        self._rooms = RoomScores(own)
        self._comparing: dict[KindId, tuple[_Compared, ...]] = {}
        self._snapshot: ClusterSnapshot | None = None
        self._as_of = (-1, -1, -1)

    def forget(self) -> None:
        """Our own score may be another one from now on."""
        self._rooms.forget()

    def best_of(self, snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Best:
        """The best of `rows`, which has shape (rows,) and at least one entry."""
        numbered, comparing = snapshot.of(kind), self._comparing_for(snapshot, kind)
        total = self._rooms.of(snapshot, kind, rows)
        for score, unit in comparing:
            total += unit * score(snapshot, numbered, rows)
        return Best(int(total.argmax()), bool(comparing))

    def _comparing_for(self, snapshot: ClusterSnapshot, kind: KindId) -> tuple[_Compared, ...]:
        facts = snapshot.facts
        as_of = facts.journal.position, facts.images_version, len(snapshot.kinds)
        if snapshot is not self._snapshot or as_of != self._as_of:
            self._snapshot, self._as_of, self._comparing = snapshot, as_of, {}
        found = self._comparing.get(kind)
        if found is None:
            numbered = snapshot.of(kind)
            found = tuple(each for name, each in _COMPARED.items() if TELLS_APART[name](snapshot, numbered))
            self._comparing[kind] = found
        return found
