"""Deletes the machines of drained nodes at their providers, with one call per group, and reports each result as an event."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal

import anyio

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.model.drains import RemoveNode
from slackwater.model.events import Event, NodeRemoved
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, Instance, InstanceId
from slackwater.ports.protocols import NodeProvider, ProviderError
from slackwater.runtime.state_machine import StateMachine

#: Seconds between two checks for machines to delete.
_LOOK_SECONDS: Final = 0.5


class MachineRemover:
    """Deletes machines of drained nodes while `leading` says that this replica is the leader. `tell` applies an event to the
    state machine."""

    def __init__(
        self,
        state_machine: StateMachine,
        group_registry: NodeGroupRegistry,
        providers: Sequence[NodeProvider],
        *,
        tell: Callable[[Event], None],
        leading: Callable[[], bool] = lambda: True,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._state_machine = state_machine
        self._group_registry = group_registry
        self._providers: Mapping[str, NodeProvider] = {provider.name: provider for provider in providers}
        self._tell = tell
        self._leading = leading
        self._timeout = timeout_seconds
        #: Requested by drains, and not requested from a provider yet.
        self._removals: list[RemoveNode] = []

    def take(self, removal: RemoveNode) -> None:
        """Queues a machine to delete."""
        self._removals.append(removal)

    async def run(self) -> None:
        """Deletes queued machines until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                if self._leading():
                    for name, removals in self._by_group():
                        group.start_soon(self._remove, name, removals, name=f"deletion of machines of {name}")
                await anyio.sleep(_LOOK_SECONDS)

    async def once(self) -> None:
        """Deletes the machines that are queued now, and waits for the results."""
        for name, removals in self._by_group():
            await self._remove(name, removals)

    def _by_group(self) -> list[tuple[GroupName, list[RemoveNode]]]:
        found = sorted(self._removals, key=lambda removal: removal.group)
        self._removals.clear()
        return [(name, list(some)) for name, some in groupby(found, key=lambda removal: removal.group)]

    async def _remove(self, name: GroupName, removals: list[RemoveNode]) -> None:
        outcome: Literal["deleted", "failed", "unknown"] = "deleted"
        detail = ""
        group_status = self._group_registry.group_status.get(name)
        provider = None if group_status is None else self._providers.get(group_status.group.provider)
        if group_status is None or provider is None:
            outcome, detail = "failed", f"node group {name} is not known"
        else:
            try:
                instances = [self._instance(removal.node, group_status.group.instances) for removal in removals]
                await provider.delete(name, instances, timeout_seconds=self._timeout)
            except ProviderError as error:
                outcome, detail = "unknown" if error.kind == "unknown" else "failed", str(error)
        for removal in removals:
            self._tell(NodeRemoved(removal.node, outcome, detail))

    def _instance(self, name: NodeName, instances: Sequence[Instance]) -> Instance:
        """The node's instance as the provider listed it; else made from the Node object."""
        row = self._state_machine.nodes.row_of.get(name)
        node = None if row is None else self._state_machine.nodes.by_row[row]
        id_ = InstanceId("" if node is None else node.provider_id)
        for instance in instances:
            if instance.node == name or (id_ and instance.id == id_):
                return instance
        return Instance(id=id_ or InstanceId(name), state="running", node=name)
