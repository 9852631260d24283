"""What a removal sees of its node: the node and the pods that count there, as the world has them now."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability import Facts, Fate, judge
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Node, Pod
from slackwater.model.unremovable_reasons import Hindrance


@dataclass(frozen=True, slots=True)
class Site:
    """`movers` have to leave, `awaited` have to complete; `blocked` is a pod that no rule lets go, and why. None: no node."""

    node: Node | None
    movers: tuple[Pod, ...] = ()
    daemons: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()
    blocked: tuple[Pod, Hindrance] | None = None

    @property
    def empty(self) -> bool:
        return not self.movers and not self.awaited and self.blocked is None


class Sites(Protocol):
    """The world, as removals ask it."""

    def site(self, name: NodeName, now: UnixTime) -> Site:
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


def seen(node: Node | None, pods: Iterable[Pod], facts: Facts) -> Site:
    """Judges each pod. Budgets are no reason to block: the eviction itself asks them."""
    movers: list[Pod] = []
    daemons: list[Pod] = []
    awaited: list[Pod] = []
    blocked: tuple[Pod, Hindrance] | None = None
    for pod in pods:
        verdict = judge(pod, facts)
        match verdict.fate:
            case Fate.MOVE:
                movers.append(pod)
            case Fate.DAEMON:
                daemons.append(pod)
            case Fate.WAIT:
                awaited.append(pod)
            case Fate.BLOCK:
                if pod.deleting:  # it leaves already, whatever the rules say
                    movers.append(pod)
                elif verdict.hindrance is not None:
                    blocked = blocked or (pod, verdict.hindrance)
            case Fate.SKIP:
                pass
    return Site(node, tuple(movers), tuple(daemons), tuple(awaited), blocked)
