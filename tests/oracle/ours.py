"""Our side: what `slackwater simulate placement` prints, called in this process."""

import importlib
from typing import Any

from tests.oracle.campaign import Ours
from tests.oracle.real import Mode


def side(mode: Mode) -> Ours:
    """The function that answers what the real side answers in `mode`."""
    offline: Any = importlib.import_module("slackwater.app.offline")
    sides: dict[Mode, Ours] = {
        "placement": offline.placement_lines,
        "sequential": lambda cluster: offline.placement_lines(cluster, sequential=True),
        "scores": offline.score_lines,
    }
    return sides[mode]
