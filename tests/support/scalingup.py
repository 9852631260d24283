"""Groups, demands and plans as the tests of scaling up say them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason, Template
from slackwater.controllers.scaleup.outcome import ScaleUpPlan
from slackwater.controllers.scaleup.pending import Demand, pending_demand
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import NO_OPTIONS, GroupName, GroupOptions, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import Price
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from tests.support import installed
from tests.support.builders import a_node


def a_template(
    name: str = "template",
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    scalars: Mapping[str, int] | None = None,
) -> Node:
    node = a_node(name, cpu=cpu, memory=memory, labels={HOSTNAME: name, **(labels or {})})
    return structs.replace(node, scalars=tuple(sorted({"pods": pods, **(scalars or {})}.items())))


def a_group(
    name: str = "g",
    template: Node | None = None,
    *,
    size: int = 0,
    smallest: int = 0,
    largest: int = 1000,
    upcoming: int = 0,
    skip_reason: SkipReason | None = None,
    running_pods: Sequence[Pod] = (),
    options: GroupOptions = NO_OPTIONS,
    price: int | None = None,
) -> GrowableGroup:
    group = NodeGroup(
        name=GroupName(name),
        provider="kwok",
        min_size=smallest,
        max_size=largest,
        target=size,
        instances=(),
        options=options,
    )
    node = template or a_template(f"template-of-{name}")
    return GrowableGroup(
        group=group,
        template=Template(node=node, running_pods=tuple(running_pods)),
        upcoming=upcoming,
        skip_reason=skip_reason,
        price=None if price is None else Price(micros=price, currency="USD", basis="table"),
    )


def demand_of(pods: Sequence[Pod]) -> Demand:
    """Every pod counts that may, at once."""
    return pending_demand(pods, rules=replace(installed.PENDING, after_scheduler=False), now=None)


def planned(
    pending: Sequence[Pod],
    groups: Sequence[GrowableGroup],
    *,
    nodes: Sequence[Node] = (),
    running_pods: Sequence[Pod] = (),
    policy: ScaleUpPolicy | None = None,
    hints: Mapping[PodUid, NodeName] | None = None,
) -> ScaleUpPlan:
    """A plan without limits of time."""
    snapshot = ClusterSnapshot.build(nodes, [*running_pods, *pending])
    with snapshot.fork():
        return plan_scale_up(
            snapshot, demand_of(pending), groups, policy=policy or installed.SCALE_UP, clock=lambda: 0.0, hints=hints or {}
        )


def grown(plan: ScaleUpPlan) -> dict[str, int]:
    return {scale_up.group: scale_up.count for scale_up in plan.scale_ups}


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.key.name for pod in pods]
