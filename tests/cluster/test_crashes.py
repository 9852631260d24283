"""The service or the API server dies in the middle of the work: nothing is lost, nothing is done twice."""

import random
from collections import Counter
from signal import SIGKILL

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage
from tests.support.seeds import a_seed

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: kube-scheduler waits up to 10 s before it tries a pod again that failed several times.
BOUND_WITHIN_SECONDS = 90.0
FIRST_SERVER_ERROR = 500


async def test_a_service_killed_while_600_pods_are_placed_loses_none_and_doubles_none(stage: Stage, ground: Ground) -> None:
    rng = random.Random(a_seed())
    await ground.make_nodes(50, cpu="32")
    service = await stage.up()
    names: list[str] = []

    async def more_pods() -> None:
        begin = len(names)
        pods = (a_pod(f"p-{number:04}", cpu="500m", memory="1Gi") for number in range(begin, begin + 600))
        names.extend(await ground.make_pods(pods))

    async def killed_at(bound: int) -> None:
        await stage.until_bound_so_far(bound, within_seconds=BOUND_WITHIN_SECONDS)
        await anyio.sleep(rng.uniform(0.0, 0.02))  # anywhere within a bind
        await service.kill()

    await more_pods()
    for first, last in ((40, 120), (160, 240), (280, 360)):
        await killed_at(len(names) - 600 + rng.randint(first, last))
        if not await ground.pending():  # this process stood still until all was bound: once more
            await service.start()
            await more_pods()
            await killed_at(len(names) - 600 + rng.randint(first, last))
        assert await ground.pending(), "it was killed after its work was done"
        await service.start()
    await ground.until_bound(len(names), within_seconds=BOUND_WITHIN_SECONDS)

    bound = Counter(stage.bound_so_far())
    assert max(bound.values()) == 1
    # Who asked was gone before the answer: the API server notes a time-out, though it may have done it.
    assert set(names) - set(bound) <= {request.name for request in stage.binds() if request.status >= FIRST_SERVER_ERROR}
    await same_state(service, ground)


async def test_an_api_server_killed_under_load_leaves_no_gap(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(20)
    service = await stage.up()
    pid = service.pid
    names = await ground.make_pods(a_pod(f"before-{number}") for number in range(150))
    await stage.until_bound_so_far(40, within_seconds=BOUND_WITHIN_SECONDS)

    stage.control_plane.kill("kube-apiserver", SIGKILL)
    await stage.control_plane.ended("kube-apiserver")
    await stage.control_plane.restart("kube-apiserver")
    going = names[:30]
    await ground.delete_pods(going)
    after = await ground.make_pods(a_pod(f"after-{number}") for number in range(150))
    await ground.until_bound(270, within_seconds=BOUND_WITHIN_SECONDS)

    await same_state(service, ground)
    service.check_running()
    assert service.pid == pid
    bound = Counter(stage.bound_so_far())
    # Of the requests that the killed server did not answer none is in its log.
    assert max(bound.values()) == 1
    assert set(after) <= set(bound) <= {*names, *after}
    metrics = await service.metrics()
    assert metrics.by("slackwater_event_source_breaks_total", "resource").keys() >= {"nodes", "pods"}
