"""What a loop looks at: the providers' groups, and the Nodes that belong to them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from slackwater.cluster.nodegroups.likeness import marks_of
from slackwater.cluster.nodegroups.policy import FleetPolicy
from slackwater.cluster.nodegroups.registry import Fleet
from slackwater.cluster.nodegroups.status import NodeSight
from slackwater.model.buffers import NO_ASKERS
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.controllers import Targets
from slackwater.model.equivalence import Toleration
from slackwater.model.eviction_facts import Ties
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import Instance, InstanceId, NodeGroup
from slackwater.model.nodetaints import TaintRules
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import NodeProvider, ProviderError
from slackwater.runtime.autoscaler.acting import Actor, Done
from slackwater.runtime.autoscaler.clocks import Clocks, Watch
from slackwater.runtime.auxiliary_intake import SurroundingsIntake
from slackwater.runtime.changes import ChangeCollector
from slackwater.runtime.state_machine import World

_log = structlog.get_logger(__name__)

#: Objects collected before other tasks get a turn: about 2 ms of work.
_SLICE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Senses:
    """Where a loop looks."""

    world: World
    collector: ChangeCollector
    surroundings: SurroundingsIntake
    providers: Sequence[NodeProvider]


class Sensor:
    """What a loop begins with: the fleet as it is now, and what changed in the world since the last one."""

    def __init__(self, senses: Senses, fleet: Fleet, actor: Actor, *, clocks: Clocks, timeout_seconds: float) -> None:
        self._senses = senses
        self._fleet = fleet
        self._actor = actor
        self._clocks = clocks
        self._timeout = timeout_seconds
        #: Pods of DaemonSets, as far as they are known.
        self.daemons: tuple[Pod, ...] = ()
        #: What wants placeholders like pods, as far as it is known.
        self.askers = NO_ASKERS
        #: How many pods controllers want.
        self.replicas: Targets = {}

    async def look(self, done: Done, watch: Watch) -> Mapping[str, str]:
        """What each group has; what is lost is cleaned up first, and then looked at again. Answers why providers are silent."""
        silent = await self._look(watch)
        chores = self._fleet.chores(self._clocks.clock())
        if chores:
            await self._actor.clean(chores, done)
            silent = {**silent, **await self._look(watch)}
        return silent

    async def _look(self, watch: Watch) -> Mapping[str, str]:
        groups, silent = await ask_providers(self._senses.providers, timeout_seconds=self._timeout)
        with watch:
            now = self._clocks.clock()
            seen = sights(groups, self._senses.world, self._fleet.policy, now=now, unix_now=self._clocks.steady())
            self._fleet.observe(groups, seen, now, silent=silent)
        return silent

    async def collect(self, watch: Watch) -> Changes:
        """What changed, a slice at a time; the last slice makes it whole."""
        collector = self._senses.collector
        nodes: list[NodeChange] = []
        pods: list[PodChange] = []
        while len(collector) > _SLICE:
            with watch:
                some = collector.some(_SLICE)
                nodes += some[0]
                pods += some[1]
            await anyio.lowlevel.checkpoint()
        with watch:
            around = self._senses.surroundings.changes()
            if around.daemons is not None:
                self.daemons = around.daemons
            if around.askers is not None:
                self.askers = around.askers
            if around.replicas is not None:
                self.replicas = around.replicas
            return collector.rest((nodes, pods), around)

    def begin_again(self) -> None:
        """The next changes hold everything."""
        self._senses.collector.begin_again()
        self._senses.surroundings.begin_again()


async def ask_providers(providers: Iterable[NodeProvider], *, timeout_seconds: float) -> tuple[list[NodeGroup], dict[str, str]]:
    """All groups of the providers that answered, and why the others did not, by the provider's name."""
    groups: list[NodeGroup] = []
    silent: dict[str, str] = {}

    async def ask(provider: NodeProvider) -> None:
        try:
            groups.extend(await provider.groups(timeout_seconds=timeout_seconds))
        except ProviderError as error:
            silent[provider.name] = str(error)
        except Exception as error:  # a bug of one provider must not keep the others from growing
            _log.exception("provider failed", provider=provider.name)
            silent[provider.name] = f"{type(error).__name__}: {error}"

    async with anyio.create_task_group() as group:
        for provider in providers:
            group.start_soon(ask, provider, name=f"groups of {provider.name}")
    return groups, silent


def sights(
    groups: Iterable[NodeGroup], world: World, policy: FleetPolicy, *, now: Instant, unix_now: UnixTime
) -> dict[InstanceId, NodeSight]:
    """The Nodes of the groups' instances, by the instances' ids."""
    by_id: dict[str, Node] = {node.provider_id: node for _, node in world.nodes if node.provider_id}
    found: dict[InstanceId, NodeSight] = {}
    for group in groups:
        promised = frozenset(name for name, amount in group.template.scalars if amount) if group.template else frozenset[str]()
        for instance in group.instances:
            node = _node_of(instance, world, by_id)
            if node is not None:
                born = None if node.created_at is None else Instant(now - max(0.0, unix_now - node.created_at))
                young = born is None or now - born <= policy.patience_of(group)
                found[instance.id] = _sight(node, promised, world, policy.taints, born=born, young=young)
    return found


def _node_of(instance: Instance, world: World, by_id: Mapping[str, Node]) -> Node | None:
    row = None if instance.node is None else world.nodes.row_of.get(instance.node)
    return by_id.get(instance.id) if row is None else world.nodes.by_row[row]


def _sight(
    node: Node, promised: Collection[str], world: World, taints: TaintRules, *, born: Instant | None, young: bool
) -> NodeSight:
    lacks = awaited(node, promised, taints)
    started = node.ready and not lacks
    tenants = _tenants(node.name, world) if young or not started else []
    return NodeSight(
        node.name,
        started,
        born,
        ready=node.ready,
        used=bool(tenants),
        taken=not all(any(_tolerates_anything(toleration) for toleration in pod.kind.tolerations) for pod in tenants),
        lacks=lacks,
        marks=marks_of(node, taints),
    )


def awaited(node: Node, promised: Collection[str], taints: TaintRules) -> tuple[str, ...]:
    """What a node has not got over yet: start-up taints, and resources that a new node of its group will have.

    A GPU's driver tells of it minutes after the node is ready; pods that want one must not be planned for a second node.
    """
    waits_for = [f"the end of taint {taint.key}" for taint in node.taints if taints.is_startup(taint.key)]
    there = {name for name, amount in node.scalars if amount}
    return (*waits_for, *sorted(name for name in promised if name not in there))


def _tenants(name: NodeName, world: World) -> list[Pod]:
    """Pods that did not come with the node."""
    standing = (world.pods.known(uid) for uid in world.claims.on_node(name))
    return [pod for pod in standing if pod is not None and not _came_along(pod.ties)]


def _came_along(ties: Ties) -> bool:
    return ties.daemon or ties.mirror or (ties.owner is not None and ties.owner.kind == "DaemonSet")


def _tolerates_anything(toleration: Toleration) -> bool:
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in {"", "NoSchedule"}
