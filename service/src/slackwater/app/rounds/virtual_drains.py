"""The course of removals on virtual time: taint and cordon, evictions as budgets allow them, and the end of the machine.

A model of `controllers.scaledown.drains` with an API server, kubelets and a provider that never fail. It uses the drain's own
limits and the rules of `fit`; a pod that is evicted goes to its next node at once, as planned if pods are placed as planned, or
else by the scheduler's model, and takes its whole grace period to end. A removal is given up where a pod fits nowhere, or its
budget allows nothing, for as long as the drain's `evictionTimeout`. Invariant: a node is removed only when every pod that has
to leave it is on another node, and a removal that is given up leaves no taint and no cordon.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import structs

from slackwater.app.rounds.happened import Bound, Observer, nobody
from slackwater.app.rounds.scheduler_model import SchedulerModel
from slackwater.app.rounds.timeline import Timeline
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.controllers.scaledown.policy import DrainLimits
from slackwater.controllers.scaledown.state import Removable
from slackwater.fit.drainability import DrainabilityOutcome, DrainPolicy, RuleFacts, judge
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.reasons import UnremovableReason
from slackwater_protocol.names import TO_BE_DELETED_TAINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many seconds others take: a new pod until it is ready, a new machine until its node is, and a provider to delete a
    machine. Assumptions, since a file does not say. `boots`: as seen in the groups where machines have come."""

    pod_start: float = 10.0
    node_boot: float = 90.0
    node_removal: float = 30.0
    boots: Mapping[GroupName, float] = field(default_factory=dict)

    def boot_of(self, group: GroupName) -> float:
        return self.boots.get(group, self.node_boot)


DEFAULT_PACE: Final = Pace()
#: Without a time as its value: each set of taints that occurs is judged for each equivalence group, so there should be few.
_LEAVING: Final = Taint(TO_BE_DELETED_TAINT, "", "NoSchedule")


@dataclass(slots=True, kw_only=True)
class VirtualDrain:
    """A removal under way. `leaving`: evicted pods that have not ended. `first_at`: since when each pod that is still there has
    been tried. `retries`: a retry is due. `destinations`: the nodes that the plan found for the pods."""

    node: Node
    group: GroupName
    empty: bool
    destinations: Mapping[PodUid, NodeName]
    leaving: int = 0
    first_at: dict[PodUid, UnixTime] = field(default_factory=dict)
    retries: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class DrainOutcome:
    """The end of a removal. `problem`: why it was given up; "" if the node is gone. `disturbed`: it was to evict pods."""

    at: UnixTime
    node: NodeName
    group: GroupName
    problem: str
    disturbed: bool


class VirtualDrains:
    """The removals of one cluster. `evictions`: how many pods were evicted. `outcomes`: the removals that ended, until the
    caller takes them."""

    def __init__(
        self,
        cluster: VirtualCluster,
        scheduler: SchedulerModel,
        timeline: Timeline,
        *,
        limits: DrainLimits,
        rules: DrainPolicy,
        pace: Pace,
        places_as_planned: bool,
        observer: Observer = nobody,
    ) -> None:
        self.active: dict[NodeName, VirtualDrain] = {}
        self.outcomes: list[DrainOutcome] = []
        self.evictions = 0
        #: When each successor of an evicted pod was made.
        self.moved: dict[PodUid, UnixTime] = {}
        self._cluster, self._scheduler, self._timeline = cluster, scheduler, timeline
        self._limits, self._rules, self._pace, self._observer = limits, rules, pace, observer
        self._places_as_planned = places_as_planned
        #: The evicted pods whose successors are not ready yet, by UID.
        self.starting: dict[PodUid, Pod] = {}
        #: The removals that wait for a budget.
        self._blocked: dict[NodeName, VirtualDrain] = {}

    def begin(self, found: Removable) -> None:
        """Begins the removal of a node."""
        node = self._cluster.replica.nodes[found.node]
        drain = self.active[found.node] = VirtualDrain(
            node=node,
            group=found.group,
            empty=found.empty,
            destinations={pod.uid: to for pod, to in found.moves} if self._places_as_planned else {},
        )
        taints = (*node.taints, _LEAVING)
        self._cluster.put_nodes([structs.replace(node, taints=taints, unschedulable=node.unschedulable or self._limits.cordon)])
        self._later(drain, self._limits.settle_time, self._step)

    def expect(self, pace: Pace) -> None:
        """From now on others take so long."""
        self._pace = pace

    def forget_moved(self, before: UnixTime) -> None:
        """Forgets the successors that were made before a time. `moved` is in the order of time."""
        while self.moved and (first := next(iter(self.moved))) and self.moved[first] < before:
            del self.moved[first]

    def lose(self, name: NodeName) -> None:
        """A node fails; so its removal is over, if it was under way."""
        if (drain := self.active.get(name)) is not None:
            self._end(drain, "")

    def _later(self, drain: VirtualDrain, seconds: float, act: Callable[[VirtualDrain], None]) -> None:
        def run() -> None:
            if not drain.ended:
                act(drain)

        self._timeline.after(seconds, run)

    def _step(self, drain: VirtualDrain) -> None:
        """Evicts what may leave now. Asks the provider once all pods have ended."""
        facts = RuleFacts(now=self._timeline.now, policy=self._rules)
        judged = [(pod, judge(pod, facts)) for pod in self._cluster.pods_on(drain.node.name)]
        for pod, verdict in judged:
            if verdict.outcome in (DrainabilityOutcome.BLOCK, DrainabilityOutcome.WAIT):
                self._give_up(drain, f"{pod.key} must stay")
                return
        movers = [pod for pod, verdict in judged if verdict.outcome is DrainabilityOutcome.MOVE]
        if drain.empty and movers:
            self._give_up(drain, UnremovableReason.NO_LONGER_EMPTY.text)
        elif movers:
            self._evict_some(drain, movers)
        elif not drain.leaving:
            self._later(drain, self._pace.node_removal, self._remove)

    def _retry(self, drain: VirtualDrain) -> None:
        drain.retries = False
        self._step(drain)

    def _evict_some(self, drain: VirtualDrain, movers: list[Pod]) -> None:
        group = min(self._limits.group_of(pod.priority) for pod in movers)
        blocked = False
        for pod in movers:
            if self._limits.group_of(pod.priority) != group:
                continue
            problem = self._evict(drain, pod)
            if not problem:
                continue
            blocked = True
            waited = self._timeline.now - drain.first_at.setdefault(pod.uid, self._timeline.now)
            if waited >= self._limits.eviction_timeout:
                self._give_up(drain, f"{pod.key}: {problem}")
                return
        if blocked:
            self._blocked[drain.node.name] = drain
        if blocked and not drain.retries:
            drain.retries = True
            self._later(drain, self._limits.retry_interval, self._retry)

    def _evict(self, drain: VirtualDrain, pod: Pod) -> str:
        """Evicts the pod, and puts its successor on a node. Returns why that is not possible now; "" if it was done."""
        cluster, now = self._cluster, self._timeline.now
        if not cluster.disruptions.allows(pod):
            return UnremovableReason.NOT_ENOUGH_PDB.text
        cluster.drop(pod)
        new = cluster.successor(pod, now)
        to = self._scheduler.node_for(cluster, new, planned=drain.destinations.get(pod.uid))
        if to is None:
            cluster.bind(pod, drain.node.name)
            return UnremovableReason.NO_PLACE.text
        cluster.bind(new, to)
        self._observer(Bound(now, new))
        self.moved[new.uid] = now
        self.starting[pod.uid] = pod
        cluster.disruptions.spend([pod])
        self.evictions += 1
        drain.leaving += 1
        self._timeline.after(self._pace.pod_start, partial(self._replaced, pod))
        seconds = self._limits.priority_groups[self._limits.group_of(pod.priority)].time
        self._later(drain, min(pod.grace_seconds, seconds), self._pod_ended)
        return ""

    def _replaced(self, pod: Pod) -> None:
        """The successor is ready. Removals that wait for a budget try again."""
        del self.starting[pod.uid]
        self._cluster.disruptions.give_back([pod])
        blocked, self._blocked = self._blocked, {}
        for drain in blocked.values():
            self._later(drain, 0.0, self._step)

    def _pod_ended(self, drain: VirtualDrain) -> None:
        drain.leaving -= 1
        if not drain.leaving:
            self._step(drain)

    def _remove(self, drain: VirtualDrain) -> None:
        if not drain.ended:
            self._cluster.remove_node(drain.node.name)
            self._end(drain, "")

    def _give_up(self, drain: VirtualDrain, problem: str) -> None:
        """Takes taint and cordon away."""
        self._cluster.put_nodes([drain.node])
        self._end(drain, problem)

    def _end(self, drain: VirtualDrain, problem: str) -> None:
        drain.ended = True
        del self.active[drain.node.name]
        self._blocked.pop(drain.node.name, None)
        self.outcomes.append(DrainOutcome(self._timeline.now, drain.node.name, drain.group, problem, not drain.empty))
