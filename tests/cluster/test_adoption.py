"""Pods that others put on nodes count like those that we put there, and soon."""

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked
from tests.cluster.support.same_state import reserved, same_state
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GI = 1024**3
NOBODY = "nobody"  #: no scheduler of this name runs
DEFAULT_SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


async def test_pods_bound_behind_our_back_are_adopted_when_the_watch_shows_them(stage: Stage, ground: Ground) -> None:
    """No audit finds them: there is none."""
    (node,) = await ground.make_nodes(1)
    service = await stage.up_service({"audit": {"interval": "0s"}})

    async def counted(want: Asked) -> None:
        async def look() -> Asked:
            return reserved(await service.dumpstate())[node]

        await eventually(look, lambda got: got == want, within_seconds=60, wanted=f"{want} on {node}")

    await ground.make_pods([a_pod("bound", cpu="1", memory="1Gi", scheduler=NOBODY)])
    await ground.bind("bound", node)
    await counted(Asked(1000, GI))

    await ground.make_pods([a_pod("born-there", cpu="500m", memory="2Gi", on=node, scheduler=NOBODY)])
    await counted(Asked(1500, 3 * GI))

    # More than one at a time, and one that was pending for us.
    await ground.make_pods([a_pod("ours", cpu="250m", memory="1Gi")])
    await ground.bind("ours", node)
    await ground.make_pods(a_pod(f"crowd-{n}", cpu="10m", memory="1Gi", on=node, scheduler=NOBODY) for n in range(20))
    await counted(Asked(1950, 24 * GI))

    assert (await service.metrics()).total("slackwater_pods_adopted_total") == 23
    await same_state(service, ground)


async def test_pods_beyond_total_that_others_bound_are_counted_and_nothing_more_is_granted_there(
    stage: Stage, ground: Ground
) -> None:
    (full,) = await ground.make_nodes(1, cpu="2", tag="full")
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    await ground.make_pods([a_pod("too-large", cpu="1800m", on=full, scheduler=NOBODY)])

    async def over() -> int:
        return (await service.metrics()).total("slackwater_admissions_over_total")

    await eventually(over, lambda n: n == 1, within_seconds=60, wanted="one admission over Total")
    (roomy,) = await ground.make_nodes(1, cpu="2", tag="roomy")
    await ground.make_pods(a_pod(f"p-{number}", cpu="100m") for number in range(3))
    await ground.until_bound(4, within_seconds=60)

    assert await ground.placed() == {"too-large": full, "p-0": roomy, "p-1": roomy, "p-2": roomy}
    await same_state(service, ground)


async def test_pods_of_another_scheduler_beside_ours_are_counted(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(10, cpu="8")
    service = await stage.up()
    await stage.start_scheduler(DEFAULT_SCHEDULER, name="default-scheduler")

    async with anyio.create_task_group() as group:
        group.start_soon(ground.make_pods, [a_pod(f"ours-{n}", cpu="500m") for n in range(60)])
        theirs = [a_pod(f"theirs-{n}", cpu="500m", scheduler="default-scheduler") for n in range(60)]
        group.start_soon(ground.make_pods, theirs)
    await ground.until_bound(120, within_seconds=60)

    assert sorted(stage.bound_so_far()) == sorted(f"{whose}-{n}" for whose in ("ours", "theirs") for n in range(60))
    dump = await same_state(service, ground)  # waits until the last of them was seen
    assert (await service.metrics()).total("slackwater_pods_adopted_total") == 60
    assert sum(asked.cpu for asked in reserved(dump).values()) == 120 * 500
