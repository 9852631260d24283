"""What a removal sees of its node: the node and the pods that count there, as the state machine has them now."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability import DrainabilityOutcome, Facts, judge
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.unremovable_reasons import UnremovableReason


@dataclass(frozen=True, slots=True)
class NodeView:
    """`movers` have to leave, `awaited` have to complete; `blocked` is a pod that no rule lets go, and why. None: no node."""

    node: Node | None
    movers: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()
    blocked: tuple[Pod, UnremovableReason] | None = None

    @property
    def empty(self) -> bool:
        return not self.movers and not self.awaited and self.blocked is None


class NodeViews(Protocol):
    """The state machine, as removals ask it."""

    def node_view(self, name: NodeName, now: UnixTime) -> NodeView:
        """The node as it is now."""
        ...

    def disruptions(self) -> Disruptions:
        """What the budgets allow now."""
        ...

    def migrate(self, uid: PodUid, node: NodeName) -> None:
        """A virtual machine is to leave: it joins the queue of migrations, before those that flee from pressure."""
        ...

    def stay(self, uids: Iterable[PodUid]) -> None:
        """These need not leave any more."""
        ...


def seen(node: Node | None, pods: Iterable[Pod], facts: Facts) -> NodeView:
    """Judges each pod. Budgets are no reason to block: the eviction itself asks them."""
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
