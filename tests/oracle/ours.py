"""Our side: what `slackwater simulate placement` prints, called in this process."""

import functools
import importlib
from typing import Any

from tests.oracle.campaign import Ours
from tests.oracle.real import Mode


def side(mode: Mode) -> Ours:
    """The function that answers what the real side answers in `mode`."""
    offline: Any = importlib.import_module("slackwater.app.offline")
    match mode:
        case "placement":
            ours: Ours = offline.placement_lines
        case "sequential":
            ours = functools.partial(offline.placement_lines, sequential=True)
        case "scores":
            ours = offline.score_lines
    return ours
