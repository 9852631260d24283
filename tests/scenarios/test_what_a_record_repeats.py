"""The whole service in a sandbox cluster, its scheduler and its agents, recorded; and repeated in processes of their own."""

import os
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import pytest

from slackwater.runtime.record.calls import read_frame
from slackwater.runtime.record_file import frames_of
from slackwater.sandbox.embedded_demo import run_sandbox_demo
from tests.support.program import PROGRAM

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_AT_LEAST_SECONDS: Final = 10.0
#: A thousand are in tests/cluster/test_explaining.py.
_AT_LEAST_DECISIONS: Final = 200
_DEADLINE_SECONDS: Final = 240.0


async def test_a_recorded_sandbox_replays_without_a_difference(tmp_path: Path) -> None:
    record = tmp_path / "decisions.rec"
    with anyio.fail_after(_DEADLINE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(run_sandbox_demo, nodes=20, pods=300, duration_seconds=None, record=str(record)))
            # Ten seconds in any case; how long a busy machine needs for so many decisions nobody knows.
            await anyio.sleep(_AT_LEAST_SECONDS)
            while True:
                if decisions_in(record) >= _AT_LEAST_DECISIONS:
                    break
                await anyio.sleep(1.0)
            group.cancel_scope.cancel()
    for hash_seed in ("0", "1"):
        done = await anyio.run_process(
            [str(PROGRAM), "replay", str(record)], env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=False
        )
        last = done.stdout.decode().splitlines()[-1]
        decisions, differences = last.split()
        assert (done.returncode, differences) == (0, "differences=0"), done.stdout.decode()
        assert int(decisions.removeprefix("decisions=")) >= _AT_LEAST_DECISIONS, last


def decisions_in(record: Path) -> int:
    """How many pods were filtered and permits asked for so far, by the record."""
    frames = map(read_frame, frames_of(str(record))) if record.exists() else ()
    return sum(frame.what in {"filter", "ask_permit"} for frame in frames)
