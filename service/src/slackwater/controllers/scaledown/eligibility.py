"""Eligibility: decides which nodes scale-down may try to empty, by Cluster Autoscaler's rules in Cluster Autoscaler's order.

- `judge_node` applies the rules to one node; the first rule that applies gives the reason.
- `RemainingMinima`: whether one more node may go without a group or the cluster falling below its minimum.

In: an `EligibilityInput` for each node. Out: the reason why the node may not be tried, or None. `plan` later applies the rules
that depend on the nodes tried before (minima, destinations).
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.policy import ClusterMinimum, ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState, taint_time
from slackwater.controllers.scaledown.utilization import Utilization
from slackwater.model.ids import NodeName, Row, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, runs_control_plane
from slackwater.model.reasons import UnremovableReason
from slackwater.snapshot.node_facts import CPU, MEMORY, NodeFacts
from slackwater_protocol.names import TO_BE_DELETED_TAINT

#: A removal taint that we did not write is ignored when it is older than this.
_STALE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibilityInput:
    """What the rules read about a node. `group` and `rules` (the policy for the nodes of that group) are None if the node
    belongs to no group."""

    node: Node
    group: GroupName | None
    rules: ScaleDownPolicy | None
    utilization: Utilization
    state: ScaleDownState
    policy: ScaleDownPolicy
    now: UnixTime


Word = tuple[UnremovableReason, str] | None
#: Reasons that only the expensive search for destinations finds.
_DEAR: Final = frozenset({UnremovableReason.NO_PLACE, UnremovableReason.SLACK_NEEDED})


def being_deleted(candidate: EligibilityInput) -> Word:
    """Keeps a node whose removal we or somebody else began: it is in the deleted set, or has a recent removal taint."""
    if candidate.node.name in candidate.state.deleted_set:
        return UnremovableReason.BEING_DELETED, ""
    at = taint_time(candidate.node, TO_BE_DELETED_TAINT)
    if at is None or candidate.now - at >= _STALE_SECONDS:
        return None
    return UnremovableReason.BEING_DELETED, f"tainted {candidate.now - at:.0f} s ago"


# Four rules, of which `explain` names each that holds; a plan stops at the first.


def not_autoscaled(candidate: EligibilityInput) -> Word:
    if candidate.group is not None:
        return None
    where = "a control plane's node, in no node group" if runs_control_plane(candidate.node) else ""
    return UnremovableReason.NOT_AUTOSCALED, where


def disabled_for_group(candidate: EligibilityInput) -> Word:
    off = candidate.rules is not None and not candidate.rules.enabled
    return (UnremovableReason.DISABLED_FOR_GROUP, str(candidate.group)) if off else None


def disabled_by_annotation(candidate: EligibilityInput) -> Word:
    return (UnremovableReason.DISABLED_ANNOTATION, candidate.node.keep) if candidate.node.keep else None


def replacement(candidate: EligibilityInput) -> Word:
    return (UnremovableReason.REPLACEMENT, "") if candidate.node.name in candidate.state.replacing.replacements else None


def too_young(candidate: EligibilityInput) -> Word:
    """Keeps a node that was added a short while ago, unless others replace it. A node of unknown age is old."""
    created_at, least = candidate.node.created_at, candidate.policy.min_node_age
    if created_at is None or candidate.now - created_at >= least or candidate.node.name in candidate.state.replacing.replaced:
        return None
    return UnremovableReason.NODE_TOO_YOUNG, f"{max(candidate.now - created_at, 0.0):.0f} s old, at least {least:.0f} s"


def unready_disabled(candidate: EligibilityInput) -> Word:
    return None if candidate.policy.unready_enabled or candidate.node.ready else (UnremovableReason.UNREADY_DISABLED, "")


def not_underutilized(candidate: EligibilityInput) -> Word:
    """Keeps a node whose utilization is above its threshold, unless other nodes replace it."""
    if candidate.rules is None or candidate.node.name in candidate.state.replacing.replaced:
        return None
    used = candidate.utilization
    threshold = used.threshold(candidate.rules)
    if used.share <= threshold:
        return None
    return UnremovableReason.NOT_UNDERUTILIZED, f"{used.resource} {used.share:.1%}, at most {threshold:.1%}"


def drain_failed(candidate: EligibilityInput) -> Word:
    """Keeps a node whose drain failed, until its back-off is over: each failed drain disturbs the node's pods in vain. The text
    has the reason of the last failure."""
    return backing_off(candidate.node.name, candidate.state, candidate.policy, candidate.now)


def recently_unremovable(candidate: EligibilityInput) -> Word:
    """Keeps a node whose pods found no destination a short while ago, because the search is expensive. The text has the reason
    found then.

    A node with a pod that a rule keeps is judged again in each loop: that is cheap, and a budget may allow an eviction at any
    moment. A node that others replace is judged too: there is room now.
    """
    if candidate.node.name in candidate.state.replacing.replaced:
        return None
    return rechecked_later(candidate.node.name, candidate.state, candidate.policy, candidate.now)


def rechecked_later(node: NodeName, state: ScaleDownState, policy: ScaleDownPolicy, now: UnixTime) -> Word:
    """The reason and its text while a node is not judged again after the search found no place for its pods; None otherwise."""
    failed = state.non_candidate_set.get(node)
    if failed is None or failed.kept.unremovable_reason not in _DEAR:
        return None
    left = failed.at + policy.unremovable_recheck_time - now
    if left <= 0:
        return None
    text = f"{now - failed.at:.0f} s ago: {failed.kept.unremovable_reason} {failed.kept.detail}".rstrip()
    return UnremovableReason.RECENTLY_UNREMOVABLE, f"{text}; judged again in {left:.0f} s"


def backing_off(node: NodeName, state: ScaleDownState, policy: ScaleDownPolicy, now: UnixTime) -> Word:
    """The reason and its text while a node backs off after failed drains; None otherwise."""
    failed = state.failed_drains.get(node)
    if failed is None:
        return None
    left = failed.at + policy.backoff_seconds(failed.count) - now
    if left <= 0:
        return None
    return UnremovableReason.DRAIN_FAILED, f"{failed.count} failed, the last: {failed.why}; tried again in {left:.0f} s"


RULES: Final[tuple[Callable[[EligibilityInput], Word], ...]] = (
    being_deleted,
    not_autoscaled,
    disabled_for_group,
    disabled_by_annotation,
    replacement,
    too_young,
    unready_disabled,
    not_underutilized,
    drain_failed,
    recently_unremovable,
)


def left_to_consolidation(policy: ScaleDownPolicy, node: Node, *, pods: int) -> bool:
    """Does consolidation alone decide whether the node goes? `pods`: how many pods would have to move."""
    return policy.only_empty and node.ready and pods > 0


def judge_node(candidate: EligibilityInput) -> KeptNode | None:
    """Why the node may not be tried; None if it may."""
    for rule in RULES:
        word = rule(candidate)
        if word is not None:
            failed = candidate.state.non_candidate_set.get(candidate.node.name)
            blocked_by = failed.kept.blocked_by if failed and word[0] is UnremovableReason.RECENTLY_UNREMOVABLE else None
            return KeptNode(node=candidate.node.name, unremovable_reason=word[0], detail=word[1], blocked_by=blocked_by)
    return None


def healthy_nodes(
    facts: NodeFacts, members: Mapping[NodeName, GroupName], *, leaving: Container[NodeName] = ()
) -> Counter[GroupName]:
    """How many ready nodes of each group are not leaving. `members`: the group of each node."""
    found = Counter[GroupName]()
    for name, group in members.items():
        row = facts.live_row(name)
        found[group] += row is not None and facts.nodes[row].ready and name not in leaving
    return found


class RemainingMinima:
    """What groups and the cluster have left while a plan chooses nodes to remove, for the check against their minima. Nodes of
    the deleted set are subtracted from the beginning."""

    def __init__(self, planning_input: PlanningInput, state: ScaleDownState, minimum: ClusterMinimum) -> None:
        facts = planning_input.snapshot.facts
        live = facts.live[: facts.n_rows]
        self._facts = facts
        self._minimum = minimum
        self._left = {name: group.target for name, group in planning_input.groups.items()}
        members = planning_input.group_of if planning_input.members is None else planning_input.members
        self._healthy = healthy_nodes(facts, members, leaving=state.deleted_set)
        self._nodes = int(live.sum())
        self._amounts = facts.allocatable[[CPU, MEMORY], : facts.n_rows][:, live].sum(axis=1)
        asked_to_leave = {name: _asked_to_leave(group) for name, group in planning_input.groups.items()}
        for node in state.deleted_set:
            row, group = facts.row_of.get(node), planning_input.group_of.get(node)
            if row is None or not facts.live[row]:
                continue
            self._take_amounts(row)
            if (
                group is not None
                and node not in asked_to_leave[group]
                and facts.nodes[row].provider_id not in asked_to_leave[group]
            ):
                self._left[group] -= 1

    def refusal(self, row: Row, group: GroupName, group_minimum: int) -> tuple[UnremovableReason, str] | None:
        """Why the row's node may not be removed in addition to the nodes chosen before: the reason and its text. None if it
        may. `group_minimum`: the least number of nodes of the group."""
        left = self._left[group]
        if self._facts.nodes[row].ready:  # machines that never became nodes count in the target, and replace no node
            left = min(left, self._healthy[group])
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
        """Subtracts the row's node, which the plan has chosen."""
        self._change(row, group, 1)

    def give_back(self, row: Row, group: GroupName) -> None:
        """Undoes `take`."""
        self._change(row, group, -1)

    def _change(self, row: Row, group: GroupName, by: int) -> None:
        self._left[group] -= by
        self._healthy[group] -= by * self._facts.nodes[row].ready
        self._take_amounts(row, by)

    def _take_amounts(self, row: Row, by: int = 1) -> None:
        self._nodes -= by
        self._amounts = self._amounts - by * self._facts.allocatable[[CPU, MEMORY], row]


def _asked_to_leave(group: NodeGroup) -> frozenset[NodeName | str]:
    """Names of nodes and ids of machines that the provider is already deleting. The group's target size does not include
    them."""
    leaving = [instance for instance in group.instances if instance.state == "deleting"]
    named = [instance.node for instance in leaving if instance.node is not None]
    return frozenset((*named, *(str(instance.id) for instance in leaving)))
