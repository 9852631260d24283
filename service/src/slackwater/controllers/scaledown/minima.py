"""Minima: how many nodes may still go, so that no group, nor the cluster, falls below its minimum by all removals together."""

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ClusterMinimum
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY


class Minima:
    """What is left of groups and the cluster while a plan takes nodes; the deleted set is subtracted from the start."""

    def __init__(self, planning_input: PlanningInput, state: ScaleDownState, minimum: ClusterMinimum) -> None:
        facts = planning_input.snapshot.facts
        live = facts.live[: facts.n_rows]
        self._facts = facts
        self._minimum = minimum
        self._left = {name: group.target for name, group in planning_input.groups.items()}
        self._nodes = int(live.sum())
        self._amounts = facts.allocatable[[CPU, MEMORY], : facts.n_rows][:, live].sum(axis=1)
        told = {name: _told_to_go(group) for name, group in planning_input.groups.items()}
        for node in state.deleted_set:
            row, group = facts.row_of.get(node), planning_input.group_of.get(node)
            if row is None or not facts.live[row]:
                continue
            self._take_amounts(row)
            if group is not None and node not in told[group] and facts.nodes[row].provider_id not in told[group]:
                self._left[group] -= 1

    def refusal(self, row: Row, group: GroupName, group_minimum: int) -> tuple[UnremovableReason, str] | None:
        """Why the node of the row may not go as well; None if it may."""
        left = self._left[group]
        if left - 1 < group_minimum:
            return UnremovableReason.GROUP_MIN_SIZE, f"{group}: {left} left of it, at least {group_minimum}"
        if self._nodes - 1 < self._minimum.nodes:
            return UnremovableReason.CLUSTER_MINIMUM, f"{self._nodes} nodes left, at least {self._minimum.nodes}"
        after = self._amounts - self._facts.allocatable[[CPU, MEMORY], row]
        for name, amount, minimum in zip(
            ("cpu", "memory"), after.tolist(), (self._minimum.cpu, self._minimum.memory), strict=True
        ):
            if amount < minimum:
                return UnremovableReason.CLUSTER_MINIMUM, f"{name}: {amount} would stay, at least {minimum}"
        return None

    def take(self, row: Row, group: GroupName) -> None:
        """Subtracts the node of the row, which goes."""
        self._left[group] -= 1
        self._take_amounts(row)

    def _take_amounts(self, row: Row) -> None:
        self._nodes -= 1
        self._amounts = self._amounts - self._facts.allocatable[[CPU, MEMORY], row]


def _told_to_go(group: NodeGroup) -> frozenset[NodeName | str]:
    """Nodes and machines that the provider deletes already: the group's target does not include them."""
    leaving = [instance for instance in group.instances if instance.state == "deleting"]
    named = [instance.node for instance in leaving if instance.node is not None]
    return frozenset((*named, *(str(instance.id) for instance in leaving)))
