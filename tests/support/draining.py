"""A cluster on virtual time in which nodes are removed: the real world, and whoever carries out what it asks for.

Calls end as `faults` says, one word a call: "done", "refused", "unknown", "blocked" (evictions). Pods that are evicted are gone
`ends_after` seconds later. What was asked is kept in `log`, as short words.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from msgspec import structs

from slackwater.controllers.scaledown.policy import DrainLimits
from slackwater.model.effects import (
    DrainEnd,
    DrainOrder,
    Effect,
    Evict,
    FindDestinations,
    MarkNode,
    PodEvicted,
    RemoveNode,
    UnmarkNode,
)
from slackwater.model.events import (
    Event,
    EvictionEnded,
    EvictionOutcome,
    NodeGone,
    NodeMarked,
    NodeRemoved,
    NodeSeen,
    NodeUnmarked,
    PodGone,
    PodSeen,
    RemovalOutcome,
    TimePassed,
)
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import TO_BE_DELETED_TAINT
from tests.support import installed
from tests.support.builders import a_node
from tests.support.destinations import Destinations

#: The clock on the wall at instant 0.
EPOCH = 1.8e9
Faults = Callable[[str], str]
_REMOVED: Final[Mapping[str, RemovalOutcome]] = {"done": "deleted", "refused": "failed"}
_EVICTED: Final[Mapping[str, EvictionOutcome]] = {
    "done": "accepted",
    "refused": "refused",
    "blocked": "blocked",
}


def all_well(_what: str) -> str:
    return "done"


@dataclass
class Cluster:
    """`tick` lets time pass; every call that was asked for ends before it returns."""

    nodes: dict[str, Node]
    pods: dict[PodUid, Pod]
    faults: Faults = all_well
    limits: DrainLimits = installed.DRAIN
    ends_after: float = 2.0
    now: float = 0.0
    log: list[str] = field(default_factory=list)
    ended: list[DrainEnd] = field(default_factory=list)
    evicted: list[Pod] = field(default_factory=list)
    removals: list[RemoveNode] = field(default_factory=list)
    dying: dict[PodUid, float] = field(default_factory=dict)
    #: Pods whose eviction was sent while no other node had room.
    without_destination: list[str] = field(default_factory=list)
    #: Everything that was asked for, in order.
    effects: list[Effect] = field(default_factory=list)
    #: Whether the provider answers; else it takes its time.
    provider_answers: bool = True
    asked: deque[Effect] = field(default_factory=deque)
    busy: bool = False

    def __post_init__(self) -> None:
        self.state_machine = StateMachine(installed.POLICY)
        self.destinations = Destinations(self.state_machine)
        self.drains = self.state_machine.drains
        self.drains.limits = self.limits
        for node in self.nodes.values():
            self.tell(NodeSeen(node))
        for pod in self.pods.values():
            self.tell(PodSeen(pod))

    def tell(self, event: Event) -> None:
        self.carry_out(self.state_machine.apply(event, Instant(self.now)))

    def begin(self, *names: str, empty: bool = False, destinations: Mapping[str, str] = MappingProxyType({})) -> None:
        """`destinations`: by name of the pod, as the plan would have them."""
        orders = [
            DrainOrder(
                node=NodeName(name),
                uid=self.nodes[name].uid,
                group=GroupName("pool"),
                empty=empty,
                stamp=UnixTime(EPOCH + self.now),
                destinations=tuple((PodKey("default", pod), NodeName(to)) for pod, to in destinations.items()),
            )
            for name in names
        ]
        self.carry_out(self.state_machine.begin_drains(orders, Instant(self.now)))

    def tick(self, seconds: float, step: float = 0.5) -> None:
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now += step
            for uid in [uid for uid, at in self.dying.items() if at <= self.now]:
                del self.dying[uid]
                self.delete(uid)
            self.tell(TimePassed())
            if self.provider_answers:
                self.provide()

    def delete(self, uid: PodUid) -> None:
        pod = self.pods.pop(uid)
        self.tell(PodGone(uid, pod.key))

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.tell(PodSeen(pod))

    def provide(self) -> None:
        removals, self.removals = self.removals, []
        for removal in removals:
            how = self.said(f"delete {removal.node}")
            outcome = _REMOVED.get(how, "unknown")
            if outcome == "deleted":
                self.nodes.pop(removal.node, None)
            self.tell(NodeRemoved(removal.node, outcome, how))
            if outcome == "deleted":
                self.tell(NodeGone(removal.node))

    def said(self, what: str) -> str:
        self.log.append(what)
        return self.faults(what)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """In the order in which they were asked for, as the dispatcher does for one object."""
        new = list(effects)
        self.effects += new
        self.asked.extend(new)
        if self.busy:
            return
        self.busy = True
        while self.asked:
            effect = self.asked.popleft()
            match effect:
                case MarkNode():
                    self._mark(effect)
                case UnmarkNode():
                    self._unmark(effect)
                case FindDestinations():
                    self.tell(self.destinations.found(effect))
                case Evict():
                    self._evict(effect)
                case RemoveNode():
                    self.removals.append(effect)
                case PodEvicted(pod):
                    self.evicted.append(pod)
                case DrainEnd():
                    self.ended.append(effect)
                case _:
                    self.log.append(type(effect).__name__)
        self.busy = False

    def _mark(self, effect: MarkNode) -> None:
        how = self.said(f"taint {effect.name}")
        if how in {"done", "unknown"} and effect.name in self.nodes:  # without an answer it may have happened
            node = self.nodes[effect.name]
            others = tuple(taint for taint in node.taints if taint.key != effect.taint.key)
            self._put(structs.replace(node, taints=(*others, effect.taint), unschedulable=True, cordoned_by_us=True))
        self.tell(NodeMarked(effect.name, effect.taint.key, how == "done", how))

    def _unmark(self, effect: UnmarkNode) -> None:
        how = self.said(f"untaint {effect.name}")
        if how == "done" and effect.name in self.nodes:
            node = self.nodes[effect.name]
            others = tuple(taint for taint in node.taints if taint.key != effect.taint_key)
            self._put(structs.replace(node, taints=others, unschedulable=False, cordoned_by_us=False))
        self.tell(NodeUnmarked(effect.name, effect.taint_key, how == "done", how))

    def _put(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.tell(NodeSeen(node))

    def _has_room(self, pod: Pod) -> bool:
        """Whether some other node has room for the pod and is not drained: by its requests alone, counted anew."""
        used = Counter[str]()
        for each in self.pods.values():
            used[each.node or ""] += each.kind.requests.cpu
        return any(
            node.name != pod.node and not node.unschedulable and used[node.name] + pod.kind.requests.cpu <= node.allocatable.cpu
            for node in self.nodes.values()
        )

    def _evict(self, effect: Evict) -> None:
        if effect.uid in self.pods and not self._has_room(self.pods[effect.uid]):
            self.without_destination.append(effect.key.name)
        how = self.said(f"{'kill' if effect.force else 'evict'} {effect.key.name}")
        pod = self.pods.get(effect.uid)
        outcome = _EVICTED.get(how, "unreachable")
        if pod is not None and how == "done":
            self.pods[pod.uid] = pod = structs.replace(pod, deleting=True)
            self.dying[pod.uid] = self.now + self.ends_after
            self.tell(PodSeen(pod))
        self.tell(EvictionEnded(effect.uid, effect.node, "gone" if pod is None else outcome, how))

    def tainted(self) -> list[str]:
        return sorted(
            name for name, node in self.nodes.items() if any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
        )

    def how_it_ended(self) -> dict[str, str]:
        """By node: removed, gone, or the reason for its roll-back."""
        return {end.order.node: str(end.unremovable_reason or end.outcome) for end in self.ended}


def a_cluster(nodes: Iterable[Node], pods: Iterable[Pod] = (), *, elsewhere: bool = True, **more: Any) -> Cluster:
    """`elsewhere`: there is one more node, with room for all pods."""
    spare = [structs.replace(a_node("elsewhere", cpu="1000", memory="1000Gi"), scalars=(("pods", 110),))] if elsewhere else []
    return Cluster({node.name: node for node in (*nodes, *spare)}, {pod.uid: pod for pod in pods}, **more)
