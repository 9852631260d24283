"""Slack planned beside a cluster that runs: what it adds to a loop, the first time and in the loops that follow (R10).

Timed is all of it: what each rule finds, the largest pod, sizes, who stays, new places, and nodes for those that find none. The
cluster is three quarters used; slack is a tenth of it, in pieces no larger than the largest pod. In the next loop one pod of a
hundred has gone and another has come elsewhere.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, Template
from slackwater.controllers.scaleup.pending import Demand
from slackwater.controllers.slack.scale_up import SlackInquiry, plan_with_slack
from slackwater.controllers.slack.state import SlackState
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.bench.simulation.case import Case, Outcome
from tests.bench.simulation.inputs import a_node, half_used, mixed
from tests.support import installed

_EACH: Final = 30
_POLICY: Final = replace(installed.SLACK, rules=(replace(installed.SLACK_RULE, name="cluster", min_rate=100_000),))


def cases(nodes: int) -> Iterator[Case]:
    """`nodes` with thirty pods each."""
    running = list(half_used(nodes, _EACH))
    churned = _churned(running, nodes)
    for name, pods, state in (
        ("the first loop", running, None),
        ("the next loop, 1 % of the pods moved", churned, running),
    ):
        yield Case(
            name=f"slack of a tenth on {nodes:,} nodes, {_EACH * nodes:,} pods: {name}",
            run=_planned(nodes, pods, state),
            counted="placeholders without a place",
            want=0,
            goal_seconds=1.0,
        )


def _planned(nodes: int, pods: list[Pod], before: list[Pod] | None) -> Callable[[], Outcome]:
    machines = [a_node(number) for number in range(nodes)]
    snapshot = ClusterSnapshot.build(machines, pods)
    running_pods, group = RunningPods(snapshot, pods), _group(nodes)
    state = SlackState()
    if before is not None:
        known = ClusterSnapshot.build(machines, before)
        state = _once(known, RunningPods(known, before), group, SlackState())[1]

    def run() -> Outcome:
        began = time.perf_counter()
        count, _ = _once(snapshot, running_pods, group, state)
        return Outcome(seconds=time.perf_counter() - began, count=count)

    return run


def _once(
    snapshot: ClusterSnapshot, running_pods: RunningPods, group: GrowableGroup, state: SlackState
) -> tuple[int, SlackState]:
    found = plan_with_slack(
        snapshot,
        Demand(),
        [group],
        policy=installed.SCALE_UP,
        clock=time.perf_counter,
        slack=SlackInquiry(policy=_POLICY, now=UnixTime(1.8e9), state=state),
        running_pods=running_pods,
    )
    assert found.slack is not None
    return sum(each.place is None for each in found.slack.state.placeholders), found.slack.state


def _churned(running: list[Pod], nodes: int) -> list[Pod]:
    """Every hundredth pod stands on another node."""
    return [
        structs.replace(pod, node=NodeName(f"n-{mixed(3, number) % nodes}")) if number % 100 == 0 else pod
        for number, pod in enumerate(running)
    ]


def _group(nodes: int) -> GrowableGroup:
    whole = NodeGroup(name=GroupName("pool"), provider="kwok", min_size=0, max_size=2 * nodes, target=nodes, instances=())
    return GrowableGroup(group=whole, template=Template(node=a_node(0)))
