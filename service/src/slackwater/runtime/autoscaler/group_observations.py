"""Observes node groups for the autoscaler's loop: lists them from the providers and matches their instances to Nodes."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import anyio
import structlog

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import NodeGroupPolicy, NodeObservation, marks_of
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.node_taints import TaintRules
from slackwater.model.nodegroups import Instance, InstanceId, NodeGroup
from slackwater.model.objects import Node, is_daemon
from slackwater.ports.clock import Clocks, Watch
from slackwater.ports.protocols import GroupReader, ProviderError
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)


class GroupObserver:
    """Updates the node group registry from the providers and the cluster state."""

    def __init__(
        self,
        state_machine: StateMachine,
        providers: Sequence[GroupReader],
        group_registry: NodeGroupRegistry,
        *,
        clocks: Clocks,
        timeout_seconds: float,
    ) -> None:
        self._state_machine = state_machine
        self._providers = providers
        self._group_registry = group_registry
        self._clocks = clocks
        self._timeout = timeout_seconds
        #: What was logged of groups that cannot be read: once for as long as they cannot.
        self._logged: frozenset[str] = frozenset()

    async def observe(self, watch: Watch) -> Mapping[str, str]:
        """Updates the registry. Returns the errors of providers that did not answer, by the provider's name."""
        groups, silent = await ask_providers(self._providers, timeout_seconds=self._timeout)
        with watch:
            now, registry = self._clocks.clock(), self._group_registry
            seen = observations(groups, self._state_machine, registry.policy, now=now, unix_now=self._clocks.steady())
            registry.observe(groups, seen, now, silent=silent)
        unreadable = frozenset(group.unreadable for group in groups if group.unreadable)
        for text in sorted(unreadable - self._logged):
            _log.warning("a node group is left out", problem=text)
        self._logged = unreadable | self._logged if silent else unreadable
        return silent


async def ask_providers(providers: Iterable[GroupReader], *, timeout_seconds: float) -> tuple[list[NodeGroup], dict[str, str]]:
    """All groups of the providers that answered, and the errors of the others by provider name."""
    groups: list[NodeGroup] = []
    silent: dict[str, str] = {}

    async def ask(provider: GroupReader) -> None:
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
    by_id: dict[str, Node] = {node.provider_id: node for _, node in state_machine.state.nodes if node.provider_id}
    found: dict[InstanceId, NodeObservation] = {}
    for group in groups:
        expected = frozenset(name for name, amount in group.template.scalars if amount) if group.template else frozenset[str]()
        for instance in group.instances:
            node = _node_of(instance, state_machine, by_id)
            if node is not None:
                born = None if node.created_at is None else Instant(now - max(0.0, unix_now - node.created_at))
                young = born is None or now - born <= policy.provision_timeout_of(group)
                found[instance.id] = _observation(node, expected, state_machine, policy.taints, born=born, young=young)
    return found


def _node_of(instance: Instance, state_machine: StateMachine, by_id: Mapping[str, Node]) -> Node | None:
    row = None if instance.node is None else state_machine.state.nodes.row_of.get(instance.node)
    return by_id.get(instance.id) if row is None else state_machine.state.nodes.by_row[row]


def _observation(
    node: Node, expected: Collection[str], state_machine: StateMachine, taints: TaintRules, *, born: Instant | None, young: bool
) -> NodeObservation:
    lacks = awaited(node, expected, taints)
    started = node.ready and not lacks
    looked_at = young or not started
    uids = state_machine.state.reservations.on_node(node.name) if looked_at else ()
    known = [pod for uid in uids if (pod := state_machine.state.pods.known(uid)) is not None]
    pods_there = [pod for pod in known if not is_daemon(pod)]
    return NodeObservation(
        node.name,
        started,
        born,
        ready=node.ready,
        used=bool(pods_there),
        taken=not all(pod.kind.tolerates_all for pod in pods_there),
        lacks=lacks,
        marks=marks_of(node, taints),
        node=node,
        daemons=tuple(pod for pod in known if is_daemon(pod) and not pod.deleting and not pod.ended) if looked_at else None,
    )


def awaited(node: Node, expected: Collection[str], taints: TaintRules) -> tuple[str, ...]:
    """What a node still lacks before it counts as started, as texts: the end of start-up taints, and the extended resources
    that its group's template has (`expected`).

    A GPU driver reports the GPU minutes after the node is ready. Without this check a second node would be planned for the pods
    that want the GPU.
    """
    waits_for = [f"the end of taint {taint.key}" for taint in node.taints if taints.is_startup(taint.key)]
    there = {name for name, amount in node.scalars if amount}
    return (*waits_for, *sorted(name for name in expected if name not in there))
