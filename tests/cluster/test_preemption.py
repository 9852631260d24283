"""kube-scheduler's own preemption asks our preempt verb, and where our accounting needs more victims it gets them."""

import pytest

from tests.cluster.support.bodies import a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import reserved, same_state
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: It backs off while its victims leave.
PREEMPTED_WITHIN_SECONDS = 60.0


async def test_a_high_priority_pod_runs_on_full_nodes_after_one_victim_has_left(stage: Stage, ground: Ground) -> None:
    nodes = await ground.make_nodes(2, cpu="4")
    high = await a_priority_class(ground)
    service = await stage.up()
    low = await ground.make_pods(a_pod(f"low-{number}", cpu="1") for number in range(8))
    await ground.until_bound(8, within_seconds=60)

    await ground.make_pods([a_pod("high", cpu="800m", priorityClassName=high)])
    place = await ground.until_placed("high", within_seconds=PREEMPTED_WITHIN_SECONDS)

    assert place in nodes
    assert len(set(low) - set(await ground.pods())) == 1
    assert (await service.metrics()).value("slackwater_extender_requests_total", verb="preempt", code="200") >= 1
    assert reserved(await same_state(service, ground))[place].cpu == 3800


async def test_where_system_amounts_leave_less_one_victim_more_than_in_tree_found_is_evicted(
    stage: Stage, ground: Ground
) -> None:
    """In-tree: 4000 - 3500 + 500 (one victim) >= 1000. Ours: 3500 - 3500 + 500 < 1000, so a second one has to go."""
    (node,) = await ground.make_nodes(1, cpu="4")
    high = await a_priority_class(ground)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    low = await ground.make_pods(a_pod(f"low-{number}", cpu="500m") for number in range(7))
    await ground.until_bound(7, within_seconds=60)

    await ground.make_pods([a_pod("high", cpu="1", priorityClassName=high)])
    assert await ground.until_placed("high", within_seconds=PREEMPTED_WITHIN_SECONDS) == node

    assert len(set(low) - set(await ground.pods())) == 2
    assert (await service.metrics()).value("slackwater_extender_requests_total", verb="preempt", code="200") >= 1
    assert reserved(await same_state(service, ground))[node].cpu == 3500


async def test_a_node_where_no_victims_suffice_in_our_accounting_is_left_out(stage: Stage, ground: Ground) -> None:
    """On the small node the pod is larger than our Total, on the other one victim does: none is evicted in vain."""
    (small,) = await ground.make_nodes(1, tag="small", cpu="2")
    (large,) = await ground.make_nodes(1, tag="large", cpu="4")
    high = await a_priority_class(ground)
    service = await stage.up({"nodes": {"system": {"cpu": "500m"}}})
    on = {"kubernetes.io/hostname": small}
    spared = await ground.make_pods(a_pod(f"small-{number}", cpu="500m", nodeSelector=on) for number in range(3))
    on = {"kubernetes.io/hostname": large}
    await ground.make_pods(a_pod(f"large-{number}", cpu="1750m", nodeSelector=on) for number in range(2))
    await ground.until_bound(5, within_seconds=60)

    await ground.make_pods([a_pod("high", cpu="1700m", priorityClassName=high)])

    assert await ground.until_placed("high", within_seconds=PREEMPTED_WITHIN_SECONDS) == large
    left = set(await ground.pods())
    assert left >= set(spared)
    assert len(left) == 5
    await same_state(service, ground)


async def a_priority_class(ground: Ground) -> str:
    """A PriorityClass above the default of 0; each ground has its own, since it belongs to no namespace."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": ground.name},
        "value": 1000,
    }
    await ground.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    return ground.name
