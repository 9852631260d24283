"""Auto Scaling groups under the running loop: a burst, a stock-out, an interruption, to zero and back, and faults by seed.
One pod fits on a machine, so machines are counted by pods. CI plays ten seeds; `SLACKWATER_AWS_SEEDS=30` plays as many.
"""

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from slackwater.model.objects import ZONE
from tests.faults.virtualloop import run_virtually
from tests.support.awsscene import ZONES, AwsScene, aws_scene
from tests.support.builders import a_pod
from tests.support.fake_ec2 import FakeEc2

pytestmark = [pytest.mark.anyio]

SEEDS = range(int(os.environ.get("SLACKWATER_AWS_SEEDS", "10")))


def calls_of(ec2: FakeEc2) -> Counter[str]:
    found, ec2.calls = ec2.calls, Counter()
    return found


async def until(scene: AwsScene, is_so: Callable[[], bool]) -> None:
    """Lets time pass until something holds, for an hour at most: a group backs off for up to half of one."""
    for _ in range(360):
        if is_so():
            return
        await scene.pass_time(10)


async def test_a_burst_a_stock_out_an_interruption_and_to_zero_and_back() -> None:
    async with aws_scene() as scene:
        ec2 = scene.ec2
        for name in ("asg-1", "asg-2"):
            ec2.has(name, zones=ZONES, types=["m5.xlarge", "m6i.xlarge"], max_size=400, is_protected=True)
        ec2.stock |= {(zone, "m5.xlarge"): 30 for zone in ZONES}  # the others are m6i
        scene.begins(500)
        await scene.loop()
        calls_of(ec2)
        peak = 0
        for _ in range(60):
            await scene.pass_time(10)
            peak = max(peak, scene.desired())
            if not scene.pending():
                break
        calls = calls_of(ec2)
        assert (scene.pending(), peak, len(scene.live())) == (0, 500, 500)
        assert Counter(machine.type for machine in scene.live())["m5.xlarge"] == 90
        zones = Counter(machine.zone for machine in scene.live())
        assert max(zones.values()) - min(zones.values()) <= 2
        # A loop takes one call, each change two, and a loop in which machines are lacking one more.
        loops, changes = int(scene.time.seconds / 10) + 1, calls["SetDesiredCapacity"]
        assert calls["DescribeAutoScalingGroups"] <= loops + changes
        assert calls["DescribeScalingActivities"] <= loops
        assert changes <= 2 * loops
        # Nothing changes: one call a loop.
        await scene.pass_time(100)
        assert calls_of(ec2) == {"DescribeAutoScalingGroups": 10, "ReceiveMessage": 10}
        # An interruption: its pod goes, another machine comes, and none is left over.
        ec2.interrupt(scene.live()[0].id)
        await scene.pass_time(300)
        assert (scene.pending(), len(scene.live()), scene.desired()) == (0, 500, 500)
        assert ec2.messages == {}
        # To zero and back.
        scene.ends(len(scene.pods))
        await scene.pass_time(600)
        assert (scene.live(), scene.desired()) == ([], 0)
        scene.begins(20)
        await scene.pass_time(200)
        assert (scene.pending(), len(scene.live())) == (0, 20)
        assert ec2.unasked == []


async def test_a_group_without_stock_backs_off_within_a_loop_and_another_serves() -> None:
    async with aws_scene() as scene:
        ec2 = scene.ec2
        ec2.has("asg-1", types=["m5.xlarge"], max_size=20, is_protected=True)
        ec2.has("asg-2", types=["m6i.xlarge"], zones=ZONES, max_size=20, is_protected=True)
        ec2.stock |= {(zone, type_): 0 for zone in ZONES for type_ in ("m5.xlarge", "m6i.xlarge")}
        scene.wants_many(3, cpu="3")
        await scene.loop()
        await scene.pass_time(20)
        ec2.stock |= {(zone, "m6i.xlarge"): 20 for zone in ZONES}
        backoffs = [status.backoff for status in scene.group_registry.group_status.values() if status.backoff is not None]
        assert {backoff.code for backoff in backoffs} == {"InsufficientInstanceCapacity"}
        await scene.pass_time(900)
        assert (scene.pending(), len(scene.live()), scene.desired()) == (0, 3, 3)


async def test_pods_bound_to_zones_are_served_by_a_group_without_nodes() -> None:
    async with aws_scene() as scene:
        scene.ec2.has("asg", zones=ZONES, is_protected=True)
        scene.wants(*(a_pod(f"in-{zone}", cpu="3", memory="1Gi", node_selector={ZONE: zone}) for zone in ZONES[1:]))
        await scene.loop()
        await until(scene, lambda: not scene.pending())
        assert scene.pending() == 0
        assert len(scene.live()) <= 3, "AWS fills the first zone, too"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_bought_twice_and_nothing_left_behind(seed: int) -> None:
    run_virtually(Random(seed), lambda: _storm(seed))


async def _storm(seed: int) -> None:
    rng = Random(seed)
    async with aws_scene(rng) as scene:
        ec2 = scene.ec2
        for name in ("asg-1", "asg-2"):
            ec2.has(name, zones=ZONES, types=["m5.xlarge", "m6i.xlarge"], max_size=40, is_protected=True)
        pods = rng.randint(5, 25)
        scene.begins(pods)
        interrupted = 0
        for step in range(60):
            await scene.pass_time(10)
            assert scene.desired() <= pods + interrupted, f"{scene.time.seconds} s: bought twice"
            if step == 10:  # a third of the pods ends, and comes again when their machines have gone
                scene.ends(pods // 3)
            if step == 40:
                scene.begins(pods // 3)
            if step in (20, 45) and rng.random() < 0.5:
                scene.restart()
            if step == 30 and scene.live():
                ec2.interrupt(rng.choice(scene.live()).id)
                interrupted = 1
            if step % 10 == 5:
                key = (rng.choice(ZONES), rng.choice(["m5.xlarge", "m6i.xlarge"]))
                ec2.stock[key] = 0 if key not in ec2.stock else 100
        scene.is_faulty = False
        ec2.stock.clear()
        await until(scene, lambda: (scene.pending(), len(scene.live()), scene.desired()) == (0, pods, pods))
        assert (scene.pending(), len(scene.live()), scene.desired()) == (0, pods, pods)
        assert (ec2.below, ec2.ended_twice) == ([], [])
        scene.ends(len(scene.pods))
        await until(scene, lambda: not scene.live())
        assert (scene.live(), scene.desired(), ec2.unasked) == ([], 0, [])
