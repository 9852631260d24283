"""Short ways to say what a consolidation plan is about: groups with a price, their nodes, and replicas on these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from slackwater.app.policies import consolidation_rules_of
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.consolidation.plan import plan_consolidation
from slackwater.controllers.consolidation.policy import ConsolidationRules
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.prices import PriceBook
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.removing import NOW, replica
from tests.support.scalingup import a_group, a_template

RULES: ConsolidationRules = consolidation_rules_of(installed.SETTINGS, replace(installed.SCALE_UP, plan_steps=0))


def rules(**changes: Any) -> ConsolidationRules:
    """The rules of an installation, with some settings of consolidation changed."""
    return replace(RULES, policy=replace(RULES.policy, **changes))


@dataclass
class PricedCluster:
    """Groups with their prices in micros an hour; nodes named after their group."""

    groups: dict[str, GrowableGroup] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    group_of: dict[NodeName, GroupName] = field(default_factory=dict)
    prices: dict[GroupName, int] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)

    def group(
        self, name: str, cpu: str, price: int, nodes: int = 0, labels: Mapping[str, str] | None = None, **more: Any
    ) -> list[str]:
        """A group with so many nodes; returns their names."""
        template = a_template(f"template-of-{name}", cpu=cpu, memory="512Gi", labels=labels)
        self.groups[name] = a_group(name, template, size=nodes, **more)
        self.prices[GroupName(name)] = price
        made = [NodeName(f"{name}-{number}") for number in range(nodes)]
        for node in made:
            self.nodes.append(structs.replace(template, name=node, labels={**template.labels, HOSTNAME: node}))
            self.group_of[node] = GroupName(name)
        return [*made]

    def runs(self, node: str, *cpus: str, **more: Any) -> None:
        """A replica of each size on the node."""
        self.pods += [replica(f"{node}-p{len(self.pods) + at}", node, cpu, **more) for at, cpu in enumerate(cpus)]

    def planned(
        self,
        following: ConsolidationRules = RULES,
        *,
        budgets: Sequence[DisruptionBudget] = (),
        state: ScaleDownState | None = None,
        now: UnixTime = NOW,
        given: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ConsolidationPlan:
        """The plan. `given`: further fields of the planning input."""
        snapshot = ClusterSnapshot.build(self.nodes, self.pods)
        planning_input = PlanningInput(
            snapshot=snapshot,
            running_pods=RunningPods(snapshot, self.pods),
            groups={each.name: each.group for each in self.groups.values()},
            group_of=self.group_of,
            budgets=tuple(budgets),
            **(given or {}),
        )
        book = PriceBook(configured=self.prices)
        return plan_consolidation(
            state or ScaleDownState(), planning_input, list(self.groups.values()), following, book, now=now, **more
        )


def leaving(plan: ConsolidationPlan) -> list[str]:
    return sorted(each.name for move in plan.moves for each in move.leaving)


def coming(plan: ConsolidationPlan) -> dict[str, int]:
    found: dict[str, int] = {}
    for move in plan.moves:
        for group, count in move.new_nodes.items():
            found[group] = found.get(group, 0) + count
    return found


def kept(plan: ConsolidationPlan) -> dict[str, str]:
    return {each.node: str(each.unremovable_reason) for each in plan.kept}
