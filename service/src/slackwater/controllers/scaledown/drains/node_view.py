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
    """A node under removal, with its pods by drainability. `movers` have to leave, `awaited` have to complete; `blocked` is a
    pod that a rule does not let go, and why. `node` is None if the node is gone."""

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


def seen(node: Node | None, pods: Iterable[Pod], facts: Facts) -> NodeView:
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
