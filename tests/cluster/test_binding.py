"""Pods are bound by kube-scheduler, or by our bind verb and by nobody else; what they request is what we count."""

from collections import Counter
from typing import Any

import pytest

from tests.cluster.support.bodies import N_SHAPES, Json, a_pod, of_every_shape
from tests.cluster.support.ground import Ground
from tests.cluster.support.requests_formula import Asked, asked_by, total_by_node
from tests.cluster.support.same_state import allocatable, amounts, reserved, same_state
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

OVERHEAD = {"cpu": "35m", "memory": "24Mi"}
MI = 1024**2
#: What the pods of `of_every_shape` ask, worked out by hand.
WANT_BY_SHAPE = (
    Asked(100, 128 * MI),
    Asked(300, 100_000_000 + 64 * MI),
    Asked(400, 256 * MI),  # the init container
    Asked(250, 128 * MI),  # the sidecar beside the container
    Asked(400, 384 * MI),  # CPU: the large init container beside the first sidecar; memory: the container beside both
    Asked(145, 72 * MI),  # with the overhead
    Asked(350, 512 * MI),  # the pod's own level
    Asked(334, 128_974_848 + 1_234_567),  # 333.5 milliCPU for the pod, rounded up; memory of its containers
)


def patient(*, ours: bool = False) -> Json:
    """Settings by which kube-scheduler asks nothing twice, on a machine that stands still for a while, too."""
    return {"extender": {"bind": ours, "httpTimeout": "30s", **({"holdTimeout": "60s"} if ours else {})}}


@pytest.mark.parametrize("ours", [False, True], ids=["kube-scheduler", "our-bind-verb"])
async def test_500_pods_over_50_nodes_are_all_bound_and_counted_exactly(stage: Stage, ground: Ground, ours: bool) -> None:
    await ground.make_nodes(50)
    overhead = await a_runtime_class(ground)
    service = await stage.up(patient(ours=ours))

    names = await ground.make_pods(of_every_shape(number, overhead=overhead) for number in range(500))
    pods = await ground.until_bound(500, within_seconds=60)

    metrics = await service.metrics()
    assert metrics.by("slackwater_extender_requests_total", "code", verb="bind") == ({"200": 500} if ours else {})
    assert metrics.total("slackwater_bind_refusals_total") == 0
    assert metrics.total("slackwater_unexpected_binds_total") == 0
    assert {(request.user == "slackwater", request.status) for request in stage.binds()} == {(ours, 201)}
    assert Counter(request.name for request in stage.binds()) == Counter(names)

    assert [asked_by(pods[name]) for name in names] == [WANT_BY_SHAPE[number % N_SHAPES] for number in range(500)]
    nodes = await ground.nodes()
    dump = await same_state(service, ground)
    assert reserved(dump) == total_by_node(pods.values(), nodes)
    assert amounts(dump, "total") == {node["metadata"]["name"]: allocatable(node) for node in nodes}
    assert sum(asked.cpu for asked in reserved(dump).values()) == sum(
        WANT_BY_SHAPE[number % N_SHAPES].cpu for number in range(500)
    )


@pytest.mark.parametrize("names_only", [True, False], ids=["node-names", "whole-nodes"])
async def test_both_modes_of_node_cache_bind_pods(stage: Stage, ground: Ground, names_only: bool) -> None:
    def cached(document: dict[str, Any]) -> None:
        document["extenders"][0]["nodeCacheCapable"] = names_only

    await ground.make_nodes(5)
    service = await stage.up(patient(), edit=cached)
    names = await ground.make_pods(a_pod(f"p-{number}") for number in range(50))
    await ground.until_bound(50, within_seconds=60)

    assert Counter(stage.bound_so_far()) == Counter(names)
    assert (await service.metrics()).by("slackwater_extender_requests_total", "code", verb="filter") == {"200": 50}
    await same_state(service, ground)


@pytest.mark.parametrize("ours", [False, True], ids=["file-with-bindVerb", "file-without"])
async def test_a_scheduler_whose_file_is_of_the_other_mode_is_served(stage: Stage, ground: Ground, ours: bool) -> None:
    """`ours`: the service is told to bind, but kube-scheduler's file has no bindVerb; otherwise the other way round."""

    def other(document: dict[str, Any]) -> None:
        (extender,) = document["extenders"]
        if ours:
            del extender["bindVerb"]
        else:
            extender["bindVerb"] = "bind"

    await ground.make_nodes(5)
    service = await stage.up({"extender": {"bind": ours}}, edit=other)
    names = await ground.make_pods(a_pod(f"p-{number}") for number in range(50))
    await ground.until_bound(50, within_seconds=60)

    assert Counter(stage.bound_so_far()) == Counter(names)
    assert {(request.user == "slackwater", request.status) for request in stage.binds()} == {(not ours, 201)}
    assert (await service.metrics()).total("slackwater_unexpected_binds_total") == (0 if ours else 50)
    await same_state(service, ground)


async def a_runtime_class(ground: Ground) -> str:
    """A RuntimeClass with an overhead; each ground has its own, since it belongs to no namespace."""
    body = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": ground.name},
        "handler": "sandboxed",
        "overhead": {"podFixed": OVERHEAD},
    }
    await ground.create("/apis/node.k8s.io/v1/runtimeclasses", body)
    return ground.name
