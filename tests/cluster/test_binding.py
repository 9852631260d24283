"""Pods are bound by our bind verb, and by nobody else; what they ask is what we count."""

from collections import Counter
from typing import Any

import pytest

from tests.cluster.support.audit_tail import bound
from tests.cluster.support.bodies import a_pod, of_every_shape
from tests.cluster.support.ground import Ground
from tests.cluster.support.picture import allocatable, amounts, reserved, same_picture
from tests.cluster.support.requests_formula import Asked, total_by_node
from tests.cluster.support.stage import Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

OVERHEAD = {"cpu": "35m", "memory": "24Mi"}


async def test_500_pods_over_50_nodes_are_all_bound_by_our_bind_verb_and_counted_exactly(stage: Stage, ground: Ground) -> None:
    await ground.make_nodes(50)
    runtime_class = await a_runtime_class(ground)
    service = await stage.up()

    names = await ground.make_pods(of_every_shape(number, overhead=runtime_class) for number in range(500))
    pods = await ground.until_bound(500, within_seconds=60)

    metrics, audited = await service.metrics(), stage.audit.read()
    assert metrics.by("slackwater_extender_requests_total", "code") == {"200": 500 + not_binds(metrics)}
    assert metrics.value("slackwater_extender_requests_total", verb="bind", code="200") == 500
    assert metrics.total("slackwater_bind_refusals_total") == 0
    assert Counter(bound(audited, user="slackwater", namespace=ground.name)) == Counter(names)
    assert [r for r in audited if r.user == "system:kube-scheduler" and r.resource == "pods/binding"] == []
    nodes = await ground.nodes()
    dump = await same_picture(service, ground)
    assert reserved(dump) == total_by_node(pods.values(), nodes)
    assert amounts(dump, "total") == {node["metadata"]["name"]: allocatable(node) for node in nodes}
    assert sum((asked.cpu for asked in reserved(dump).values())) == WANT_OF_500.cpu
    assert sum((asked.memory for asked in reserved(dump).values())) == WANT_OF_500.memory
