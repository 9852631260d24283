"""The best of the rows that kube-scheduler offers for one pod: as its own scoring would have it, and with our score by weight.

kube-scheduler filters a sample of the nodes, and its scores compare the nodes of that sample with one another. So do these.
Among equals the emptiest row is taken, and of those the first. Deliberately absent: whether the pod fits there.
"""

from typing import Final

from slackwater.decide.steering.room import EMPTINESS, OF_ROOM, RoomScores
from slackwater.model.columns import Rows
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture
from slackwater.simulate.scores import PREFERENCES

_COMPARED: Final = tuple((score, EMPTINESS * weight) for name, (score, weight) in PREFERENCES.items() if name not in OF_ROOM)


def best_of(picture: Picture, kind: KindId, rows: Rows, rooms: RoomScores) -> int:
    """The position in `rows`, which has shape (rows,) and at least one entry, of the best one."""
    numbered = picture.of(kind)
    total = rooms.of(picture, kind, rows)
    for score, unit in _COMPARED:
        total += unit * score(picture, numbered, rows)
    return int(total.argmax())
