"""kube-scheduler shows us a sample of the nodes; where our accounting refuses all of it, we name a node that fits."""

from typing import Any

import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.stage import Stage
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: kube-scheduler never looks for fewer than 100 nodes.
FULL, ROOMY = 300, 3


async def test_a_pod_whose_whole_sample_we_refuse_is_nominated_to_a_node_that_fits(stage: Stage, ground: Ground) -> None:
    """Of 303 nodes 300 are full in our accounting alone: 2 of 4 CPUs are set aside, 2 are used."""

    def small_sample(document: dict[str, Any]) -> None:
        document["profiles"][0]["percentageOfNodesToScore"] = 1
        # One after another, so that the first sample is the first 100 nodes of its list.
        document["parallelism"] = 1
        # So long a refused pod is not tried again: on a busy machine the nomination would come after the second try.
        document["podInitialBackoffSeconds"] = 10

    full = await ground.make_nodes(FULL, tag="full", cpu="4")
    await ground.make_pods(a_pod(f"on-{number}", cpu="2", on=name) for number, name in enumerate(full))
    service = await stage.up({"nodes": {"system": {"cpu": "2"}}}, edit=small_sample)

    async def n_nodes() -> int:
        return int((await service.statusz())["nodes"])

    async def n_tainted() -> int:
        return sum(bool(node["spec"].get("taints")) for node in await ground.nodes())

    async def n_running() -> int:
        return [pod["status"]["phase"] for pod in (await ground.pods()).values()].count("Running")

    async def met() -> int:
        return (await service.metrics()).total("slackwater_nominations_met_total")

    # Last, so that kube-scheduler has them at the end of its list.
    roomy = await ground.make_nodes(ROOMY, tag="roomy", cpu="4")
    await eventually(n_nodes, lambda n: n == FULL + ROOMY, within_seconds=60, wanted="all nodes in the cluster state")
    # A new node is tainted as not ready. While the three are, no node would do, and kube-scheduler looks further by itself.
    await eventually(n_tainted, lambda n: n == 0, within_seconds=60, wanted="all nodes untainted", every_seconds=0.2)

    # Whatever happens in the cluster makes kube-scheduler try refused pods again, and look at other nodes.
    await eventually(n_running, lambda n: n == FULL, within_seconds=60, wanted="all pods running", every_seconds=0.5)

    await ground.make_pods([a_pod("first", cpu="2")])
    assert await ground.until_placed("first", within_seconds=60) in roomy

    await eventually(met, lambda n: n == 1, within_seconds=60, wanted="the nomination met")
    assert (await service.metrics()).total("slackwater_sample_misses_total") >= 1

    # Wherever the sample begins now: in the end each gets one of the roomy nodes.
    await ground.make_pods(a_pod(f"more-{number}", cpu="2") for number in range(ROOMY - 1))
    await ground.until_bound(FULL + ROOMY, within_seconds=60)
    placed = await ground.placed()
    assert sorted(placed[name] for name in ("first", *(f"more-{n}" for n in range(ROOMY - 1)))) == sorted(roomy)
    await same_state(service, ground)
