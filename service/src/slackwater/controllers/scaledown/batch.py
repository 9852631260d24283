"""Batches: chooses the nodes whose removal begins now. They are removable by the plan, have been unneeded for long enough, and
are within the limits on concurrent removals.

Empty nodes come first, up to `max_scale_down_parallelism` less the removals under way. Then come drains, up to what is left of
that and of `max_drain_parallelism`. An all-or-nothing group is removed as a whole: it waits until all its nodes can go, and
then counts like one node for the limits, however large it is; disruption budgets count all its nodes. Every other removable
node is held back, with the reason.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode, Removable, ScaleDownPlan
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.reasons import UnremovableReason

#: started: a removal begins. throttled: none begins, because of the limits. cooldown: all groups cool down. waiting: the nodes
#: wait for something else. no-candidates: the plan has no removable node. homeless: a pod that leaves its node fits nowhere.
Status = Literal["started", "throttled", "cooldown", "waiting", "no-candidates", "homeless", "disabled"]

_OVER_BUDGET: Final = UnremovableReason.DISRUPTION_BUDGET_REACHED


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRemovals:
    """The numbers of removals under way. `drains`: those of nodes that had pods when the removal began."""

    removals: int = 0
    drains: int = 0


@dataclass(slots=True)
class RemovalBatch:
    """The nodes whose removal begins, in order. `empty`: those without pods. `drains`: those with pods. `held`: the other
    removable nodes, with the reason why their removal does not begin. `policy`, `under_way` and the `disruptions` of groups
    with budgets limit what it takes."""

    policy: ScaleDownPolicy
    under_way: RunningRemovals
    disruptions: Mapping[GroupName, GroupDisruptions] = field(default_factory=dict)
    status: Status = "disabled"
    empty: list[Removable] = field(default_factory=list)
    drains: list[Removable] = field(default_factory=list)
    held: list[KeptNode] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        return tuple(found.node for found in (*self.empty, *self.drains))

    @property
    def blocks_drains(self) -> bool:
        """Does no drain begin because a node is being removed?"""
        return not self.policy.parallel_drain and self.under_way.removals > 0

    def hold(self, found: Removable, unremovable_reason: UnremovableReason, detail: str) -> None:
        self.held.append(KeptNode(node=found.node, unremovable_reason=unremovable_reason, detail=detail))

    def offer(self, nodes: Sequence[Removable]) -> None:
        """Adds a node, or all nodes of a group, to the batch if the limits allow one of them; the nodes of a group may then
        exceed the limits together."""
        disruptions = self.disruptions.get(nodes[0].group)
        over_budget = None if disruptions is None else disruptions.refusal({found.node: found.reason for found in nodes})
        if over_budget is not None:
            for found in nodes:
                self.hold(found, _OVER_BUDGET, over_budget)
            return
        policy, drained = self.policy, any(not found.empty for found in nodes)
        removals = self.under_way.removals + len(self.empty) + len(self.drains)
        drains = self.under_way.drains + len(self.drains)
        may_drain = not drained or (drains < policy.max_drain_parallelism and not self.blocks_drains)
        for found in nodes:
            if removals < policy.max_scale_down_parallelism and may_drain:
                (self.empty if found.empty else self.drains).append(found)
                if disruptions is not None:
                    disruptions.begin(found.node)
            else:
                detail = f"{removals} of {policy.max_scale_down_parallelism} are being removed"
                if not found.empty:
                    detail += f", {drains} of {policy.max_drain_parallelism} drained"
                self.hold(found, UnremovableReason.THROTTLED, detail)


def choose_batch(
    plan: ScaleDownPlan,
    groups: Mapping[GroupName, NodeGroup],
    policy: ScaleDownPolicy,
    under_way: RunningRemovals,
    *,
    now: UnixTime,
    cooling: Mapping[GroupName, str] | None = None,
    failing: Mapping[GroupName, str] | None = None,
    refused: Collection[GroupName] = (),
    disruptions: Mapping[GroupName, GroupDisruptions] | None = None,
) -> RemovalBatch:
    """Chooses which of the plan's removable nodes to remove next, within the policy's limits and given the removals under way.

    `cooling`: the groups that may not shrink yet, with the reason. `failing`: those that may not because of failures; only that
    keeps nodes that others replace. `refused`: the groups whose last deletion the provider refused: their empty nodes go, or
    else one node with pods, to find out whether it still does. `disruptions` of groups with budgets count the removals that
    begin. `now` decides which nodes have been unneeded for long enough.
    """
    batch = RemovalBatch(policy, under_way, disruptions or {})
    if not policy.enabled:
        return batch
    if plan.homeless is not None:
        batch.status = "homeless"
        return batch
    ripe: list[Removable] = []
    for found in plan.removable:
        replaced = found.ripe_after_seconds is None
        held = _not_now(found, now, (failing if replaced else cooling) or {})
        if held is None:
            ripe.append(found)
        else:
            batch.hold(found, *held)
    singles = _first_of_refused(_whole_groups(ripe, groups, batch), refused, batch)
    for found in sorted(singles, key=lambda found: (not found.empty, not found.empty and found.risky)):
        if not found.empty and batch.blocks_drains:
            batch.hold(found, UnremovableReason.DRAINS_DO_NOT_OVERLAP, f"{under_way.removals} are being removed")
        else:
            batch.offer([found])
    batch.status = _status(batch, plan)
    return batch


def over_budget(
    plan: ScaleDownPlan, batch: RemovalBatch, disruptions: Mapping[GroupName, GroupDisruptions]
) -> dict[NodeName, str]:
    """The removable nodes that a disruption budget does not let go after this batch, however long they have been unneeded, each
    with the text."""
    held = {kept.node: kept.detail for kept in batch.held if kept.unremovable_reason is _OVER_BUDGET}
    known = {*batch.nodes, *held}
    for found in plan.removable if disruptions else ():
        group = disruptions.get(found.group)
        if group is not None and found.node not in known and (text := group.refusal({found.node: found.reason})):
            held[found.node] = text
    return held


def _not_now(found: Removable, now: UnixTime, cooling: Mapping[GroupName, str]) -> tuple[UnremovableReason, str] | None:
    """Why the removal of the node may not begin yet, whatever other nodes do: the reason and its text. None if it may."""
    why = cooling.get(found.group)
    waited = now - found.since
    if why is not None:
        return UnremovableReason.IN_COOLDOWN, f"{found.group}: {why}"
    ripe_after = found.ripe_after_seconds
    if ripe_after is not None and (unripe := not_ripe(waited, ripe_after, ready=found.ready)) is not None:
        return unripe
    if found.awaited:
        return UnremovableReason.AWAITS_COMPLETION, ", ".join(map(str, found.awaited[:3]))
    return None


def not_ripe(waited: float, ripe_after_seconds: float, *, ready: bool) -> tuple[UnremovableReason, str] | None:
    """Why a node that has been a candidate for `waited` seconds has not been one for long enough. None if it has."""
    if waited > ripe_after_seconds:
        return None
    reason = UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH if ready else UnremovableReason.NOT_UNREADY_LONG_ENOUGH
    return reason, f"{waited:.0f} s, more than {ripe_after_seconds:.0f} s"


def _first_of_refused(singles: Sequence[Removable], refused: Collection[GroupName], batch: RemovalBatch) -> list[Removable]:
    """The nodes without those that wait until a deletion in their group was not refused; these are held back."""
    first: dict[GroupName, Removable] = {}
    for found in sorted(singles, key=lambda found: (not found.empty, len(found.moves))):
        first.setdefault(found.group, found)
    kept: list[Removable] = []
    for found in singles:
        if found.group not in refused or found.empty or found is first[found.group]:
            kept.append(found)
        else:
            detail = f"{found.group}: a deletion was refused; {first[found.group].node} goes first"
            batch.hold(found, UnremovableReason.IN_COOLDOWN, detail)
    return kept


def _whole_groups(ripe: Sequence[Removable], groups: Mapping[GroupName, NodeGroup], batch: RemovalBatch) -> list[Removable]:
    """Offers the all-or-nothing groups that can go as a whole to `batch`, and holds back the nodes of the others. Returns the
    nodes of ordinary groups."""
    singles: list[Removable] = []
    whole: dict[GroupName, list[Removable]] = defaultdict(list)
    for found in ripe:
        group = groups[found.group]
        if group.options.all_or_nothing:
            whole[found.group].append(found)
        else:
            singles.append(found)
    for name, nodes in whole.items():
        if len(nodes) < groups[name].target:
            for found in nodes:
                batch.hold(found, UnremovableReason.ALL_OR_NOTHING, f"{name}: {len(nodes)} of {groups[name].target} can go")
        else:
            batch.offer(nodes)
    return singles


def _status(batch: RemovalBatch, plan: ScaleDownPlan) -> Status:
    reasons = {kept.unremovable_reason for kept in batch.held}
    if batch.empty or batch.drains:
        return "started"
    if not plan.removable:
        return "no-candidates"
    if reasons & {UnremovableReason.THROTTLED, UnremovableReason.DRAINS_DO_NOT_OVERLAP, _OVER_BUDGET}:
        return "throttled"
    return "cooldown" if reasons == {UnremovableReason.IN_COOLDOWN} else "waiting"
