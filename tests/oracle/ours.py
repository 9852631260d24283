"""Our side: what `slackwater simulate placement` prints, called in this process."""

import functools

from slackwater.app import offline
from tests.oracle.campaign import Ours
from tests.oracle.real import Mode


def side(mode: Mode) -> Ours:
    """The function that answers what the real side answers in `mode`."""
    match mode:
        case "placement":
            return offline.placement_lines
        case "sequential":
            return functools.partial(offline.placement_lines, sequential=True)
        case "scores":
            return offline.score_lines
