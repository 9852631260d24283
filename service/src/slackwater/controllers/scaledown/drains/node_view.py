"""What a removal reads: the node with its pods, and the limits on the removal.

- `NodeView`, `NodeViews`: the node and its pods, as the state machine has them now.
- `DrainLimits`, `PriorityGroup`: how long each step may take, and what the removal may do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.ids import NodeName, PodUid, Seconds, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import UnremovableReason


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node under removal, with its pods by drainability. `node`: None if the node is gone.

    `movers`: pods that have to leave. `daemons`: DaemonSet pods. `awaited`: pods that have to complete. `blocked`: a pod that a
    rule keeps on the node, with the reason; None if there is none.
    """

    node: Node | None
    movers: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()
    blocked: tuple[Pod, UnremovableReason] | None = None

    @property
    def empty(self) -> bool:
        return not self.movers and not self.awaited and self.blocked is None


class NodeViews(Protocol):
    """The part of the state machine that removals use."""

    def node_view(self, name: NodeName, now: UnixTime) -> NodeView:
        """What a drain has to know about the node at `now`: its pods by drainability, and whether it still exists."""
        ...

    def disruptions(self) -> Disruptions:
        """The disruptions that PodDisruptionBudgets allow now."""
        ...

    def keep(self, pod: Pod, of: NodeName, to: NodeName) -> bool:
        """Keeps room on the node `to` for the pod of the draining node `of`. False if there is none."""
        ...

    def left(self, uid: PodUid) -> None:
        """Lets the replacement of the pod, which was evicted, use the room that is kept for it."""
        ...

    def end(self, node: NodeName) -> None:
        """Ends the room that is kept for pods of the node."""
        ...

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        """Requests the migration of the virtual machine of this pod, away from the node. It comes before migrations for
        pressure."""
        ...

    def cancel_leaving(self, uids: Iterable[PodUid]) -> None:
        """Withdraws the requests to migrate these pods: they need not leave any more."""
        ...


def seen(node: Node | None, pods: Iterable[Pod], facts: RuleFacts) -> NodeView:
    """Makes the node's view by judging each pod. Budgets do not block a pod here, since the eviction API checks them."""
    movers: list[Pod] = []
    daemons: list[Pod] = []
    awaited: list[Pod] = []
    blocked: tuple[Pod, UnremovableReason] | None = None
    for pod in pods:
        verdict = judge(pod, facts)
        match verdict.outcome:
            case DrainabilityOutcome.MOVE:
                movers.append(pod)
            case DrainabilityOutcome.DAEMON:
                daemons.append(pod)
            case DrainabilityOutcome.WAIT:
                awaited.append(pod)
            case DrainabilityOutcome.BLOCK:
                if pod.deleting:  # it leaves already, whatever the rules say
                    movers.append(pod)
                elif verdict.unremovable_reason is not None:
                    blocked = blocked or (pod, verdict.unremovable_reason)
            case DrainabilityOutcome.SKIP:
                pass
    return NodeView(node, tuple(movers), tuple(daemons), tuple(awaited), blocked)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityGroup:
    """A group of pods that are evicted together: pods of at least `priority`, up to the priority of the next group. `time`:
    how long its pods may take to terminate."""

    priority: int
    time: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """Limits on a removal, in seconds. Defaults are Cluster Autoscaler's, except `deadline`: the longest time from the
    beginning of a removal until its provider is asked.

    `settle_time`: the pause between the last taint of a batch and its first eviction, so that schedulers have seen the
    taints. `priority_groups`: priority groups leave one after another, lower priorities first; a pod below the lowest group
    leaves with it. `retry_interval`: the pause before a blocked eviction is sent again, unless the budget allows a disruption
    before. `eviction_timeout`: for how long the eviction of one pod is tried, and for how long a pod may be without a
    destination. `force`: pods whose eviction takes too long are deleted. `delay_deletion_timeout`: how long annotations may
    delay the deletion. `removal_seconds`: how long a node may exist after its provider has accepted the deletion. `migrate`:
    virtual machines that may migrate do so instead of being evicted.
    """

    cordon: bool
    settle_time: Seconds
    retry_interval: Seconds
    eviction_timeout: Seconds
    priority_groups: tuple[PriorityGroup, ...]
    headroom_seconds: float = 30.0
    deadline: Seconds
    delay_deletion_timeout: Seconds
    removal_seconds: float = 900.0
    force: bool
    evict_daemon_sets: bool
    migrate: bool

    def group_of(self, priority: int) -> int:
        """The index of the group for this priority: the highest group whose priority it reaches, else the lowest group."""
        return max((at for at, group in enumerate(self.priority_groups) if group.priority <= priority), default=0)
