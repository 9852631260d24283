"""Killing a planning process leaves its exit status to whoever waits for it."""

import os
import subprocess
import sys
from typing import Any, cast

from slackwater.model.ids import Instant
from slackwater.runtime.planner.pipe import Link


class Feed:
    """Knows no pods."""

    pod_of = None


def test_killing_what_has_ended_by_itself_leaves_its_exit_status_to_be_collected() -> None:
    """Else asyncio's watcher reports status 255, and people look for an error where the kernel ran out of memory."""
    child = subprocess.Popen((sys.executable, "-c", "raise SystemExit(3)"), stdout=subprocess.PIPE)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    Link(cast("Any", child), cast("Any", Feed()), frozenset(), lambda: Instant(0.0)).kill()
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    assert child.stdout is not None
    child.stdout.close()
    child.returncode = 3  # collected above
