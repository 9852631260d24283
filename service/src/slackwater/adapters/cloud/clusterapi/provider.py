"""A `NodeProvider` for Cluster API: sets sizes by the scale subresource, with the resourceVersion that was read.

`delete` marks machines and lowers the group's size by their number, since Cluster API's controller deletes marked machines
first. If fewer machines exist than the size says, the controller would delete too few of them. So this module also deletes the
marked machines itself. `inventory.still_to_lower` handles marks of an earlier call whose answer was lost.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from slackwater.adapters.api_calls import ApiCalls, ApiReads
from slackwater.adapters.cloud.apiserver import bounded, check_growth, check_lowering, each, repeated
from slackwater.adapters.cloud.clusterapi import annotations, inventory
from slackwater.adapters.cloud.clusterapi.annotations import Limits
from slackwater.adapters.cloud.clusterapi.inventory import Holdings
from slackwater.adapters.cloud.clusterapi.objects import (
    NOTHING_SAID,
    PLURALS,
    ClusterApiObjects,
    ClusterApiReads,
    GroupId,
    GroupWire,
    Infrastructure,
    InfrastructureTemplates,
    Kind,
    MachineWire,
    read_group_id,
)
from slackwater.adapters.cloud.read_groups import ProblemLog, unreadable_group
from slackwater.model.nodegroups import NO_OPTIONS, GroupName, Instance, InstanceId, NodeGroup, choice_of_provider
from slackwater.model.objects import read_owner
from slackwater.ports.protocols import ProviderError
from slackwater_protocol.names import CLUSTER_API_GROUP

_ROLLING: Final = "it rolls out: which machines go is not decided here"

_CLUSTER_NAME: Final = f"{CLUSTER_API_GROUP}/cluster-name"
#: Machines that are marked, unmarked or deleted at the same time.
_WIDTH: Final = 8
#: Of a group whose limits cannot be read.
_NO_LIMITS: Final = Limits(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """Selects which of the annotated objects are managed groups; the defaults select all."""

    namespace: str | None = None
    cluster_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def takes(self, item: GroupWire) -> bool:
        labels = item.metadata.labels or {}
        cluster = item.spec.cluster_name or labels.get(_CLUSTER_NAME, "")
        return self.cluster_name in ("", cluster) and self.labels.items() <= labels.items()


@dataclass(frozen=True, slots=True)
class _GroupState:
    """A managed group as it was read. A write of the group's size has the resourceVersion that was read as precondition.
    `problem`: why it cannot be read; "" if it can."""

    id: GroupId
    item: GroupWire
    limits: Limits
    problem: str = ""

    @property
    def group(self) -> GroupName:
        return self.id.group

    @property
    def replicas(self) -> int:
        return self.item.spec.replicas


_Marks = list[MachineWire]


class ClusterApiGroups:
    """Implements `ports.protocols.GroupReader` on the management cluster's API server."""

    name: Final = "clusterapi"

    def __init__(self, api: ApiReads, wanted: GroupSelection) -> None:
        self._wanted = wanted
        self._reads = ClusterApiReads(api, namespace=wanted.namespace)
        self._infrastructure = InfrastructureTemplates(api)
        self._problems = ProblemLog()

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with bounded(None, timeout_seconds):
            found = [group_state async for group_state in self._all()]
            held = await self._holdings([group_state.item for group_state in found])
            self._infrastructure.keep([group_state.item for group_state in found])
            shown = [await self._shown(group_state, held[group_state.item.metadata.uid]) for group_state in found]
        return sorted(shown, key=lambda group: group.name)

    async def _all(self) -> AsyncIterator[_GroupState]:
        for kind in PLURALS:
            async for item in self._reads.groups(kind):
                group_state = self._ours(kind, item)
                if group_state is not None:
                    yield group_state

    async def _read(self, group: GroupName) -> _GroupState:
        id_ = read_group_id(group)
        item = None if id_ is None or self._wanted.namespace not in (None, id_.namespace) else await self._reads.group(id_)
        group_state = None if item is None or id_ is None else self._ours(id_.kind, item)
        if group_state is None:
            raise ProviderError("gone", group, "no such object, or it is not annotated to be scaled")
        if group_state.problem:
            raise ProviderError("other", group, group_state.problem)
        return group_state

    def _ours(self, kind: Kind, item: GroupWire) -> _GroupState | None:
        """Returns the group's state; None if the group is not managed."""
        if not self._wanted.takes(item) or (kind == "MachineSet" and inventory.is_owned(item)):
            return None
        id_ = GroupId(kind, item.metadata.namespace, item.metadata.name)
        try:
            limits = annotations.limits(item.metadata.annotations or {})
        except ValueError as error:
            return _GroupState(id_, item, _NO_LIMITS, problem=str(error))
        return None if limits is None else _GroupState(id_, item, limits, item.unreadable)

    async def _held(self, group_state: _GroupState) -> Holdings:
        held = (await self._holdings([group_state.item], group_state.id.namespace))[group_state.item.metadata.uid]
        if problem := inventory.problem(held):
            raise ProviderError("other", group_state.group, problem)
        return held

    async def _holdings(self, groups: Sequence[GroupWire], namespace: str | None = None) -> dict[str, Holdings]:
        sets = [item async for item in self._reads.groups("MachineSet", namespace)]
        machines = [machine async for machine in self._reads.machines(namespace)]
        return inventory.holdings(groups, sets, machines)

    async def _shown(self, group_state: _GroupState, held: Holdings) -> NodeGroup:
        item, said = group_state.item, group_state.item.metadata.annotations or {}
        if problem := group_state.problem or inventory.problem(held):
            return self._unreadable(group_state, held, problem)
        infrastructure = await self._said_by_infrastructure(group_state)
        return NodeGroup(
            name=group_state.group,
            provider=self.name,
            min_size=group_state.limits.min_size,
            max_size=group_state.limits.max_size,
            target=group_state.replicas,
            instances=inventory.instances(item, held),
            template=self._problems.read(group_state.group, lambda: annotations.template(item, infrastructure), None),
            options=self._problems.read(group_state.group, lambda: annotations.options(said), NO_OPTIONS),
            undeletable=_ROLLING if held.rolling else "",
            choice=choice_of_provider(self.name, group_state.group),
            owned_by=read_owner(said),
        )

    def _unreadable(self, group_state: _GroupState, held: Holdings, problem: str) -> NodeGroup:
        instances = () if inventory.problem(held) else inventory.instances(group_state.item, held)
        return unreadable_group(self.name, group_state.group, f"{group_state.group}: {problem}", instances)

    async def _said_by_infrastructure(self, group_state: _GroupState) -> Infrastructure:
        try:
            return await self._infrastructure.of(group_state.item)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._problems.note(group_state.group, f"its infrastructure template cannot be read: {error}")
            return NOTHING_SAID


class ClusterApiProvider(ClusterApiGroups):
    """Implements `ports.protocols.NodeProvider` on the management cluster's API server.

    `stamp` returns the present time as RFC 3339.
    """

    def __init__(self, api: ApiCalls, wanted: GroupSelection, *, stamp: Callable[[], str]) -> None:
        super().__init__(api, wanted)
        self._objects = ClusterApiObjects(api, namespace=wanted.namespace)
        self._stamp = stamp

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            await repeated(lambda: self._grown(group, seen=seen, to=to))

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._marks(group) as marks:
                await repeated(lambda: self._lowered(group, marks, seen=seen, to=to))

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        ids = frozenset(instance.id for instance in instances)
        with bounded(group, timeout_seconds):
            async with self._marks(group) as marks:
                await repeated(lambda: self._deleted(group, marks, ids, replace=replace))

    # Each of these methods is one attempt for `repeated`. It returns None, and leaves the group's size alone, if the group has
    # changed since the attempt read it.

    async def _grown(self, group: GroupName, *, seen: int, to: int) -> Literal[True] | None:
        group_state = await self._read(group)
        check_growth(group, target=group_state.replicas, seen=seen, to=to, most=group_state.limits.max_size)
        return await self._objects.scale(group_state.id, group_state.item, to=to)

    async def _lowered(self, group: GroupName, marks: _Marks, *, seen: int, to: int) -> Literal[True] | None:
        group_state = await self._read(group)
        check_lowering(group, target=group_state.replicas, seen=seen, to=to, least=group_state.limits.min_size)
        held = await self._held(group_state)
        running = sum(instance.state == "running" for instance in inventory.instances(group_state.item, held))
        if to < running:
            raise ProviderError("conflict", group_state.group, f"{running} machines have nodes, want at most {to}")
        return await self._scaled_without(group_state, inventory.given_up(held, to), marks, to=to)

    async def _deleted(
        self, group: GroupName, marks: _Marks, ids: frozenset[InstanceId], *, replace: bool
    ) -> Literal[True] | None:
        group_state = await self._read(group)
        held = await self._held(group_state)
        if group_state.item.spec.provider_id_list is not None and not held.machines:
            return await self._scale_to_zero(group_state, ids)
        known = inventory.named(held, ids)
        if len(known) < len(ids):
            await self._check_nobody_elses(group_state, ids)
        to_delete = [machine for machine in known if machine.metadata.deletion_timestamp is None]
        by = 0 if replace else inventory.still_to_lower(to_delete, held, group_state.replicas)
        to = group_state.replicas - by
        if by and to < group_state.limits.min_size:
            wanted = f"want at least {group_state.limits.min_size}"
            raise ProviderError("limit", group_state.group, f"{to} nodes would be left, {wanted}")
        if to_delete and held.rolling:
            raise ProviderError("other", group_state.group, _ROLLING)
        if by and not await self._scaled_without(group_state, to_delete, marks, to=to):
            return None
        if len(held.alive) - to < len(to_delete):  # Cluster API's controller would delete only some of them
            await each(
                group_state.group, to_delete, lambda machine: self._objects.delete(group_state.group, machine), width=_WIDTH
            )
        return True

    async def _scale_to_zero(self, group_state: _GroupState, ids: frozenset[InstanceId]) -> Literal[True] | None:
        """Scales a MachinePool without Machines to 0. Such a pool cannot delete a chosen part of its instances."""
        there = frozenset(InstanceId(id_) for id_ in group_state.item.spec.provider_id_list or ())
        if not there & ids:
            await self._check_nobody_elses(group_state, ids)
            return True
        if not there <= ids:
            raise ProviderError(
                "other", group_state.group, "a MachinePool without Machines does not let us choose the instances to delete"
            )
        if group_state.limits.min_size > 0:
            raise ProviderError(
                "limit", group_state.group, f"0 nodes would be left, want at least {group_state.limits.min_size}"
            )
        return await self._objects.scale(group_state.id, group_state.item, to=0)

    async def _scaled_without(
        self, group_state: _GroupState, to_delete: Sequence[MachineWire], marks: _Marks, *, to: int
    ) -> Literal[True] | None:
        fresh = [machine for machine in to_delete if not inventory.is_marked(machine)]
        marks += fresh
        await each(
            group_state.group,
            fresh,
            lambda machine: self._objects.mark(group_state.group, machine, self._stamp()),
            width=_WIDTH,
        )
        return await self._objects.scale(group_state.id, group_state.item, to=to)

    @asynccontextmanager
    async def _marks(self, group: GroupName) -> AsyncIterator[_Marks]:
        """A context that yields a list, to which its body adds each machine that it marks.

        If the body certainly failed, the marks are removed again. A machine that stays marked would be deleted when another
        client lowers the size.
        """
        marks: _Marks = []
        try:
            yield marks
        except ProviderError as error:
            if error.kind != "unknown":
                await each(group, marks, lambda machine: self._objects.mark(group, machine, None), width=_WIDTH)
            raise

    async def _check_nobody_elses(self, group_state: _GroupState, ids: frozenset[InstanceId]) -> None:
        """Raises a `conflict` if one of the instances is in another group. An instance in no group is gone: no error."""
        others = [other.item async for other in self._all() if other.item.metadata.uid != group_state.item.metadata.uid]
        held = await self._holdings(others)
        for other in others:
            theirs = {instance.id for instance in inventory.instances(other, held[other.metadata.uid])}
            if strangers := ids & theirs:
                detail = f"{sorted(strangers)} are of {other.metadata.namespace}/{other.metadata.name}"
                raise ProviderError("conflict", group_state.group, detail)
