"""The autoscaler on virtual time: a state machine, the cloud double, a scheduler that binds what fits, and the real loop
between.

Nothing waits: `loop` runs one loop at the present moment, `pass_time` lets the cloud and the scheduler go on. The cluster's own
rules are as simple as the tests need them: each pod goes to the first ready node with room whose taints it tolerates, by its
requests and its node selector alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.controllers.consolidation.loop import ConsolidationLoop
from slackwater.controllers.consolidation.policy import ConsolidationPolicy
from slackwater.controllers.loop_plans import ScaleUpRules
from slackwater.controllers.scaledown.loop import ScaleDownLoop
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.policy import SlackPolicy
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.effects import Announce, Effect
from slackwater.model.events import NodeGone, NodeSeen, PodGone, PodSeen, Synced
from slackwater.model.ids import Instant, NodeName, PodKey, UnixTime
from slackwater.model.node_taints import repels
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import Amounts
from slackwater.model.start_time_slo import Observed
from slackwater.ports.clock import Clocks
from slackwater.ports.protocols import NodeProvider
from slackwater.runtime.autoscaler.cycle import Autoscaler, LoopConfig
from slackwater.runtime.autoscaler.loop_record import LoopCounts, LoopRecord
from slackwater.runtime.autoscaler.provider_calls import Actor
from slackwater.runtime.planner.messages import LoopPlanner
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_pod
from tests.support.cloud import BEGAN, Cloud
from tests.support.planners import InlinePlanning, a_feed


@dataclass
class Time:
    """Seconds since the test began."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def clock(self) -> Instant:
        return Instant(self.seconds)

    def wall(self) -> UnixTime:
        return UnixTime(BEGAN + self.seconds)


@dataclass
class Trace:
    """What was true at some moment of every step: for the laws at the end."""

    most_in_creation: int = 0
    most_nodes: int = 0


def switched_off(state_machine: StateMachine, group_registry: NodeGroupRegistry) -> ScaleDownLoop:
    """A scale-down loop that removes nothing."""

    def submit(effects: Iterable[Effect]) -> None:
        assert not list(effects)

    return ScaleDownLoop(
        state_machine=state_machine,
        group_registry=group_registry,
        policy=lambda: replace(installed.SCALE_DOWN, enabled=False),
        submit=submit,
        clock=lambda: Instant(0.0),
        steady=lambda: UnixTime(0.0),
        wall=lambda: UnixTime(0.0),
    )


def a_consolidation_loop(
    state_machine: StateMachine,
    policy: Callable[[], ConsolidationPolicy],
    time: Time,
    moved_before: Callable[[], Mapping[PodKey, UnixTime]] = dict,
) -> ConsolidationLoop:
    return ConsolidationLoop(
        policy=policy,
        nodes=lambda: {node.name for _, node in state_machine.state.nodes},
        busy=state_machine.busy_nodes,
        clock=time.clock,
        steady=time.wall,
        longest_growth=900.0,
        longest_removal=3600.0,
        most_leaving=10,
        moved_before=moved_before,
    )


class Scenario:
    """See the module. `limit` is that of nodes in creation."""

    def __init__(
        self, *, group_registry: NodeGroupPolicy | None = None, policy: ScaleUpPolicy | None = None, clouds: int = 1
    ) -> None:
        self.time = Time()
        names = ["cloud", *(f"cloud-{number}" for number in range(2, clouds + 1))]
        self.clouds = [Cloud(self.time, name=name) for name in names]
        self.cloud = self.clouds[0]
        self.node_group_policy = group_registry or NodeGroupPolicy()
        self.policy = policy or replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False))
        self.slack: SlackPolicy | None = None
        self.consolidation: ConsolidationPolicy = installed.CONSOLIDATION
        self.pods: dict[str, Pod] = {}
        self.effects: list[Effect] = []
        self.records: list[LoopRecord] = []
        self.trace = Trace()
        self._begin()

    def _begin(self) -> None:
        self.state_machine = StateMachine(installed.POLICY)
        self.state_machine.apply(Synced(), self.time.clock())
        self._shown: dict[NodeName, Node] = {}
        self.group_registry = NodeGroupRegistry(self.node_group_policy)
        providers = self.providers()
        self.autoscaler = Autoscaler(
            self.state_machine,
            providers,
            actor=an_actor(providers, self.group_registry, self.time.clock),
            group_registry=self.group_registry,
            planning=self.planning(),
            rules=lambda: ScaleUpRules(policy=self.policy, slack=self.slack),
            submit=self.effects.extend,
            write_status=_write_nothing,
            clocks=Clocks(clock=self.time.clock, wall=self.time.wall, steady=self.time.wall),
            counts=LoopCounts(),
            config=LoopConfig(),
            scale_down_loop=self.scale_down_loop(),
            consolidation_loop=self.consolidation_loop(),
            observed=self.observing(),
        )

    def planning(self) -> LoopPlanner:
        """Where plans are made."""
        return InlinePlanning(a_feed(self.state_machine))

    def scale_down_loop(self) -> ScaleDownLoop:
        """Who removes nodes; here nobody."""
        return switched_off(self.state_machine, self.group_registry)

    def consolidation_loop(self) -> ConsolidationLoop:
        """Who replaces nodes by cheaper ones; `consolidation` says how, by default not at all."""
        self.consolidating = a_consolidation_loop(self.state_machine, lambda: self.consolidation, self.time)
        return self.consolidating

    def observing(self) -> Callable[[], tuple[Observed, ...]]:
        """What tells of the pods that something was promised for; here nothing was."""
        return tuple

    def shown(self, node: Node) -> Node:
        """A Node as the API server has it, with what others wrote into it."""
        return node

    def providers(self) -> Sequence[NodeProvider]:
        return self.clouds

    def registered(self) -> Iterable[Node]:
        """The Nodes of the machines that run."""
        return [node for cloud in self.clouds for node in cloud.nodes()]

    # What happens.

    def restart(self) -> None:
        """The process is killed, and another one starts: it knows what the API server and the clouds tell."""
        pods = dict(self.pods)
        self._begin()
        for pod in pods.values():
            self.state_machine.apply(PodSeen(pod), self.time.clock())
        self.settle()

    def wants(self, *pods: Pod) -> None:
        for pod in pods:
            self.pods[pod.uid] = pod
            self.state_machine.apply(PodSeen(pod), self.time.clock())

    def wants_many(self, count: int, *, cpu: str = "4", tag: str = "p", priority: int = 0) -> None:
        """Pods, each of which takes a node of 4 CPUs for itself by default."""
        self.wants(*(a_pod(f"{tag}{number}", cpu=cpu, memory="1Gi", priority=priority) for number in range(count)))

    def finishes(self, uids: Iterable[str]) -> None:
        for uid in list(uids):
            pod = self.pods.pop(uid)
            self.state_machine.apply(PodGone(pod.uid, pod.key), self.time.clock())

    def settle(self) -> None:
        """The API server shows the cloud's Nodes, and the scheduler binds what fits."""
        now = {node.name: self.shown(node) for node in self.registered()}
        for name in self._shown.keys() - now.keys():
            self.state_machine.apply(NodeGone(name), self.time.clock())
            for pod in [pod for pod in self.pods.values() if pod.node == name]:  # its controller makes it again
                self.wants(structs.replace(pod, node=None, resource_version=pod.resource_version + 1))
        for name, node in now.items():
            before = self._shown.get(name)
            if before is not node and before != node:
                self.state_machine.apply(NodeSeen(node), self.time.clock())
        self._shown = now
        self._schedule()
        self._watch_limits()

    def _schedule(self) -> None:
        shunned = {node.name: any(taint.effect == "PreferNoSchedule" for taint in node.taints) for node in self._shown.values()}
        usable = [node for node in self._shown.values() if node.ready and not node.unschedulable]
        free = {node.name: list(node.allocatable) for node in sorted(usable, key=lambda node: shunned[node.name])}
        for pod in self.pods.values():
            if pod.node in free:
                _take(free[pod.node], pod.kind.requests)
        # Room only shrinks here: where pods of one kind have found none, later ones of that kind need not look.
        names, begin = list(free), dict[Kind, int]()
        for pod in [pod for pod in self.pods.values() if pod.node is None]:
            asked, at = pod.kind.requests, begin.get(pod.kind, 0)
            while at < len(names) and not (_fits(free[names[at]], asked) and _welcomes(self._shown[names[at]], pod)):
                at += 1
            begin[pod.kind] = at
            if at < len(names):
                _take(free[names[at]], asked)
                self.wants(structs.replace(pod, node=names[at], resource_version=pod.resource_version + 1))

    def _watch_limits(self) -> None:
        creating = sum(_creating(cloud, name) for cloud in self.clouds for name in cloud.pool_names())
        self.trace.most_in_creation = max(self.trace.most_in_creation, creating)
        self.trace.most_nodes = max(self.trace.most_nodes, sum(self.sizes().values()))

    async def loop(self) -> LoopRecord:
        """One loop, now; then what it asked for is there to be seen."""
        self.records.append(await self.autoscaler.run_once())
        self.settle()
        return self.records[-1]

    async def pass_time(self, seconds: float, *, every: float = 10.0) -> None:
        """Time goes by, with a loop each `every` seconds."""
        end = self.time.seconds + seconds
        while self.time.seconds < end:
            self.time.seconds = min(self.time.seconds + every, end)
            self.settle()
            await self.loop()

    # What is seen.

    def sizes(self) -> dict[str, int]:
        """Machines of each group that were asked for and are not given up."""
        return {name: len(cloud.pool(name).machines) for cloud in self.clouds for name in cloud.pool_names()}

    def pending(self) -> int:
        return sum(pod.node is None for pod in self.pods.values())

    def said(self, reason: str) -> list[Announce]:
        return [effect for effect in self.effects if isinstance(effect, Announce) and effect.reason == reason]

    def group(self, name: str) -> GroupName:
        return GroupName(name)


def _creating(cloud: Cloud, name: str) -> int:
    """What the limits are about: a machine that the cloud has given up is not being created."""
    return cloud.creating(name) - sum(machine.error is not None for machine in cloud.pool(name).machines)


def an_actor(
    providers: Sequence[NodeProvider],
    group_registry: NodeGroupRegistry,
    clock: Callable[[], Instant],
    leading: Callable[[], bool] = lambda: True,
) -> Actor:
    return Actor(providers, group_registry, clock=clock, leading=leading, timeout_seconds=LoopConfig().call_seconds)


async def _write_nothing(_record: LoopRecord) -> None:
    pass


def _fits(left: list[int], asked: Amounts) -> bool:
    return left[0] >= asked.cpu and left[1] >= asked.memory


def _welcomes(node: Node, pod: Pod) -> bool:
    has, asks = dict(node.scalars), pod.kind.pod_constraints
    return (
        all(not repels(taint) or tolerated(taint, pod.kind.tolerations, comparing=False) for taint in node.taints)
        and all(node.labels.get(key) == value for key, value in pod.kind.node_selector)
        and (asks is None or all(has.get(name, 0) >= amount for name, amount in asks.scalars))
    )


def _take(left: list[int], asked: Amounts) -> None:
    left[0] -= asked.cpu
    left[1] -= asked.memory
