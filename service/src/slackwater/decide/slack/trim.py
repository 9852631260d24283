"""How much of the room that the past tells is kept: corrected by how the promise was kept, hour by hour.

    trim(hour) = trim(hour before) + gain x (late - allowed) / pods of an hour        in percent, from 100 on

What is kept beyond the calculation (nodes are whole, and stay when they are half empty) makes pods be in time with less, and
what is taken from it (other pods, nodes that go) makes them late: neither is known beforehand, both show. `allowed` is four
fifths of what the promise allows. Weighed by the pods of their hour the errors add up, so in the long run as many pods are
late as are allowed to be.
"""

from typing import Final

import numpy as np

from slackwater.decide.slack.rule import PPM
from slackwater.model.columns import Int64

_HOUR: Final = 60
_GAIN: Final = 150.0
#: Of what may be late.
_AIM: Final = 0.8
_MOST: Final = 400.0
#: Fewer pods in an hour say little.
_FEW: Final = 20.0


def trim_percent(in_time: Int64, late: Int64, share_ppm: int) -> int:
    """Whole percent, 0 to 400. Pods by the minute, the newest last, shapes (n,); what is not a whole hour does not count."""
    hours = len(late) // _HOUR
    lates = late[len(late) - hours * _HOUR :].reshape(hours, _HOUR).sum(axis=1)
    judged = lates + in_time[len(in_time) - hours * _HOUR :].reshape(hours, _HOUR).sum(axis=1)
    usual = max(int(judged.sum()) / max(int(np.count_nonzero(judged)), 1), _FEW)
    allowed = _AIM * (PPM - share_ppm) / PPM
    trim = 100.0
    for error in ((lates - allowed * judged) / usual).tolist():
        trim = min(max(trim + _GAIN * error, 0.0), _MOST)
    return round(trim)
