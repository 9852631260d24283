"""The best of the rows that kube-scheduler offers for one pod: as its own scoring would have it, and with our score by weight.

kube-scheduler filters a sample of the nodes, and its scores compare the nodes of that sample with one another. So do these.
Among equals the emptiest row is taken, and of those the first. Deliberately absent: whether the pod fits there.
"""

from slackwater.decide.steering.ranking import EMPTINESS, OwnScore, emptiness
from slackwater.model.columns import Rows
from slackwater.simulate.kindtable import KindId
from slackwater.simulate.picture import Picture
from slackwater.simulate.scores import PREFERENCES


def best_of(picture: Picture, kind: KindId, rows: Rows, own: OwnScore) -> int:
    """The position in `rows`, which has shape (rows,) and at least one entry, of the best one."""
    numbered = picture.of(kind)
    total = own(picture, numbered, rows).copy()
    for score, weight in PREFERENCES.values():
        found = score(picture, numbered, rows)
        total += found if weight == 1 else weight * found
    total *= EMPTINESS
    total += emptiness(picture, rows)
    return int(total.argmax())
