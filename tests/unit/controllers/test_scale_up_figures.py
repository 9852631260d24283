"""The figures of Cluster Autoscaler's own estimator for the same input, measured elsewhere (see tests/bench/simulation)."""

from dataclasses import replace

import pytest

from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.bench.simulation.inputs import GIB, Pending, a_node
from tests.support import installed
from tests.support.scalingup import a_group, demand_of

FIGURES = [
    (Pending(count=18_000, groups=1, size=(2000, 8 * GIB)), 0, 1125, 18_000),
    (Pending(count=18_000, groups=200), 0, 1401, 18_000),
    (Pending(count=22_000, groups=200), 0, 1712, 22_000),
    (Pending(count=18_000, groups=200, rule="anti-affinity"), 0, 1440, 18_000),
    (Pending(count=18_000, groups=1, size=(2000, 8 * GIB)), 1000, 1000, 16_000),
    (Pending(count=18_000, groups=200), 1000, 1000, 9346),
    (Pending(count=22_000, groups=200), 1000, 1000, 8979),
]


@pytest.mark.parametrize(("pending", "most", "nodes", "helped"), FIGURES, ids=[f"{f[0].count}-{f[2]}-{f[3]}" for f in FIGURES])
def test_a_plan_is_as_good_as_cluster_autoscalers(pending: Pending, most: int, nodes: int, helped: int) -> None:
    pods = pending.pods()
    snapshot = ClusterSnapshot.build([], pods)
    group = a_group("g", a_node(0), largest=100_000)
    with snapshot.fork():
        plan = plan_scale_up(
            snapshot,
            demand_of(pods),
            [group],
            policy=replace(installed.SCALE_UP, max_nodes_per_scale_up=most),
            clock=lambda: 0.0,
        )
    assert (plan.n_nodes, sum(len(scale_up.pods) for scale_up in plan.scale_ups)) == (nodes, helped)
