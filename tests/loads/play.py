"""Plays a load shape on virtual time: the product's loop, drains and plans, with its default timers, on a cloud double.

    outcome = play(shape, hours=12)
    outcome.bought, outcome.hasty

The scheduler puts each pod on the least allocated node, as kube-scheduler does by default, and avoids candidates for removal.
Controllers make pods again, roll out with a surge of a quarter, and keep budgets. Where nothing has changed for a few loops, a
loop comes once a minute only.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

from msgspec import structs

from slackwater.controllers.slack.policy import SlackRule
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.events import PodGone, TimePassed
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.node_taints import repels
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.resources import amounts_of
from slackwater.model.selectors import Requirement
from tests.loads.shapes import HOUR, LoadEvent, Shape
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.cloud import BEGAN, Machine, MachineOutcome, Pool
from tests.support.shrinking import ShrinkScene, Workload

_LOOP_SECONDS: Final = 10
_QUIET_SECONDS: Final = 60
#: So many loops without any change, and the next ones come more rarely.
_QUIET_LOOPS: Final = 6
#: The time until the pods of a node that no longer answers are deleted, as by default in Kubernetes.
_LOST_SECONDS: Final = 300
_ODD: Final = 6000


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What happened in the hours of one shape; the first hour does not count.

    `hasty`: machines bought and removed within an hour. `again`: machines bought within an hour after a removal. `helpless`:
    machines bought above the group's minimum that worked and never had a pod or a placeholder; here the first hour counts too.
    `homeless`: evicted pods whose successor found no room at once.
    """

    bought: int = 0
    removed: int = 0
    evicted: int = 0
    given_up: int = 0
    hasty: list[str] = field(default_factory=list)
    again: int = 0
    helpless: list[str] = field(default_factory=list)
    homeless: list[str] = field(default_factory=list)
    nodes: int = 0
    loops: int = 0
    cpu_seconds: float = 0.0

    def violations(self, shape: Shape) -> list[str]:
        """What breaks a law, as texts."""
        found = [f"{name} helped no pod" for name in self.helpless]
        found += [f"{pod} was evicted without a destination" for pod in self.homeless]
        return found + ([f"{name} was bought and removed within an hour" for name in self.hasty] if shape.steady else [])


def play(shape: Shape, *, hours: int) -> Outcome:
    """Plays the shape for so many hours."""
    began = time.process_time()
    scene = LoadScene(shape)
    asyncio.run(scene.play(hours * HOUR))
    scene.outcome.cpu_seconds = time.process_time() - began
    return scene.outcome


@dataclass(slots=True)
class _Bought:
    """A machine that was bought: when, whether it had to help somebody, whether it has, and which pods waited then.

    It helped if it has had a pod or a placeholder, or if the pods had all found room elsewhere when it came.
    """

    at: float
    must_help: bool
    helped: bool = False
    waiting: frozenset[PodUid] = frozenset()


class LoadScene(ShrinkScene):
    """See the module."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(scale_down=installed.SCALE_DOWN, delays=(600.0, 0.0, 180.0))
        self.shape, self.outcome = shape, Outcome()
        self._rng = Random(f"{shape.name} {shape.seed}")
        if shape.slack_ppm:
            self.slack = replace(installed.SLACK, rules=_rules(shape))
        self.wanted: dict[str, int] = {}
        self._rollouts: dict[str, set[PodUid]] = {}
        self._bought: dict[str, _Bought] = {}
        self._removed_at: list[float] = []
        self._there: dict[str, Machine] = {}
        self._ends: dict[PodUid, float] = {}
        self._lost: list[tuple[float, str]] = []
        self._events = [*shape.load.events, *_odd_pods(shape)]
        for name, replicas in shape.load.workloads.items():
            self.workloads[name] = Workload(name, replicas.least)
        self._sizes = {name: amounts_of([each.cpu, each.memory]) for name, each in shape.load.workloads.items()}
        self._slack_of = {name: each.slack for name, each in shape.load.workloads.items()}
        #: Of the workloads of which a node takes only one pod.
        self._constraints = {name: _alone(name) for name, each in shape.load.workloads.items() if each.alone}
        self._sizes["big"] = amounts_of([_ODD, 1 << 30])
        self.workloads["big"] = Workload("big")
        self._pools = self._some_pools() if shape.group == "mixed" else [self._a_pool()]
        self._there = self._machines()

    def _some_pools(self) -> list[Pool]:
        sizes = {"small": ("2", "8Gi"), "a": ("4", "16Gi"), "large": ("8", "32Gi")}
        templates = {
            name: structs.replace(a_node("template", cpu=cpu, memory=memory, labels={"size": name}), scalars=(("pods", 110),))
            for name, (cpu, memory) in sizes.items()
        }
        return [self.cloud.has(name, size=1, min_size=1, max_size=60, template=each) for name, each in templates.items()]

    def _machines(self) -> dict[str, Machine]:
        return {machine.name: machine for pool in self._pools for machine in pool.machines}

    def _a_pool(self) -> Pool:
        group = self.shape.group
        template = structs.replace(a_node("template", cpu="4", memory="16Gi", labels={"size": "a"}), scalars=(("pods", 110),))
        least = 20 if group == "minimum" else 0
        pool = self.cloud.has("a", size=4 if group == "odd" else least * 3 // 4, min_size=least, max_size=60, template=template)
        pool.template_known = group != "odd" or self._rng.random() < 0.5
        if group == "odd":
            odd = structs.replace(
                a_node("odd", cpu="8", memory="32Gi", labels={"made": "by-hand"}), scalars=(("pods", 110), ("x.io/fpga", 1))
            )
            pool.machines[self._rng.randrange(4)].template = odd
        if group in {"failing", "minimum"}:
            pool.boot_outcome = partial(_outcome, first=pool.asked)
        return pool

    # --- the scheduler ----------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        pending = [pod for pod in self.pods.values() if pod.node is None]
        if not pending:
            return
        usable = {node.name: node for node in self._shown.values() if node.ready and not node.unschedulable}
        free = {name: list(node.allocatable) for name, node in usable.items()}
        taken: set[tuple[NodeName, str]] = set()  #: nodes on which a workload has a pod
        for pod in self.pods.values():
            if pod.node in free:
                _take(free[pod.node], pod)
                taken.add((pod.node, dict(pod.labels)["app"]))
        for pod in pending:
            app = dict(pod.labels)["app"]
            fitting = [node for node in usable.values() if _fits(free[node.name], pod) and _welcomes(node, pod)]
            if app in self._constraints:
                fitting = [node for node in fitting if (node.name, app) not in taken]
            if fitting:
                best = max(fitting, key=partial(_rank, free))
                _take(free[best.name], pod)
                taken.add((best.name, app))
                self.wants(structs.replace(pod, node=best.name, resource_version=pod.resource_version + 1))

    # --- controllers ------------------------------------------------------------------------------------------------------

    def _pods_of(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if dict(pod.labels)["app"] == name and not pod.deleting]

    def _create(self, name: str, count: int, *, runs_for: int | None = None) -> None:
        workload = self.workloads[name]
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN + self.time.seconds))
        for _ in range(count):
            workload.made += 1
            pod = a_pod(f"{name}-{workload.made}", labels={"app": name})
            kind = replace(pod.kind, requests=self._sizes[name], pod_constraints=self._constraints.get(name))
            facts = EvictionFacts(owner=Owner("apps", "ReplicaSet", name), slack=self._slack_of.get(name, ""))
            self.wants(structs.replace(pod, kind=kind, eviction_facts=facts, created_at=created))
            if runs_for is not None:
                self._ends[pod.uid] = self.time.seconds + 60 + runs_for

    def _delete(self, pods: list[Pod]) -> None:
        for pod in pods:
            self.dying.pop(pod.uid, None)
            del self.pods[pod.uid]
            self.state_machine.apply(PodGone(pod.uid, pod.key), self.now)

    def _reconcile(self) -> None:
        """As many pods as wanted. A rollout has a quarter more; its old pods go as new ones get nodes."""
        for name, wanted in self.wanted.items():
            old = self._rollouts.get(name, set()) & self.pods.keys()
            surge = -(-wanted // 4) if old else 0
            pods = self._pods_of(name)
            new_bound = sum(pod.node is not None and pod.uid not in old for pod in pods)
            if old:
                superfluous = len(old) + new_bound - wanted
                self._delete([pod for pod in pods if pod.uid in old][: max(superfluous, 0)])
                pods = self._pods_of(name)
            missing = wanted + surge - len(pods)
            news = wanted - (len(pods) - len(old & self.pods.keys()))
            self._create(name, max(min(missing, news) if old else missing, 0))
            if not old and missing < 0:
                self._delete(sorted(pods, key=self._goes_first)[:-missing])
            if not old & self.pods.keys():
                self._rollouts.pop(name, None)

    def _goes_first(self, pod: Pod) -> tuple[bool, int, str]:
        """As a ReplicaSet: pods without a node, then those of which their node has more, then the newest."""
        beside = sum(other.node == pod.node for other in self._pods_of(dict(pod.labels)["app"]))
        return pod.node is not None, -beside, "".join(chr(255 - ord(letter)) for letter in pod.created_at)

    def _happen(self, event: LoadEvent) -> None:
        if event.runs_for is not None:
            self._create(event.workload, event.replicas or 0, runs_for=event.runs_for)
        elif event.replicas is None:
            self._rollouts[event.workload] = {pod.uid for pod in self._pods_of(event.workload)}
        else:
            self.wanted[event.workload] = event.replicas

    def _end_pods(self) -> None:
        """Evicted pods end; the successor of each has to find room at once."""
        for uid in [uid for uid, at in self.dying.items() if at <= self.time.seconds]:
            pod = self.pods[uid]
            self._delete([pod])
            before = self.pods.keys() | set[str]()
            self._reconcile()
            self.settle()
            made = [self.pods[new] for new in self.pods.keys() - before]
            self.outcome.homeless += [f"{pod.key} at {self.time.seconds:.0f}" for new in made if new.node is None]
        for uid in [uid for uid, at in self._ends.items() if at <= self.time.seconds]:
            del self._ends[uid]
            self._delete([self.pods[uid]] if uid in self.pods else [])

    # --- machines ---------------------------------------------------------------------------------------------------------

    def _fine(self) -> list[Machine]:
        return [machine for machine in self._machines().values() if machine.boot_outcome == "fine"]

    def _break_one(self) -> None:
        """A machine that works stops to; its pods are deleted later."""
        working = [each for each in self._fine() if NodeName(each.name) in self._shown]
        if working:
            machine = self._rng.choice(working)
            machine.boot_outcome = "unready"
            self._lost.append((self.time.seconds + _LOST_SECONDS, machine.name))

    def _lose_pods(self) -> None:
        due = {name for at, name in self._lost if at <= self.time.seconds}
        self._lost = [(at, name) for at, name in self._lost if name not in due]
        self._delete([pod for pod in self.pods.values() if pod.node in due])

    def _note_machines(self) -> None:
        """Counts what was bought and removed since the last call, and what helped."""
        now, late = self.time.seconds, self.time.seconds > HOUR
        there = self._machines()
        beyond = {machine.name for pool in self._pools for machine in pool.machines[pool.min_size :]}
        for name in there.keys() - self._there.keys():
            must_help = name in beyond
            waiting = frozenset(pod.uid for pod in self.pods.values() if pod.node is None)
            self._bought[name] = _Bought(now, must_help=must_help, waiting=waiting)
            self.outcome.bought += late
            self.outcome.again += late and any(now - at < HOUR for at in self._removed_at)
        for name in self._there.keys() - there.keys():
            self._gone(name, self._there[name], late=late)
        self._there = there
        plan = self.records[-1].slack
        placeholders = () if plan is None else plan.state.placeholders
        for node in {*(pod.node for pod in self.pods.values()), *(each.place for each in placeholders)}:
            if node in self._bought:
                self._bought[node].helped = True
        still = {uid for uid, pod in self.pods.items() if pod.node is None}
        for name, bought in self._bought.items():
            node_is_there = NodeName(name) in self._shown and self._shown[NodeName(name)].ready
            bought.helped |= bool(bought.waiting) and node_is_there and not bought.waiting & still

    def _gone(self, name: str, machine: Machine, *, late: bool) -> None:
        bought = self._bought.pop(name, None)
        if machine.boot_outcome != "fine" or machine.error is not None:
            return
        self.outcome.removed += late
        self._removed_at.append(self.time.seconds)
        if bought is None:
            return
        if not bought.helped and bought.must_help:
            self.outcome.helpless.append(f"{name} of {bought.at:.0f}")
        if late and bought.at >= HOUR and self.time.seconds - bought.at < HOUR:
            self.outcome.hasty.append(f"{name} from {bought.at:.0f} to {self.time.seconds:.0f}")

    # --- time -------------------------------------------------------------------------------------------------------------

    async def play(self, seconds: int) -> None:
        events = sorted(self._events, key=lambda event: event.at)
        breaks = [hour * HOUR for hour in (3, 5, 8)] if self.shape.group in {"failing", "minimum"} else []
        next_loop, quiet, before = 0.0, 0, None
        while self.time.seconds < seconds:
            while events and events[0].at <= self.time.seconds:
                self._happen(events.pop(0))
                next_loop = min(next_loop, self._grid(_LOOP_SECONDS))
            if breaks and breaks[0] <= self.time.seconds:
                breaks.pop(0)
                self._break_one()
            self._step()
            await self.remover.once()
            if self.time.seconds >= next_loop:
                await self._one_loop()
                signature = self._signature()
                quiet, before = (quiet + 1 if signature == before else 0), signature
                next_loop = self._grid(_LOOP_SECONDS if quiet < _QUIET_LOOPS else _QUIET_SECONDS)
            self.time.seconds = self._next_time(next_loop, events[0].at if events else seconds)
        self.outcome.nodes = len(self._machines())
        self.outcome.evicted = self.watched.evicted
        for name, bought in self._bought.items():
            if (
                not bought.helped
                and bought.must_help
                and self._there[name].boot_outcome == "fine"
                and bought.at < seconds - HOUR
            ):
                self.outcome.helpless.append(f"{name} of {bought.at:.0f}")

    def _grid(self, seconds: int) -> float:
        return (self.time.seconds // seconds + 1) * seconds

    def _step(self) -> None:
        self._end_pods()
        self._lose_pods()
        self._reconcile()
        self.settle()
        self._reconcile()
        self._budgets()
        self.carry_out(self.state_machine.apply(TimePassed(), self.now))

    async def _one_loop(self) -> None:
        record = await self.loop()
        effects = list(self.effects)
        self.effects.clear()
        self.carry_out(effects)
        self.outcome.loops += 1
        self.outcome.given_up += 0 if record.scale_down is None else len(record.scale_down.given_up)
        self._note_machines()
        self._watch()
        self.records[:] = self.records[-2:]

    def _signature(self) -> tuple[object, ...]:
        scale_down, plan = self.scale_down.state, self.records[-1].slack
        return (
            len(self.cloud.calls),
            self.watched.evicted,
            frozenset((uid, pod.node) for uid, pod in self.pods.items()),
            frozenset() if scale_down is None else frozenset(scale_down.candidate_set),
            frozenset(self._shown),
            () if plan is None else tuple(each.place for each in plan.state.placeholders),
        )

    def _next_time(self, next_loop: float, next_event: float) -> float:
        times = [next_loop, next_event, *self.dying.values(), *self._ends.values(), *(at for at, _ in self._lost)]
        if self.state_machine.drains.nodes or self._rollouts:
            times.append(self.time.seconds + 1)
        if (at := self.cloud.next_at()) is not None:
            times.append(at)
        return max(min(times), self.time.seconds + 1)


def _rules(shape: Shape) -> tuple[SlackRule, ...]:
    rule = replace(installed.SLACK_RULE, name="cluster", min_rate=shape.slack_ppm, sizing="v1" if shape.slack == "v1" else "v2")
    amounts = replace(installed.SLACK_RULE, name="amounts", min=amounts_of([3000, 5 << 30]), node_labels=(("size", "a"),))
    return (rule, amounts) if shape.slack == "rules" else (rule,)


def _alone(name: str) -> PodConstraints:
    term = PodTerm(
        topology_key="kubernetes.io/hostname", selector=(Requirement("app", "In", (name,)),), namespaces=("default",)
    )
    return PodConstraints(anti_affinity=(term,))


def _odd_pods(shape: Shape) -> list[LoadEvent]:
    """One pod that fits on the odd node alone, and later another that fits nowhere."""
    if shape.group != "odd":
        return []
    return [LoadEvent(at=0, workload="big", replicas=1), LoadEvent(at=2 * HOUR, workload="big", replicas=2)]


def _outcome(number: int, *, first: int) -> MachineOutcome:
    """Of four machines one fails at once, and one more of eight never registers."""
    number -= first
    return "failed" if number % 4 == 1 else "silent" if number % 8 == 2 else "fine"


def _take(free: list[int], pod: Pod) -> None:
    free[0] -= pod.kind.requests.cpu
    free[1] -= pod.kind.requests.memory


def _fits(free: list[int], pod: Pod) -> bool:
    return free[0] >= pod.kind.requests.cpu and free[1] >= pod.kind.requests.memory


def _welcomes(node: Node, pod: Pod) -> bool:
    return all(not repels(taint) or tolerated(taint, pod.kind.tolerations, comparing=False) for taint in node.taints)


def _rank(free: dict[NodeName, list[int]], node: Node) -> tuple[bool, float, str]:
    """As TaintToleration and NodeResourcesLeastAllocated score, in this order."""
    shunned = any(taint.effect == "PreferNoSchedule" for taint in node.taints)
    shares = [left / max(has, 1) for left, has in zip(free[node.name], node.allocatable, strict=True)]
    return not shunned, sum(shares), node.name
