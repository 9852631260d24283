"""Batches: which removals begin now, of the nodes that can go, those that have waited long enough, within the limits.

Empty nodes come first, up to `max_parallelism` less the removals under way; then drains, up to what is left of that and of
`max_drains`. An all-or-nothing group goes as a whole: it waits until all its nodes can go, and then is limited like one node,
however large it is. Every other removable node is held, with the reason.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from slackwater.controllers.scaledown.outcome import Removable, ScaleDownPlan
from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaledown.state import KeptNode
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.reasons import UnremovableReason

#: started: a removal begins. throttled: none does, because of the limits. homeless: a pod that leaves its node fits nowhere.
Status = Literal["started", "throttled", "cooldown", "waiting", "no-candidates", "homeless", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRemovals:
    """The number of removals under way; `drains` of them are of nodes that had pods."""

    removals: int = 0
    drains: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The nodes whose removal begins, in order, and why the other removable nodes are held."""

    status: Status
    empty: tuple[Removable, ...] = ()
    drains: tuple[Removable, ...] = ()
    held: tuple[KeptNode, ...] = ()

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        return tuple(found.node for found in (*self.empty, *self.drains))


def choose_batch(
    plan: ScaleDownPlan,
    groups: Mapping[GroupName, NodeGroup],
    policy: ScaleDownPolicy,
    under_way: RunningRemovals,
    *,
    now: UnixTime,
    cooling: Mapping[GroupName, str] | None = None,
) -> Batch:
    """Chooses the next batch. `cooling` names the groups that may not shrink yet, with the reason. `now` is compared with the
    times of the plan.
    """
    if not policy.enabled:
        return Batch(status="disabled")
    if plan.homeless is not None:
        return Batch(status="homeless")
    choice = _Choice(policy, under_way)
    ripe: list[Removable] = []
    for found in plan.removable:
        held = _not_now(found, now, cooling or {})
        if held is None:
            ripe.append(found)
        else:
            choice.hold(found, *held)
    singles = _whole_groups(ripe, groups, choice)
    for found in singles:
        if found.empty:
            choice.offer_empty(found)
    for found in sorted(singles, key=lambda found: found.risky):
        if not found.empty:
            choice.offer_drain(found)
    return choice.made(plan)


def _not_now(found: Removable, now: UnixTime, cooling: Mapping[GroupName, str]) -> tuple[UnremovableReason, str] | None:
    """Why the node may not go yet, independent of other nodes."""
    why = cooling.get(found.group)
    waited = now - found.since
    if why is not None:
        return UnremovableReason.IN_COOLDOWN, f"{found.group}: {why}"
    if waited <= found.ripe_after_seconds:
        unremovable_reason = (
            UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH if found.ready else UnremovableReason.NOT_UNREADY_LONG_ENOUGH
        )
        return unremovable_reason, f"{waited:.0f} s, more than {found.ripe_after_seconds:.0f} s"
    if found.awaited:
        return UnremovableReason.AWAITS_COMPLETION, ", ".join(map(str, found.awaited[:3]))
    return None


def _whole_groups(ripe: Sequence[Removable], groups: Mapping[GroupName, NodeGroup], choice: "_Choice") -> list[Removable]:
    """Offers all-or-nothing groups; returns the nodes of the other groups."""
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
                choice.hold(found, UnremovableReason.ALL_OR_NOTHING, f"{name}: {len(nodes)} of {groups[name].target} can go")
        else:
            choice.offer_whole(nodes)
    return singles


@dataclass(slots=True)
class _Choice:
    policy: ScaleDownPolicy
    under_way: RunningRemovals
    empty: list[Removable] = field(default_factory=list)
    drains: list[Removable] = field(default_factory=list)
    held: list[KeptNode] = field(default_factory=list)

    def hold(self, found: Removable, unremovable_reason: UnremovableReason, detail: str) -> None:
        self.held.append(KeptNode(node=found.node, unremovable_reason=unremovable_reason, detail=detail))

    def _removals(self) -> int:
        return self.under_way.removals + len(self.empty) + len(self.drains)

    def _throttle(self, found: Removable) -> None:
        detail = f"{self._removals()} of {self.policy.max_parallelism} are being removed"
        if not found.empty:
            drains = self.under_way.drains + len(self.drains)
            detail += f", {drains} of {self.policy.max_drains} drained"
        self.hold(found, UnremovableReason.THROTTLED, detail)

    def offer_empty(self, found: Removable) -> None:
        if self._removals() < self.policy.max_parallelism:
            self.empty.append(found)
        else:
            self._throttle(found)

    def offer_drain(self, found: Removable) -> None:
        if not self.policy.overlap_drains and self.under_way.removals:
            self.hold(found, UnremovableReason.DRAINS_DO_NOT_OVERLAP, f"{self.under_way.removals} are being removed")
        elif self._removals() < self.policy.max_parallelism and self._may_drain():
            self.drains.append(found)
        else:
            self._throttle(found)

    def _may_drain(self) -> bool:
        return self.under_way.drains + len(self.drains) < self.policy.max_drains

    def offer_whole(self, nodes: Sequence[Removable]) -> None:
        """Takes the whole group if one of its nodes may go; it may then exceed the limits."""
        drained = any(not found.empty for found in nodes)
        blocked = drained and not self.policy.overlap_drains and self.under_way.removals > 0
        if self._removals() < self.policy.max_parallelism and (not drained or self._may_drain()) and not blocked:
            for found in nodes:
                (self.empty if found.empty else self.drains).append(found)
        else:
            for found in nodes:
                self._throttle(found)

    def made(self, plan: ScaleDownPlan) -> Batch:
        return Batch(status=self._status(plan), empty=tuple(self.empty), drains=tuple(self.drains), held=tuple(self.held))

    def _status(self, plan: ScaleDownPlan) -> Status:
        reasons = {kept.unremovable_reason for kept in self.held}
        if self.empty or self.drains:
            return "started"
        if not plan.removable:
            return "no-candidates"
        if reasons & {UnremovableReason.THROTTLED, UnremovableReason.DRAINS_DO_NOT_OVERLAP}:
            return "throttled"
        return "cooldown" if reasons == {UnremovableReason.IN_COOLDOWN} else "waiting"
