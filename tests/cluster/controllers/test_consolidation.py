"""The last large node with small pods gives way to a small node, and this one to another once its group has another template:
on a real control plane, with Deployments and a budget."""

from typing import Any, Final

import pytest

from tests.cluster.support.fallen import Fallen
from tests.cluster.support.ground import Ground
from tests.cluster.support.judgement import judged
from tests.cluster.support.removals import History, followed
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

LARGE, SMALL = 32_000, 8_000
REPLICAS: Final = 12


def _group(name: str, cpu: int, image: str) -> dict[str, Any]:
    status = {"capacity": {"cpu": f"{cpu}m", "memory": f"{4 * cpu // 1000}Gi", "pods": "110"}}
    template = {"metadata": {"labels": {"image": image}}, "status": status}
    return {"name": name, "provider": "kwok", "maxSize": 5, "template": template, "kwok": {"appearAfter": "1s"}}


def settings_of(ground: Ground, image: str = "v1") -> dict[str, Any]:
    return {
        "autoscaler": {
            "enabled": True,
            "scanInterval": "2s",
            "expanders": ["price"],
            "nodeGroups": [_group("large", LARGE, image), _group("small", SMALL, image)],
            "providers": {"kwok": {"namespace": ground.name, "seed": 7}},
            "scaleDown": {"unneededTime": "5s", "delayAfterAdd": "5s"},
            # Scale-down moves pods too; they need not rest here.
            "consolidation": {"enabled": True, "interval": "3s", "minNodeAge": "10s", "podRest": "0s", "drift": True},
        }
    }


@pytest.mark.timeout(240)
async def test_the_last_large_node_gives_way_to_a_small_one(stage: Stage, ground: Ground) -> None:
    fallen = Fallen(ground, 1, REPLICAS)
    async with stage.control_plane.session() as watching, followed(watching) as history:
        service = await stage.up(settings_of(ground), kubeconfig=stage.control_plane.kubeconfig("admin"))
        big, web = fallen.a_deployment("big", 2, cpu=20_000), fallen.a_deployment("web", REPLICAS, cpu=300)
        for deployment in (big, web):
            await ground.create(f"/apis/apps/v1/namespaces/{ground.name}/deployments", deployment)
        await fallen.guard("web", {"app": "web"}, maxUnavailable=4)
        await fallen.until_running(history, REPLICAS + 2, within_seconds=60)
        assert {name.partition("-")[0] for name in history.there["node"]} == {"large"}
        since = history.version
        await fallen.scale("big", 0)
        await eventually(lambda: _groups(history), lambda found: found == {"small"}, within_seconds=120, wanted="a small node")
        await fallen.until_running(history, REPLICAS, within_seconds=60)
        await eventually(lambda: _done(service), lambda done: done > 0, within_seconds=30, wanted="the move counted")
        (small,) = history.there["node"]
        await service.kill()
        service.write_config(settings_of(ground, image="v2"))
        await service.start()
        await eventually(lambda: _nodes(history), lambda names: small not in names, within_seconds=60, wanted="another node")
        await fallen.until_running(history, REPLICAS, within_seconds=60)
        found = judged(history, since=since)
    assert found.below == [], "no budget below its minimum at any moment"
    assert found.refused == {}, "nobody is evicted for whom there is no room elsewhere"
    wanted = "the move counted, in the loop after it"
    await eventually(lambda: _done(service), lambda done: done == 1, within_seconds=30, wanted=wanted)
    assert await _groups(history) == {"small"}


async def _done(service: SlackwaterProcess) -> int:
    return (await service.metrics()).by("slackwater_consolidation_moves_total", "outcome").get("done", 0)


async def _nodes(history: History) -> set[str]:
    return set(history.there["node"])


async def _groups(history: History) -> set[str]:
    return {name.partition("-")[0] for name in history.there["node"]}
