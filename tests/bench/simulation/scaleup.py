"""A whole planning of a scale-up: from decoded pending pods and ten groups to the plan.

Timed is all that a loop does for it: which pods count, numbering their kinds, what fits nodes that exist, an estimate for
each group, the choice, the reasons. The groups are as large as the node of Cluster Autoscaler's measurement and differ by a
label, so that none is similar to another and each is estimated.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.pending import pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.bench.options import BenchFailed
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import GIB, Pending, a_node, full
from tests.support import installed

_GROUPS: Final = 10
_WHOLE: Final = (31_000, 64 * GIB)
_RULES: Final = replace(installed.PENDING, after_scheduler=False)
_POLICY: Final = replace(installed.SCALE_UP, pending=_RULES, max_nodes_per_scale_up=0)
#: Long after the pods were made.
_NOW: Final = UnixTime(1.8e9)

#: Name, input, and the nodes that Cluster Autoscaler's estimator needs for it on one group.
_SHAPES: Final = (
    ("200 kinds", Pending(count=22_000, groups=200), 1712),
    ("200 kinds, node affinity", Pending(count=22_000, groups=200, rule="node affinity"), 1712),
    ("200 kinds, hostname anti-affinity", Pending(count=22_000, groups=200, rule="anti-affinity"), 1760),
    ("one kind, hostname anti-affinity", Pending(count=18_000, groups=1, rule="anti-affinity", size=(2000, 8 * GIB)), 18_000),
    ("no controllers, one pod a node", Pending(count=22_000, groups=0, size=_WHOLE), 22_000),
)


def cases(pods: int | None, nodes: int) -> Iterator[Case]:
    """At the sizes of Cluster Autoscaler's measurement, or with so many `pods`; `nodes` are those that run already."""
    for name, pending, count in _SHAPES:
        resized = pending if pods is None else replace(pending, count=pods)
        yield Case(
            name=f"plan: {resized.count:,} pending x {_GROUPS} groups, {name}",
            run=_planning(resized.pods(), 0),
            counted="nodes",
            goal_seconds=1.0,
            their_count=count if pods is None else None,
        )
    many = Pending(count=pods or 22_000, groups=200)
    yield Case(
        name=f"plan: {many.count:,} pending x {_GROUPS} groups, 200 kinds, {nodes:,} nodes run",
        run=_planning(many.pods(), nodes),
        counted="nodes",
        goal_seconds=1.0,
        their_count=1712 if pods is None else None,
    )


def _planning(pods: list[Pod], nodes: int) -> Callable[[], Outcome]:
    groups = [_group(number) for number in range(_GROUPS)]
    machines, running = [a_node(number) for number in range(nodes)], list(full(nodes, 30, free_cpu=500))
    known = ClusterSnapshot.build(machines, running)  # kept up to date between loops

    def run() -> Outcome:
        began = time.perf_counter()
        snapshot = known if nodes else ClusterSnapshot.build([], pods)
        demand = pending_demand(pods, rules=_RULES, now=_NOW)
        with snapshot.fork():
            plan = plan_scale_up(snapshot, demand, groups, policy=_POLICY, clock=time.perf_counter)
        seconds = time.perf_counter() - began
        placed = sum(len(scale_up.pods) for scale_up in plan.scale_ups)
        if placed != len(pods):
            raise BenchFailed(f"simulate: planned for {placed} of {len(pods)} pods, want all")
        return Outcome(seconds=seconds, count=plan.n_nodes)

    return run


def _group(number: int) -> GrowableGroup:
    node = a_node(number)
    template = structs.replace(node, labels={**node.labels, "batch": f"b{number}"})
    group = NodeGroup(name=GroupName(f"group-{number}"), provider="kwok", min_size=0, max_size=30_000, target=0, instances=())
    return GrowableGroup(group=group, template=Template(node=template))
