"""The whole service in a sandbox cluster, its scheduler and its agents, recorded; and repeated in processes of their own."""

import os
from pathlib import Path

import anyio
import pytest

from slackwater.sandbox.embedded_demo import run_sandbox_demo
from tests.support.program import PROGRAM

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_recorded_sandbox_replays_without_a_difference(tmp_path: Path) -> None:
    record = tmp_path / "decisions.rec"
    await run_sandbox_demo(nodes=20, pods=300, duration_seconds=10.0, record=str(record))
    for hash_seed in ("0", "1"):
        done = await anyio.run_process(
            [str(PROGRAM), "replay", str(record)], env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=False
        )
        last = done.stdout.decode().splitlines()[-1]
        decisions, differences = last.split()
        assert (done.returncode, differences) == (0, "differences=0"), done.stdout.decode()
        # How many there are in ten seconds depends on the machine; a thousand are in tests/cluster/test_explaining.py.
        assert int(decisions.removeprefix("decisions=")) >= 200, last
