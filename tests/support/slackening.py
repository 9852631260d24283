"""A cluster as tests of slack say it: nodes and pods come and go, and each `loop` plans growth and slack on what is there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.headroom_demand import HeadroomDemand
from slackwater.controllers.slack.planning_input import PodHeadroom
from slackwater.controllers.slack.policy import SlackRule
from slackwater.controllers.slack.scale_up import LoopPlans, SlackInquiry, plan_with_slack
from slackwater.controllers.slack.state import Placeholder, SlackState
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.scalingup import a_template, demand_of


def a_machine(name: str, *, cpu: str = "4", memory: str = "16Gi", pods: int = 110, **labels: str) -> Node:
    """A node that takes pods."""
    return structs.replace(a_template(name, cpu=cpu, memory=memory, pods=pods, labels=labels), name=NodeName(name))


def a_rule(
    rate: float = 0.0,
    *,
    name: str = "cluster",
    sizing: str = "v1",
    granularity: int = 5,
    least: Amounts = NOTHING,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> SlackRule:
    return replace(
        installed.SLACK_RULE,
        name=name,
        min_rate=round(rate * 1_000_000),
        min=least,
        granularity=granularity,
        sizing="v1" if sizing == "v1" else "v2",
        node_labels=tuple(sorted(labels.items())),
    )


@dataclass
class Cluster:
    """See the module. `state` is what the planner remembers; `restart` forgets it."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[GrowableGroup] = field(default_factory=list)
    rules: Sequence[SlackRule] = ()
    pod_headroom: tuple[PodHeadroom, ...] = ()
    max_nodes: int = 0
    shrink_seconds: float = 60.0
    policy: ScaleUpPolicy = installed.SCALE_UP
    state: SlackState = field(default_factory=SlackState)
    now: float = 0.0

    def loop(self, *, seconds: float = 10.0) -> LoopPlans:
        """One plan; what it remembers is for the next."""
        self.now += seconds
        snapshot = ClusterSnapshot.build(self.nodes, self.pods, also=[each.kind for each in self.pod_headroom])
        policy = replace(installed.SLACK, rules=tuple(self.rules), max_nodes=self.max_nodes, shrink_delay=self.shrink_seconds)
        found = plan_with_slack(
            snapshot,
            demand_of([pod for pod in self.pods if pod.node is None]),
            self.groups,
            policy=self.policy,
            clock=lambda: 0.0,
            slack=SlackInquiry(
                policy=policy, now=UnixTime(self.now), headroom=HeadroomDemand(pod_headroom=self.pod_headroom), state=self.state
            ),
            running_pods=RunningPods(snapshot, self.pods),
        )
        assert found.slack is not None
        self.state = found.slack.state
        return found

    def restart(self) -> None:
        self.state = SlackState()

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        return self.state.placeholders

    def places(self) -> dict[int, str | None]:
        return {each.number: each.place for each in self.placeholders}

    def used(self, node: str) -> Amounts:
        """What pods and placeholders take of a node together."""
        there = [pod for pod in self.pods if pod.node == node]
        return total([*there, *(each.pod for each in self.placeholders if each.place == node)])


def total(pods: Iterable[Pod]) -> Amounts:
    found = NOTHING
    for pod in pods:
        found = found.plus(pod.kind.requests)
    return found


def held(cluster: Cluster) -> Amounts:
    """What all placeholders ask for together."""
    return total(each.pod for each in cluster.placeholders)
