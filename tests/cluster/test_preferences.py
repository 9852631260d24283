"""Our score has a say, and not the last word: preferred affinity and soft taints go before it at the default weight."""

import pytest

from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.same_state import same_state
from tests.cluster.support.slackwater_process import SlackwaterProcess
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

#: So steep that the extender gives the busy node 10 and the idle one 1, which outweighs in-tree spreading.
STEEP = {"nodes": {"score": {"minUsage": 0.0, "peak": 0.75}}}
#: Filter names one node, or kube-scheduler chooses among all that pass and asks us for scores.
CHOOSES = pytest.mark.parametrize("we_choose", [True, False], ids=["node-choice", "kube-scheduler-chooses"])


def steep(*, we_choose: bool) -> Json:
    return {**STEEP, "extender": {"bind": not we_choose}}


SOFT_TAINT = {"key": "avoid", "value": "me", "effect": "PreferNoSchedule"}


@CHOOSES
async def test_our_score_alone_decides_between_nodes_without_preferences(stage: Stage, ground: Ground, we_choose: bool) -> None:
    busy, _ = await a_busy_and_an_idle_node(ground)
    service = await stage.up(steep(we_choose=we_choose))
    await ground.make_pods([a_pod("p", cpu="500m", memory="2Gi")])

    assert await ground.until_placed("p", within_seconds=60) == busy
    await same_state(service, ground)


@CHOOSES
async def test_preferred_node_affinity_goes_before_our_score(stage: Stage, ground: Ground, we_choose: bool) -> None:
    _, idle = await a_busy_and_an_idle_node(ground)
    service = await stage.up(steep(we_choose=we_choose))
    await ground.make_pods([a_pod("p", cpu="500m", memory="2Gi", affinity=preferring("kubernetes.io/hostname", idle))])

    assert await ground.until_placed("p", within_seconds=60) == idle
    await scores_were_asked_for(service, we_choose=we_choose, pods=1)


@CHOOSES
async def test_a_soft_taint_goes_before_our_score(stage: Stage, ground: Ground, we_choose: bool) -> None:
    busy, idle = await a_busy_and_an_idle_node(ground)
    await ground.patch_node(busy, {"spec": {"taints": [SOFT_TAINT]}})
    service = await stage.up(steep(we_choose=we_choose))
    tolerates = [{"key": "avoid", "operator": "Exists"}]
    await ground.make_pods([a_pod("minds", cpu="500m", memory="2Gi")])
    assert await ground.until_placed("minds", within_seconds=60) == idle
    await ground.make_pods([a_pod("tolerates", cpu="500m", memory="2Gi", tolerations=tolerates)])

    assert await ground.until_placed("tolerates", within_seconds=60) == busy
    await scores_were_asked_for(service, we_choose=we_choose, pods=2)


async def scores_were_asked_for(service: SlackwaterProcess, *, we_choose: bool, pods: int) -> None:
    """Never, or for each pod; again where an attempt took too long for kube-scheduler."""
    asked = (await service.metrics()).value("slackwater_extender_requests_total", verb="prioritize", code="200")
    assert asked == 0 if we_choose else asked >= pods, asked


async def a_busy_and_an_idle_node(ground: Ground) -> tuple[str, str]:
    """Of 16 CPUs and 64 GiB the busy one has 11.5 and 46 in use, by a pod that was put there."""
    (busy,) = await ground.make_nodes(1, tag="busy")
    (idle,) = await ground.make_nodes(1, tag="idle")
    await ground.make_pods([a_pod("load", cpu="11500m", memory="46Gi", on=busy)])
    return busy, idle


def preferring(key: str, value: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}
