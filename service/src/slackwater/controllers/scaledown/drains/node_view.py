"""What a removal reads: its node with the pods that count there, and the limits that it keeps.

- `NodeView`, `NodeViews`: the node and its pods, as the state machine has them now.
- `DrainLimits`, `PriorityGroup`: how long each step may take, and what the removal may do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.pdb_tracker import Disruptions
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import UnremovableReason


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node under removal, with its pods by drainability. `node` is None if the node is gone.

    `movers` have to leave, `awaited` have to complete. `blocked` is a pod that a rule keeps on the node, with the reason.
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
    """What removals ask of the state machine."""

    def node_view(self, name: NodeName, now: UnixTime) -> NodeView:
        """The node as it is now."""
        ...

    def disruptions(self) -> Disruptions:
        """The disruptions that budgets allow now."""
        ...

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        """Adds a virtual machine to the queue of migrations, before those that migrate for pressure."""
        ...

    def stay(self, uids: Iterable[PodUid]) -> None:
        """Notes that these pods need not leave any more."""
        ...


def seen(node: Node | None, pods: Iterable[Pod], facts: RuleFacts) -> NodeView:
    """The node's view, by judging each pod. Budgets do not block here: the eviction API checks them."""
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
    """Pods of at least this priority, up to the next group's; each has so many seconds to end."""

    priority: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """Limits, in seconds. Defaults are Cluster Autoscaler's, except `deadline_seconds`, which bounds a removal until its
    provider is asked.

    The first pod of a batch is evicted `settle_seconds` after its last taint, so that schedulers have seen it. Priority groups
    leave one after another, lower priorities first; a pod below the lowest group leaves with it. A blocked eviction is sent
    again after `retry_seconds`, or as soon as the budget allows one. With `force` pods whose eviction takes too long are
    deleted. `delay_seconds` is how long annotations may delay the deletion, `removal_seconds` how long a node may exist after
    its provider has accepted the deletion. `migrate`: virtual machines that may migrate do so instead of being evicted.
    """

    cordon: bool = True
    settle_seconds: float = 5.0
    retry_seconds: float = 10.0
    eviction_seconds: float = 120.0
    groups: tuple[PriorityGroup, ...] = (PriorityGroup(priority=-(2**31), seconds=600.0),)
    headroom_seconds: float = 30.0
    deadline_seconds: float = 3600.0
    delay_seconds: float = 120.0
    removal_seconds: float = 900.0
    force: bool = False
    evict_daemons: bool = True
    migrate: bool = True

    def group_of(self, priority: int) -> int:
        """The group of the priority: the highest whose bound it reaches, else the lowest."""
        return max((at for at, group in enumerate(self.groups) if group.priority <= priority), default=0)
