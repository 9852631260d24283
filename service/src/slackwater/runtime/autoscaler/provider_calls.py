"""Calls the cloud providers for the autoscaler: changes the sizes of node groups, and deletes machines.

- `Actor`: makes the calls of one loop, and reports the results to the node group registry and in the loop's record.
- `MachineRemover`: deletes the machines of drained nodes, with one call per group, and reports each result as an event.

Invariant: every call has a deadline, and no call is made unless this replica leads.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal, TypeVar

import anyio

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import Delete, GroupCleanup, Grow, LostInstance, LowerTarget
from slackwater.model.effects import RemoveNode
from slackwater.model.events import Event, NodeRemoved
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import GroupName, Instance, InstanceId
from slackwater.ports.protocols import NodeProvider, ProviderError
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.state_machine import StateMachine

T = TypeVar("T")

#: The most concurrent provider calls.
_WIDTH: Final = 8


class Actor:
    """Calls the providers. Skips each call if `leading` says that this replica is no longer the leader."""

    def __init__(
        self,
        providers: Sequence[NodeProvider],
        group_registry: NodeGroupRegistry,
        *,
        clock: Callable[[], Instant],
        leading: Callable[[], bool],
        timeout_seconds: float,
    ) -> None:
        self._providers: Mapping[str, NodeProvider] = {provider.name: provider for provider in providers}
        self._group_registry = group_registry
        self._clock = clock
        self._leading = leading
        self._timeout = timeout_seconds

    async def clean(self, due_cleanups: Iterable[GroupCleanup], record: LoopRecord) -> None:
        """Deletes lost instances, and lowers the targets of groups by the number of requested nodes that never came."""
        await self._each(due_cleanups, lambda cleanup: self._clean_one(cleanup, record))

    async def grow(self, scale_ups: Iterable[Grow], record: LoopRecord) -> None:
        """Requests the scale-ups from the providers. Starts them in the given order (the most important first), and runs a few
        at a time."""
        await self._each(scale_ups, lambda scale_up: self._grow(scale_up, record))

    async def _clean_one(self, cleanup: GroupCleanup, record: LoopRecord) -> None:
        provider = self._providers[cleanup.provider]
        try:
            match cleanup:
                case Delete():
                    await self._delete(cleanup, cleanup.lost, record)
                case LowerTarget():
                    await provider.lower(cleanup.group, seen=cleanup.seen, to=cleanup.to, timeout_seconds=self._timeout)
        except ProviderError as error:
            record.problems.append(str(error))

    async def _delete(self, cleanup: Delete, lost: Sequence[LostInstance], record: LoopRecord) -> None:
        """Deletes the machines with one call. If the provider refuses it, tries each alone, for as long as one call may take:
        one machine that cannot go must not keep the others. Raises the last error."""
        try:
            await self._providers[cleanup.provider].delete(
                cleanup.group,
                [problem.instance for problem in lost],
                timeout_seconds=self._timeout,
                replace=cleanup.replace,
            )
        except ProviderError as error:
            if len(lost) == 1 and error.kind != "unknown":
                self._group_registry.lost_not_deleted(cleanup.group, lost[0].instance.id, error.detail, self._clock())
            if len(lost) == 1 or error.kind == "unknown":
                raise
            refused = error
        else:
            record.deleted[cleanup.group] += len(lost)
            record.failed.update(problem.code for problem in lost)
            return
        with anyio.move_on_after(self._timeout):
            for problem in lost:
                try:
                    await self._delete(cleanup, [problem], record)
                except ProviderError as error:
                    refused = error
        raise refused

    async def _grow(self, scale_up: Grow, record: LoopRecord) -> None:
        group_registry = self._group_registry
        group_registry.grow_begun(scale_up, self._clock())
        try:
            await self._providers[scale_up.provider].grow(
                scale_up.group, seen=scale_up.seen, to=scale_up.to, timeout_seconds=self._timeout
            )
        except ProviderError as error:
            group_registry.grow_ended(scale_up, error.kind, error.detail, self._clock())
            record.asked.append((scale_up, error))
            record.problems.append(str(error))
        else:
            group_registry.grow_ended(scale_up, None, "", self._clock())
            record.asked.append((scale_up, None))

    async def _each(self, items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        limiter = anyio.CapacityLimiter(_WIDTH)

        async def one(item: T) -> None:
            async with limiter:
                if self._leading():
                    await do(item)

        async with anyio.create_task_group() as group:
            for item in items:
                group.start_soon(one, item)


#: Seconds between two checks for machines to delete.
_LOOK_SECONDS: Final = 0.5


class MachineRemover:
    """Deletes machines of drained nodes while `leading` says that this replica is the leader. `on_event` applies an event to
    the state machine."""

    def __init__(
        self,
        state_machine: StateMachine,
        group_registry: NodeGroupRegistry,
        providers: Sequence[NodeProvider],
        *,
        on_event: Callable[[Event], None],
        leading: Callable[[], bool] = lambda: True,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._state_machine = state_machine
        self._group_registry = group_registry
        self._providers: Mapping[str, NodeProvider] = {provider.name: provider for provider in providers}
        self._on_event = on_event
        self._leading = leading
        self._timeout = timeout_seconds
        #: Removals that drains have requested and that no provider has been asked for yet.
        self._removals: list[RemoveNode] = []

    def take(self, removal: RemoveNode) -> None:
        """Queues the removal; `run` asks the provider."""
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
            self._on_event(NodeRemoved(removal.node, outcome, detail))

    def _instance(self, name: NodeName, instances: Sequence[Instance]) -> Instance:
        """The node's instance as the provider listed it. If it did not list one, an instance with the Node's provider ID."""
        node = self._state_machine.state.nodes.get(name)
        id_ = InstanceId("" if node is None else node.provider_id)
        for instance in instances:
            if instance.node == name or (id_ and instance.id == id_):
                return instance
        return Instance(id=id_ or InstanceId(name), state="running", node=name)
