"""Slackwater decides, and the real Karpenter with its kwok provider launches and terminates: a launch without capacity, a
burst, a NodePool that changes, and the end of all pods. On a control plane of its own."""

from typing import Any, Final

import pytest

from slackwater.adapters.cloud.karpenter.objects import CLAIMS_PATH, POOLS_PATH
from tests.bench.karpenter import sides
from tests.bench.karpenter.inputs import WORKLOADS, Json, deployments, node_pool, types_up_to
from tests.bench.karpenter.sides import Side
from tests.bench.stage import NODES_PATH, PODS_PATH
from tests.cluster.support.ground import MERGE_PATCH
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.usefixtures("binaries", "karpenter")]

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_PODS: Final = 12
_QUICK: Final[Json] = {
    "scanInterval": "2s",
    "expanders": ["priority", "price"],
    "scaleDown": {"unneededTime": "1s", "delayAfterAdd": "1s"},
    "consolidation": {"enabled": True, "drift": True, "interval": "2s", "minNodeAge": "0s", "podRest": "0s"},
}
#: A NodePool that goes before all others, and whose NodeClaims Karpenter cannot launch.
_NOWHERE: Final = "nowhere"


def without_machines() -> Json:
    """Its NodeClass does not exist; Karpenter's kwok provider takes that for a lack of capacity."""
    [_, pool] = node_pool(sides.DEFAULT_POLICY, handed_over=True)
    pool["metadata"]["name"], pool["spec"]["weight"] = _NOWHERE, 10
    pool["spec"]["template"]["spec"]["nodeClassRef"] = {**pool["spec"]["template"]["spec"]["nodeClassRef"], "name": _NOWHERE}
    return pool


async def test_karpenter_launches_and_terminates_what_slackwater_decides() -> None:
    """Leaving the side fails if Karpenter has created or deleted a NodeClaim of its own accord."""
    async with sides.node_claims(types_up_to(8)[:2], more=_QUICK, hopeless=_NOWHERE) as side:
        await side.stage.create(POOLS_PATH, [without_machines()])
        await side.stage.create(_DEPLOYMENTS, deployments(WORKLOADS[:3], _PODS, "slackwater"))
        await until_placed(side)
        claims = await items(side, CLAIMS_PATH)
        assert {claim["metadata"]["labels"]["karpenter.sh/nodepool"] for claim in claims} == {"default"}
        assert {each for claim in claims for each in true_conditions(claim)} >= {"Launched", "Registered", "Initialized"}
        assert "Drifted" not in {each for claim in claims for each in true_conditions(claim)}
        closed = {group["name"]: group["backoff"] for group in await groups(side) if group["backoff"] is not None}
        assert closed
        assert all(name.startswith(f"{_NOWHERE}/") for name in closed)
        [code] = {backoff["code"] for backoff in closed.values()}
        assert code == "InsufficientCapacityError"

        change = {"spec": {"template": {"metadata": {"labels": {"round": "two"}}}}}
        async with side.stage.api.patch(f"{POOLS_PATH}/default", json=change, headers=MERGE_PATCH) as answer:
            answer.raise_for_status()
        await eventually(
            lambda: items(side, NODES_PATH),
            lambda nodes: {node["metadata"]["labels"].get("round") for node in nodes} == {"two"},
            within_seconds=300,
            wanted="only nodes of the changed NodePool",
            every_seconds=1,
        )
        await until_placed(side)

        for each in await items(side, _DEPLOYMENTS):
            path = f"{_DEPLOYMENTS}/{each['metadata']['name']}"
            async with side.stage.api.patch(path, json={"spec": {"replicas": 0}}, headers=MERGE_PATCH) as answer:
                answer.raise_for_status()
        await eventually(
            lambda: items(side, CLAIMS_PATH), lambda left: not left, within_seconds=300, wanted="no NodeClaim", every_seconds=1
        )


async def until_placed(side: Side) -> None:
    await eventually(
        lambda: items(side, PODS_PATH),
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods) == _PODS == len(pods),
        within_seconds=300,
        wanted=f"{_PODS} pods with nodes",
        every_seconds=1,
    )


async def items(side: Side, path: str) -> list[Json]:
    async with side.stage.api.get(path) as answer:
        answer.raise_for_status()
        return list((await answer.json())["items"])


async def groups(side: Side) -> list[dict[str, Any]]:
    """As the service says them in its dump."""
    async with side.stage.api.get(f"{side.ops}/dumpstate") as answer:
        answer.raise_for_status()
        return list((await answer.json())["autoscaler"]["groups"])


def true_conditions(claim: Json) -> set[str]:
    return {each["type"] for each in claim["status"]["conditions"] if each["status"] == "True"}
