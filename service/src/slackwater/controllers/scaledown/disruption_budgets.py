"""Disruption budgets: how many nodes of a group may be disrupted at the same time, and when.

- `disruptions_of`: for each group with budgets, its disrupted nodes and the budgets that are active now.
- `GroupDisruptions`: says whether a budget allows that the removal of nodes begins, and counts those that do.

A node is disrupted while its removal is under way, whoever began it, and while it is not ready. The least of all active
budgets counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from math import inf
from zoneinfo import ZoneInfo

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.model.disruption_budgets import DisruptionReason, NodeDisruptionBudget
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import Node


@dataclass(slots=True, kw_only=True)
class GroupDisruptions:
    """The disrupted nodes of one group, and its active budgets with their ends. `nodes`: the number of its nodes that have
    started or are being removed. `unready` nodes had started, and are not ready. `removing`: those whose removal is under
    way."""

    group: GroupName
    nodes: int
    unready: Collection[NodeName]
    removing: set[NodeName]
    active: tuple[tuple[NodeDisruptionBudget, float], ...]

    def refusal(self, removed: Mapping[NodeName, DisruptionReason]) -> str | None:
        """Why the removal of all these nodes may not begin now, as a text; None if it may.

        Nodes that are not ready are disrupted already: if all are, only the removals count, so that a broken node cannot block
        its own removal."""
        removing = self.removing | removed.keys()
        counted = removing if all(node in self.unready for node in removed) else removing.union(self.unready)
        reasons = set(removed.values())
        limits = [
            (budget.limit(self.nodes), at)
            for at, (budget, _) in enumerate(self.active)
            if not budget.reasons or reasons & set(budget.reasons)
        ]
        least, at = min(limits, default=(len(counted), 0))
        if len(counted) <= least:
            return None
        budget, end = self.active[at]
        disrupted = len(self.removing.union(self.unready))
        at_once = f", {len(removed)} go at once" if len(removed) > 1 else ""
        local = "" if end == inf else datetime.fromtimestamp(end, ZoneInfo(budget.time_zone)).isoformat(timespec="minutes")
        return (
            f"{self.group}: {disrupted} of {self.nodes} nodes are being removed or not ready{at_once}, "
            f"at most {least} may be{local and f' until {local}'} (budget {budget.words()})"
        )

    def begin(self, node: NodeName) -> None:
        """Counts a node whose removal begins."""
        self.removing.add(node)


def disruptions_of(
    budgets: Mapping[GroupName, tuple[NodeDisruptionBudget, ...]],
    group_status: Mapping[GroupName, NodeGroupStatus],
    nodes: Iterable[Node],
    removing: Collection[NodeName],
    *,
    now: UnixTime,
) -> dict[GroupName, GroupDisruptions]:
    """The disruptions of each group that has budgets; those of one pool count together. `nodes`: all nodes of the cluster.
    `removing`: those whose removal we began; nodes whose machine the provider deletes count too."""
    if not budgets:
        return {}
    membership = Membership(each.group for each in group_status.values())
    # Groups of one pool count together: they share these sets.
    pool_of = {name: group_status[name].group.pool or name for name in budgets}
    going: dict[str, set[NodeName]] = defaultdict(set)
    ready: dict[str, set[NodeName]] = defaultdict(set)
    unready: dict[str, set[NodeName]] = defaultdict(set)
    for name, pool in pool_of.items():
        ready[pool].update(group_status[name].ready)
        unready[pool].update(group_status[name].unready)
    deleted = {
        name: {str(each.node or each.id) for each in group_status[name].group.instances if each.state == "deleting"}
        for name in budgets
    }
    for node in nodes:
        group = membership.group_of(node)
        if group is None or group not in budgets:
            continue
        if node.name in removing or not deleted[group].isdisjoint((node.name, node.provider_id)):
            going[pool_of[group]].add(node.name)
    ends = {budget: budget.active_until(now) for budget in dict.fromkeys(chain.from_iterable(budgets.values()))}
    return {
        name: GroupDisruptions(
            group=name,
            nodes=len(going[pool].union(ready[pool], unready[pool])),
            unready=unready[pool],
            removing=going[pool],
            active=tuple((budget, end) for budget in of_group if (end := ends[budget]) is not None),
        )
        for name, of_group in budgets.items()
        for pool in (pool_of[name],)
    }
