"""SIGTERM: what was begun is finished and answered, and the exit status says that all is well."""

import anyio
import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import SCHEDULER, Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

STOPPED_WITHIN_SECONDS = 60.0


async def test_a_service_stopped_under_load_exits_with_0_and_reports_every_pod_it_bound(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(20)
    service = await stage.up()
    for turn in range(3):
        await ground.make_pods(a_pod(f"p-{turn}-{number}") for number in range(600))
        await stage.until_bound_so_far(600 * turn + 50, within_seconds=60)
        service.terminate()
        assert await service.ended(within_seconds=STOPPED_WITHIN_SECONDS) == 0
        assert '"stopped"' in service.log.splitlines()[-1]
        if await ground.pending():
            break
        await service.start()  # this process stood still until all was bound: once more

    assert await ground.pending(), "it stopped after its work was done"
    await stage.control_plane.stop(SCHEDULER)
    bound = stage.bound_so_far()
    assert set(await ground.placed()) == set(bound)
    log = (stage.control_plane.logs / f"{SCHEDULER}.log").read_text()
    failed = [line for line in log.splitlines() if "/scheduler/bind" in line and f'pod="{ground.name}/' in line]
    # A call that comes while the connection is being closed is lost, and tried again; but then it has done nothing.
    assert [name for name in bound if any(f'/{name}"' in line for line in failed)] == []


async def test_binds_in_flight_when_sigterm_comes_are_carried_out_and_answered(stage: Stage, ground: Ground) -> None:
    (node,) = await ground.make_nodes(1)
    # A bind has time enough for the signal to come while it is under way.
    service = await stage.up_service({"extender": {"httpTimeout": "30s"}})
    names = await ground.make_pods(a_pod(f"p-{number}") for number in range(30))
    uids = {name: pod["metadata"]["uid"] for name, pod in (await ground.pods()).items()}
    answers: dict[str, str] = {}

    async def bind(name: str) -> None:
        body = {"PodName": name, "PodNamespace": ground.name, "PodUID": uids[name], "Node": node}
        answers[name] = (await service.ask_extender("bind", body))["Error"]

    async def under_way() -> int:
        return (await service.metrics()).total("slackwater_api_calls_waiting")

    async def stopping() -> bool:
        return '"stopping"' in service.log

    async with anyio.create_task_group() as group:
        stage.control_plane.pause("kube-apiserver")
        try:
            for name in names:
                group.start_soon(bind, name)
            await eventually(under_way, lambda n: n == 30, within_seconds=60, wanted="30 binds under way")
            service.terminate()
            await eventually(stopping, lambda yes: yes, within_seconds=60, wanted="the signal taken")
        finally:
            stage.control_plane.resume("kube-apiserver")
    assert await service.ended(within_seconds=STOPPED_WITHIN_SECONDS) == 0

    assert answers == dict.fromkeys(names, "")
    assert await ground.placed() == dict.fromkeys(names, node)
