"""One scale-down plan: the nodes of a group, and the pods that run on them."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.bench.simulation.case import Outcome
from tests.support import installed

_NOW: Final = UnixTime(1.8e9)


def removal(
    machines: Sequence[Node],
    running: Sequence[Pod],
    *,
    budgets: tuple[DisruptionBudget, ...] = (),
    storage: Storage | None = None,
    again: bool = False,
) -> Callable[[], Outcome]:
    """Counts the nodes that can go. `again`: with what the loop before remembered."""
    size = len(machines)
    group = NodeGroup(name=GroupName("a"), provider="bench", min_size=0, max_size=size, target=size, instances=())

    def run() -> Outcome:
        snapshot = ClusterSnapshot.build(machines, running, storage=storage or Storage())
        planning_input = PlanningInput(
            snapshot=snapshot,
            running_pods=RunningPods(snapshot, running),
            groups={group.name: group},
            group_of={node.name: group.name for node in machines},
            budgets=budgets,
        )
        state, policy = ScaleDownState(), installed.SCALE_DOWN
        if again:
            state = plan_scale_down(state, planning_input, policy, now=_NOW).state
        began = time.perf_counter()
        plan = plan_scale_down(state, planning_input, policy, now=UnixTime(_NOW + 10.0))
        return Outcome(seconds=time.perf_counter() - began, count=len(plan.removable))

    return run
