"""The autoscaler on virtual time with removals: kubelets that end evicted pods, controllers that make them again, budgets.

What must hold at every moment is watched: no budget below its minimum, no more removals under way than allowed, and nobody
evicted for whom there is no room elsewhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from msgspec import structs

from slackwater.controllers.scaledown.loop import ScaleDownLoop
from slackwater.controllers.scaledown.policy import DrainLimits, ScaleDownPolicy
from slackwater.model.effects import (
    Announce,
    DrainEnd,
    DrainReport,
    Effect,
    Evict,
    FindDestinations,
    MarkNode,
    PodEvicted,
    RemoveNode,
    UnmarkNode,
)
from slackwater.model.events import BudgetSeen, EvictionEnded, NodeMarked, NodeUnmarked, PodGone, PodSeen, TimePassed
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Node, Pod, Taint
from slackwater.runtime.autoscaler.provider_calls import MachineRemover
from tests.support import installed
from tests.support.builders import a_budget, a_pod
from tests.support.destinations import Destinations
from tests.support.scaling import Scenario


@dataclass
class Workload:
    """Replicas with budgets: at least `least` of them have to be ready; None: no budget."""

    name: str
    least: int | None = None
    budgets: int = 1
    made: int = 0


@dataclass
class Watched:
    """What was true at some moment."""

    most_removals: int = 0
    most_drains: int = 0
    violations: list[str] = field(default_factory=list)
    evicted: int = 0
    ended: list[DrainEnd] = field(default_factory=list)


class ShrinkScene(Scenario):
    """See the module."""

    def __init__(
        self,
        *,
        scale_down: ScaleDownPolicy | None = None,
        delays: tuple[float, float, float] = (0.0, 0.0, 0.0),
        limits: DrainLimits | None = None,
    ) -> None:
        after_add, after_delete, after_failure = delays
        self.shrink_policy = replace(
            scale_down or replace(installed.SCALE_DOWN, unneeded_time=60.0),
            delay_after_add=after_add,
            delay_after_delete=after_delete,
            delay_after_failure=after_failure,
        )
        self.limits = limits or installed.DRAIN
        self.workloads: dict[str, Workload] = {}
        self.taints: dict[NodeName, tuple[Taint, ...]] = {}
        self.cordoned: set[NodeName] = set()
        self.dying: dict[PodUid, float] = {}
        self.watched = Watched()
        self.said_effects: list[Effect] = []
        #: Workloads of which the API server evicts no pod, whatever their budgets allow.
        self.refused: set[str] = set()
        #: Why no node may be removed now.
        self.withheld: str | None = None
        super().__init__()

    def scale_down_loop(self) -> ScaleDownLoop:
        self.state_machine.drains.limits = self.limits
        self.destinations = Destinations(self.state_machine)
        self.remover = MachineRemover(
            self.state_machine,
            self.group_registry,
            self.providers(),
            on_event=lambda event: self.carry_out(self.state_machine.apply(event, self.now)),
        )
        self.scale_down = ScaleDownLoop(
            state_machine=self.state_machine,
            group_registry=self.group_registry,
            policy=lambda: self.shrink_policy,
            submit=self.effects.extend,
            clock=self.time.clock,
            steady=self.time.wall,
            wall=self.time.wall,
            withholds=lambda _capability, _group: self.withheld,
        )
        return self.scale_down

    def cut_off(self, priority: int) -> None:
        """Pods below the priority are expendable."""
        self.policy = replace(self.policy, pending=replace(self.policy.pending, expendable_pods_priority_cutoff=priority))
        self.shrink_policy = replace(
            self.shrink_policy, blocked_by=replace(self.shrink_policy.blocked_by, expendable_pods_priority_cutoff=priority)
        )
        policy = replace(self.state_machine.policy, blocked_by=self.shrink_policy.blocked_by, drain=self.limits)
        self.state_machine.adopt_policy(policy)

    @property
    def now(self) -> Instant:
        return self.time.clock()

    def shown(self, node: Node) -> Node:
        cordoned = node.name in self.cordoned
        if not cordoned and not node.taints and not self.taints.get(node.name):
            return node
        # As the node lifecycle controller does.
        more = (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),) if cordoned else ()
        taints = (*self.taints.get(node.name, ()), *more)
        return structs.replace(node, taints=taints, unschedulable=cordoned, cordoned_by_us=cordoned)

    # --- workloads --------------------------------------------------------------------------------------------------------

    def runs(self, name: str, on: Iterable[str], *, cpu: str = "1", least: int | None = None, budgets: int = 1) -> None:
        """A workload with a replica on each of the nodes. `budgets`: how many PodDisruptionBudgets say the same of it."""
        self.workloads[name] = Workload(name, least, budgets)
        for node in on:
            self._make(name, cpu, node)
        self._budgets()

    def pod_name(self, workload: Workload) -> str:
        """The name of the workload's newest pod."""
        return f"{workload.name}-{workload.made}"

    def _make(self, name: str, cpu: str, node: str | None) -> None:
        workload = self.workloads[name]
        workload.made += 1
        eviction_facts = EvictionFacts(owner=Owner("apps", "ReplicaSet", name))
        pod = a_pod(self.pod_name(workload), on=node, cpu=cpu, memory="1Gi", labels={"app": name})
        created_at = datetime.fromtimestamp(self.time.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.wants(structs.replace(pod, eviction_facts=eviction_facts, created_at=created_at))

    def _ready(self, name: str) -> int:
        return sum(
            pod.node is not None and not pod.deleting for pod in self.pods.values() if dict(pod.labels).get("app") == name
        )

    def _budgets(self) -> None:
        for workload in self.workloads.values():
            if workload.least is not None:
                allowed = max(self._ready(workload.name) - workload.least, 0)
                for name in [workload.name, *(f"{workload.name}-{more}" for more in range(2, workload.budgets + 1))]:
                    self.state_machine.apply(BudgetSeen(a_budget(name, allowed=allowed, app=workload.name)), self.now)

    # --- time -------------------------------------------------------------------------------------------------------------

    async def pass_time(self, seconds: float, *, every: float = 10.0) -> None:
        """A second at a time, with a loop each `every` seconds."""
        end = self.time.seconds + seconds
        while self.time.seconds < end:
            self.time.seconds += 1.0
            self._end_pods()
            self.settle()
            self._budgets()
            self.carry_out(self.state_machine.apply(TimePassed(), self.now))
            await self.remover.once()
            if self.time.seconds % every == 0:
                await self.loop()
                effects = list(self.effects)
                self.effects.clear()
                self.carry_out(effects)
            self._watch()

    def _end_pods(self) -> None:
        for uid in [uid for uid, at in self.dying.items() if at <= self.time.seconds]:
            del self.dying[uid]
            pod = self.pods.pop(uid)
            self.state_machine.apply(PodGone(pod.uid, pod.key), self.now)
            name = dict(pod.labels).get("app")
            if name is not None:
                self._make(name, f"{pod.kind.requests.cpu}m", None)

    def _watch(self) -> None:
        removals, drains = self.state_machine.drains.under_way()
        self.watched.most_removals = max(self.watched.most_removals, removals)
        self.watched.most_drains = max(self.watched.most_drains, drains)
        if self.records and self.records[-1].scale_down is not None and self.time.seconds % 10 == 0:
            self.watched.ended.extend(self.records[-1].scale_down.ended)

    # --- what is asked ----------------------------------------------------------------------------------------------------

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case MarkNode():
                    others = tuple(t for t in self.taints.get(effect.name, ()) if t.key != effect.taint.key)
                    self.taints[effect.name] = (*others, effect.taint)
                    if effect.cordon:
                        self.cordoned.add(effect.name)
                    self.settle()
                    self.carry_out(self.state_machine.apply(NodeMarked(effect.name, effect.taint.key, True, ""), self.now))
                case UnmarkNode():
                    self.taints[effect.name] = tuple(t for t in self.taints.get(effect.name, ()) if t.key != effect.taint_key)
                    if effect.uncordon:
                        self.cordoned.discard(effect.name)
                    self.settle()
                    self.carry_out(self.state_machine.apply(NodeUnmarked(effect.name, effect.taint_key, True, ""), self.now))
                case Evict():
                    self._evict(effect)
                case RemoveNode() | FindDestinations() | PodEvicted() | DrainEnd():
                    self._reported(effect)
                case Announce():
                    self.said_effects.append(effect)
                case _:
                    pass

    def _reported(self, report: DrainReport) -> None:
        match report:
            case RemoveNode():
                self.remover.take(report)
            case FindDestinations():
                found = self.destinations.found(report, self.shrink_policy.blocked_by.expendable_pods_priority_cutoff)
                self.carry_out(self.state_machine.apply(found, self.now))
            case _:
                self.scale_down.take(report)
                if isinstance(report, PodEvicted):
                    self.consolidating.evicted(report.pod)

    def _evict(self, effect: Evict) -> None:
        pod = self.pods.get(effect.uid)
        if pod is None:
            self.carry_out(self.state_machine.apply(EvictionEnded(effect.uid, effect.node, "gone", ""), self.now))
            return
        workload = self.workloads.get(dict(pod.labels).get("app", ""))
        if workload is not None and (workload.name in self.refused or workload.budgets > 1):
            self.carry_out(self.state_machine.apply(EvictionEnded(pod.uid, effect.node, "unreachable", "500"), self.now))
            return
        if workload is not None and workload.least is not None and self._ready(workload.name) - 1 < workload.least:
            self.carry_out(self.state_machine.apply(EvictionEnded(pod.uid, effect.node, "blocked", "budget"), self.now))
            return
        self.watched.evicted += 1
        ending = structs.replace(pod, deleting=True, resource_version=pod.resource_version + 1)
        self.pods[pod.uid] = ending
        self.dying[pod.uid] = self.time.seconds + 2.0
        self.state_machine.apply(PodSeen(ending), self.now)
        self.carry_out(self.state_machine.apply(EvictionEnded(pod.uid, effect.node, "accepted", ""), self.now))
        self._budgets()

    def unhappy(self) -> list[PodKey]:
        """Pods without a place."""
        return [pod.key for pod in self.pods.values() if pod.node is None]


def named(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.key.name for pod in pods)
