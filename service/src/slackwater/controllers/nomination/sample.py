"""The best of the rows that kube-scheduler offers for one pod: as its own scoring would have it, and with our score by weight.

    Samples(own).best_of(picture, kind, rows)

kube-scheduler filters a sample of the nodes, and its scores compare the nodes of that sample with one another. So do these;
which of them have nothing to compare for a kind is kept, as its scores of room are. Among equals the emptiest row is taken,
and of those the first. Deliberately absent: whether the pod fits there.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from slackwater.controllers.nomination.room import EMPTINESS, OwnScore, RoomScores
from slackwater.fit.scores import PREFERENCES, TELLS_APART
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.equivalence_groups import KindId, Numbered

#: A score, and what one point of it counts.
_Compared = tuple[Callable[[Picture, Numbered, Rows], Int64], int]
_COMPARED: Final[dict[str, _Compared]] = {
    name: (score, EMPTINESS * weight) for name, (score, weight) in PREFERENCES.items() if name in TELLS_APART
}


class Best(NamedTuple):
    """The position of the best row. `compared`: by scores that compare rows, so that among fewer another may be best."""

    at: int
    compared: bool


class Samples:
    """See the module."""

    def __init__(self, own: OwnScore) -> None:
        self._rooms = RoomScores(own)
        self._comparing: dict[KindId, tuple[_Compared, ...]] = {}
        self._picture: Picture | None = None
        self._as_of = (-1, -1, -1)

    def forget(self) -> None:
        """Our own score may be another one from now on."""
        self._rooms.forget()

    def best_of(self, picture: Picture, kind: KindId, rows: Rows) -> Best:
        """The best of `rows`, which has shape (rows,) and at least one entry."""
        numbered, comparing = picture.of(kind), self._comparing_for(picture, kind)
        total = self._rooms.of(picture, kind, rows)
        for score, unit in comparing:
            total += unit * score(picture, numbered, rows)
        return Best(int(total.argmax()), bool(comparing))

    def _comparing_for(self, picture: Picture, kind: KindId) -> tuple[_Compared, ...]:
        facts = picture.facts
        as_of = facts.journal.position, facts.images_version, len(picture.kinds)
        if picture is not self._picture or as_of != self._as_of:
            self._picture, self._as_of, self._comparing = picture, as_of, {}
        found = self._comparing.get(kind)
        if found is None:
            numbered = picture.of(kind)
            found = tuple(each for name, each in _COMPARED.items() if TELLS_APART[name](picture, numbered))
            self._comparing[kind] = found
        return found
