"""What the service says of itself on a real control plane: why pods wait, and that its record repeats every decision."""

import json
import os
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.slackwater_process import PROGRAM, SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = 400
WANT_DECISIONS = 1000


async def command(*arguments: str, **environment: str) -> tuple[int, str]:
    with anyio.fail_after(120):
        done = await anyio.run_process(
            [str(PROGRAM), *arguments], stdin=subprocess.DEVNULL, env={**os.environ, **environment}, check=False
        )
    assert not done.stderr, done.stderr.decode()
    return done.returncode, done.stdout.decode()


def ops_url(service: SlackwaterProcess) -> str:
    return f"http://{service._addresses['ops']}"


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
async def test_a_record_of_a_thousand_decisions_replays_without_a_difference(
    stage: Stage, ground: Ground, tmp_path: Path, end: str
) -> None:
    record = tmp_path / "decisions.rec"

    async def decisions() -> int:
        """Read while it is being written."""
        said = (await command("replay", str(record)))[1]
        return int(said.splitlines()[-1].split()[0].removeprefix("decisions="))

    # Slackwater binds: then a pod is decided about three times.
    settings = {"recording": {"file": str(record)}, "nodes": {"score": {"randomize": True}}, "extender": {"bind": True}}
    await ground.make_nodes(20)
    service = await stage.up(settings)
    await ground.make_pods(a_pod(f"p-{number}") for number in range(PODS))
    await ground.until_bound(PODS, within_seconds=60)
    if end == "SIGKILL":
        await eventually(decisions, lambda n: n >= WANT_DECISIONS, within_seconds=60, wanted=f"{WANT_DECISIONS} on record")
        await service.kill()
    else:
        service.terminate()
        assert await service.ended(within_seconds=60) == 0

    for hash_seed in ("0", "1"):
        code, said = await command("replay", str(record), PYTHONHASHSEED=hash_seed)
        last = said.splitlines()[-1]
        print(last)
        assert (code, last.split()[1]) == (0, "differences=0"), said
        assert int(last.split()[0].removeprefix("decisions=")) >= WANT_DECISIONS
    assert ("cut off" in said) == (end == "SIGKILL")


async def test_a_pod_that_waits_and_its_nodes_are_explained(stage: Stage, ground: Ground) -> None:
    nodes = await ground.make_nodes(3, cpu="2")
    service = await stage.up()
    await ground.make_pods([a_pod("big", cpu="3")])
    await ground.until_refused("big")
    code, said = await command("explain", "pod", f"{ground.name}/big", "--url", ops_url(service))
    answer = json.loads(said)
    assert code == 0
    (reason,) = [reason for reason in answer["reasons"] if reason["nodes"] == len(nodes)]
    assert (reason["resource"], reason["short"]) == ("cpu", {"milliCPU": 1000})
    want = f"lower the request of pod {ground.name}/big for cpu by 1, from 3 to 2"
    assert want in [remedy["change"] for remedy in answer["remedies"]]

    code, said = await command("explain", "node", nodes[0], "--url", ops_url(service))
    assert (code, json.loads(said)["reasons"][0]["code"]) == (0, "NotAutoscaled")
