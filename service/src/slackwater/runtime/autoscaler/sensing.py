"""Observes node groups for the autoscaler's loop: lists them from the providers and matches their instances to Nodes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from slackwater.cluster.nodegroups.likeness import marks_of
from slackwater.cluster.nodegroups.policy import NodeGroupPolicy
from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeObservation
from slackwater.model.buffers import NO_HEADROOM_REQUESTS
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.controllers import Targets
from slackwater.model.equivalence import Toleration
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import Instance, InstanceId, NodeGroup
from slackwater.model.nodetaints import TaintRules
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import NodeProvider, ProviderError
from slackwater.runtime.autoscaler.acting import Actor, Done
from slackwater.runtime.autoscaler.clocks import Clocks, Watch
from slackwater.runtime.auxiliary_intake import AuxiliaryIntake
from slackwater.runtime.changes import ChangeCollector
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)

#: Objects collected before other tasks get a turn: about 2 ms of work.
_SLICE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """The sources that a loop observes."""

    state_machine: StateMachine
    collector: ChangeCollector
    auxiliary: AuxiliaryIntake
    providers: Sequence[NodeProvider]


class Sensor:
    """Updates the node group registry, and collects the changes of the cluster since the last loop."""

    def __init__(
        self, observer: Observer, group_registry: NodeGroupRegistry, actor: Actor, *, clocks: Clocks, timeout_seconds: float
    ) -> None:
        self._observer = observer
        self._group_registry = group_registry
        self._actor = actor
        self._clocks = clocks
        self._timeout = timeout_seconds
        #: One pod per known DaemonSet.
        self.daemons: tuple[Pod, ...] = ()
        #: The requests for placeholders like pods, as last collected.
        self.headroom_requests = NO_HEADROOM_REQUESTS
        #: The number of pods that each controller wants.
        self.replicas: Targets = {}

    async def look(self, done: Done, watch: Watch) -> Mapping[str, str]:
        """Updates the registry from the providers. If instances are lost, cleans them up and updates again. Returns the errors
        of providers that did not answer, by name."""
        silent = await self._look(watch)
        chores = self._group_registry.chores(self._clocks.clock())
        if chores:
            await self._actor.clean(chores, done)
            silent = {**silent, **await self._look(watch)}
        return silent

    async def _look(self, watch: Watch) -> Mapping[str, str]:
        groups, silent = await ask_providers(self._observer.providers, timeout_seconds=self._timeout)
        with watch:
            now = self._clocks.clock()
            seen = observations(
                groups, self._observer.state_machine, self._group_registry.policy, now=now, unix_now=self._clocks.steady()
            )
            self._group_registry.observe(groups, seen, now, silent=silent)
        return silent

    async def collect(self, watch: Watch) -> Changes:
        """The changes since the last call, collected in slices so that the event loop is not blocked; together one consistent
        state."""
        collector = self._observer.collector
        nodes: list[NodeChange] = []
        pods: list[PodChange] = []
        while len(collector) > _SLICE:
            with watch:
                some = collector.some(_SLICE)
                nodes += some[0]
                pods += some[1]
            await anyio.lowlevel.checkpoint()
        with watch:
            around = self._observer.auxiliary.changes()
            if around.daemons is not None:
                self.daemons = around.daemons
            if around.headroom_requests is not None:
                self.headroom_requests = around.headroom_requests
            if around.replicas is not None:
                self.replicas = around.replicas
            return collector.rest((nodes, pods), around)

    def begin_again(self) -> None:
        """Makes the next `collect` return the whole cluster."""
        self._observer.collector.begin_again()
        self._observer.auxiliary.begin_again()


async def ask_providers(providers: Iterable[NodeProvider], *, timeout_seconds: float) -> tuple[list[NodeGroup], dict[str, str]]:
    """All groups of the providers that answered, and the errors of the others by provider name."""
    groups: list[NodeGroup] = []
    silent: dict[str, str] = {}

    async def ask(provider: NodeProvider) -> None:
        try:
            groups.extend(await provider.groups(timeout_seconds=timeout_seconds))
        except ProviderError as error:
            silent[provider.name] = str(error)
        except Exception as error:  # a bug of one provider must not block the groups of others
            _log.exception("provider failed", provider=provider.name)
            silent[provider.name] = f"{type(error).__name__}: {error}"

    async with anyio.create_task_group() as group:
        for provider in providers:
            group.start_soon(ask, provider, name=f"groups of {provider.name}")
    return groups, silent


def observations(
    groups: Iterable[NodeGroup], state_machine: StateMachine, policy: NodeGroupPolicy, *, now: Instant, unix_now: UnixTime
) -> dict[InstanceId, NodeObservation]:
    """The observed Nodes of the groups' instances, by instance ID. Instances without a Node are absent."""
    by_id: dict[str, Node] = {node.provider_id: node for _, node in state_machine.nodes if node.provider_id}
    found: dict[InstanceId, NodeObservation] = {}
    for group in groups:
        promised = frozenset(name for name, amount in group.template.scalars if amount) if group.template else frozenset[str]()
        for instance in group.instances:
            node = _node_of(instance, state_machine, by_id)
            if node is not None:
                born = None if node.created_at is None else Instant(now - max(0.0, unix_now - node.created_at))
                young = born is None or now - born <= policy.patience_of(group)
                found[instance.id] = _observation(node, promised, state_machine, policy.taints, born=born, young=young)
    return found


def _node_of(instance: Instance, state_machine: StateMachine, by_id: Mapping[str, Node]) -> Node | None:
    row = None if instance.node is None else state_machine.nodes.row_of.get(instance.node)
    return by_id.get(instance.id) if row is None else state_machine.nodes.by_row[row]


def _observation(
    node: Node, promised: Collection[str], state_machine: StateMachine, taints: TaintRules, *, born: Instant | None, young: bool
) -> NodeObservation:
    lacks = awaited(node, promised, taints)
    started = node.ready and not lacks
    running_pods = _running_pods(node.name, state_machine) if young or not started else []
    return NodeObservation(
        node.name,
        started,
        born,
        ready=node.ready,
        used=bool(running_pods),
        taken=not all(any(_tolerates_anything(toleration) for toleration in pod.kind.tolerations) for pod in running_pods),
        lacks=lacks,
        marks=marks_of(node, taints),
    )


def awaited(node: Node, promised: Collection[str], taints: TaintRules) -> tuple[str, ...]:
    """What a node still lacks before it counts as started: the end of startup taints, and resources of its group's template.

    A GPU driver reports the GPU minutes after the node is ready. Without this check a second node would be planned for the pods
    that want the GPU.
    """
    waits_for = [f"the end of taint {taint.key}" for taint in node.taints if taints.is_startup(taint.key)]
    there = {name for name, amount in node.scalars if amount}
    return (*waits_for, *sorted(name for name in promised if name not in there))


def _running_pods(name: NodeName, state_machine: StateMachine) -> list[Pod]:
    """The pods on the node other than DaemonSet pods and mirror pods."""
    standing = (state_machine.pods.known(uid) for uid in state_machine.reservations.on_node(name))
    return [pod for pod in standing if pod is not None and not _came_along(pod.eviction_facts)]


def _came_along(eviction_facts: EvictionFacts) -> bool:
    return (
        eviction_facts.daemon
        or eviction_facts.mirror_pod
        or (eviction_facts.owner is not None and eviction_facts.owner.kind == "DaemonSet")
    )


def _tolerates_anything(toleration: Toleration) -> bool:
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in {"", "NoSchedule"}
