"""A `NodeProvider` over Node objects: reads the members and targets of kwok groups, and changes them.

A group's target is the number of its Nodes, and of machines on the record that have no Node yet. `grow` and `lower` change only
the record; `delete` changes the record before it deletes Nodes. `arrivals` creates the Nodes of machines on the record.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import anyio

from slackwater.adapters.api_calls import ApiCalls, ApiReads
from slackwater.adapters.cloud.apiserver import bounded, check_growth, check_lowering, each, repeated
from slackwater.adapters.cloud.kwok import nodes
from slackwater.adapters.cloud.kwok.node_creation import Arrivals
from slackwater.adapters.cloud.kwok.nodes import (
    ID_PREFIX,
    KwokGroup,
    Machines,
    Member,
    Members,
    Page,
    Record,
    RecordReader,
    timeline_of,
)
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, Instance, InstanceError, InstanceId, NodeGroup, choice_of_provider
from slackwater.ports.protocols import ProviderError

_OUT_OF_STOCK: Final = InstanceError(kind="out-of-resources", code="OUT_OF_STOCK", message="no more machines are to be had")
_BOOT_FAILED: Final = InstanceError(kind="other", code="BOOT_FAILED", message="the machine did not start")
#: The name of the ConfigMap with the record (see `nodes.Record`).
CONFIG_MAP: Final = "slackwater-kwok"
#: Nodes that one call deletes at the same time.
_WIDTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupState:
    """The state of a group as it was read: its record and its Nodes."""

    group: KwokGroup
    page: Page
    members: Members

    @property
    def machines(self) -> Machines:
        return self.page.of(self.group.name)

    @property
    def coming(self) -> dict[NodeName, int]:
        """The machines on the record that have no Node: numbers by Node name."""
        named = {self.group.node_name(number): number for number in self.machines.asked_at}
        known = self.members.there.keys() | self.members.leaving.keys()
        return {name: number for name, number in named.items() if name not in known}

    @property
    def target(self) -> int:
        return len(self.members.there) + len(self.coming)


class KwokGroups:
    """Implements `ports.protocols.GroupReader`. `now` returns Unix seconds, not monotonic time, since the record outlives the
    process."""

    name: Final = "kwok"

    def __init__(
        self, api: ApiReads, groups: Iterable[KwokGroup], *, now: Callable[[], float], seed: int, namespace: str
    ) -> None:
        self._reads = api
        self._groups: Mapping[GroupName, KwokGroup] = {group.name: group for group in groups}
        self._pages = RecordReader(api, namespace=namespace, name=CONFIG_MAP)
        self._now = now
        self._seed = seed

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with bounded(None, timeout_seconds):
            page = await self._pages.read()
            found = await nodes.members(self._reads)
        return [
            self._shown(_GroupState(group=self._groups[name], page=page, members=found.get(name, Members())))
            for name in sorted(self._groups)
        ]

    def _errors(self, group_state: _GroupState) -> dict[NodeName, InstanceError | None]:
        """The errors of machines without a Node, in the order of their requests; None for a machine without an error."""
        simulated_failures, left = group_state.group.simulated_failures, None
        if simulated_failures.stock is not None:
            left = simulated_failures.stock - len(group_state.members.there)
        errors: dict[NodeName, InstanceError | None] = {}
        for place, (name, number) in enumerate(sorted(group_state.coming.items(), key=lambda entry: entry[1])):
            life = timeline_of(simulated_failures, self._seed, name)
            age = self._now() - group_state.machines.asked_at[number]
            failed = life.ending == "failed" and age >= life.appears_after
            if left is not None and place >= left:
                errors[name] = _OUT_OF_STOCK
            else:
                errors[name] = _BOOT_FAILED if failed else None
        return errors

    def _shown(self, group_state: _GroupState) -> NodeGroup:
        group = group_state.group
        return NodeGroup(
            name=group.name,
            provider=self.name,
            min_size=group.min_size,
            max_size=group.max_size,
            target=group_state.target,
            instances=tuple(sorted(self._instances(group_state), key=lambda instance: instance.id)),
            template=group.template,
            choice=choice_of_provider(self.name, group.name),
        )

    def _instances(self, group_state: _GroupState) -> Iterator[Instance]:
        for member in group_state.members.there.values():
            yield Instance(id=member.id, state="running", node=member.name)
        for member in group_state.members.leaving.values():
            yield Instance(id=member.id, state="deleting", node=member.name)
        for name, error in self._errors(group_state).items():
            life = timeline_of(group_state.group.simulated_failures, self._seed, name)
            age = self._now() - group_state.machines.asked_at[group_state.coming[name]]
            runs = error is None and life.ending == "silent" and age >= life.appears_after
            yield Instance(id=InstanceId(ID_PREFIX + name), state="running" if runs else "creating", error=error)


class KwokProvider(KwokGroups):
    """Implements `ports.protocols.NodeProvider`. The caller runs `arrivals.run` as a task; several processes may do so."""

    def __init__(
        self,
        api: ApiCalls,
        groups: Iterable[KwokGroup],
        *,
        now: Callable[[], float],
        seed: int,
        namespace: str,
    ) -> None:
        super().__init__(api, groups, now=now, seed=seed, namespace=namespace)
        self._api = api
        self._record = Record(api, namespace=namespace, name=CONFIG_MAP)
        # Held by arrivals, `lower` and `delete`, so that no machine arrives between their reading and writing of the record.
        self._lock = anyio.Lock()
        self.arrivals: Final = Arrivals(api, self._groups, self._record, lock=self._lock, now=now, seed=seed)

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._record.alone:
                await repeated(lambda: self._grown(group, seen=seen, to=to))
            self.arrivals.wake()

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._lock, self._record.alone:
                await repeated(lambda: self._lowered(group, seen=seen, to=to))

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        with bounded(group, timeout_seconds):
            async with self._lock:
                ids = frozenset(instance.id for instance in instances)
                async with self._record.alone:
                    to_delete = await repeated(lambda: self._removed_from_record(group, ids, replace=replace))
                await each(group, to_delete, lambda member: nodes.delete(self._api, group, member), width=_WIDTH)
                if replace:
                    self.arrivals.wake()

    # Each of these attempts returns None, without an effect, if another client has written to the record since it was read.

    async def _grown(self, group: GroupName, *, seen: int, to: int) -> Literal[True] | None:
        group_state = await self._group_state(group)
        known, quota = group_state.group, group_state.group.simulated_failures.quota
        check_growth(group, target=group_state.target, seen=seen, to=to, most=known.max_size)
        if quota is not None and to > quota:
            raise ProviderError("quota", known.name, f"got {to} nodes, the quota is {quota}")
        machines = _after_all(group_state).with_more(to - seen, self._now())
        return await self._record.write(group_state.page, group, machines)

    async def _lowered(self, group: GroupName, *, seen: int, to: int) -> Literal[True] | None:
        group_state = await self._group_state(group)
        check_lowering(group, target=group_state.target, seen=seen, to=to, least=group_state.group.min_size)
        machines = group_state.machines.without(self._given_up(group_state, seen - to))
        return await self._record.write(group_state.page, group, machines)

    async def _removed_from_record(
        self, group: GroupName, ids: frozenset[InstanceId], *, replace: bool
    ) -> Sequence[Member] | None:
        """Removes the machines from the record, and with `replace` adds as many; returns their Nodes, which the caller deletes,
        or None after a conflict."""
        group_state = await self._group_state(group)
        await self._check_ours(group_state, ids)
        there = [member for member in group_state.members.there.values() if member.id in ids]
        coming = [name for name in group_state.coming if ID_PREFIX + name in ids]
        gone = len(there) + len(coming)
        left = group_state.target if replace else group_state.target - gone
        if gone and left < group_state.group.min_size:
            wanted = f"want at least {group_state.group.min_size}"
            raise ProviderError("limit", group, f"{left} nodes would be left, {wanted}")
        numbers = {group_state.group.number_of(name) for name in (*coming, *(member.name for member in there))}
        on_record = group_state.machines.asked_at.keys() & numbers
        machines = group_state.machines.without(on_record)
        if replace and gone:
            machines = _after_all(group_state).without(on_record).with_more(gone, self._now())
        if machines == group_state.machines or await self._record.write(group_state.page, group, machines):
            return there
        return None

    async def _check_ours(self, group_state: _GroupState, ids: frozenset[InstanceId]) -> None:
        """Raises a `conflict` if one of the instances is in another group. An instance in no group is gone: no error."""
        mine = {member.id for member in (*group_state.members.there.values(), *group_state.members.leaving.values())}
        unknown = ids - mine - {InstanceId(ID_PREFIX + name) for name in group_state.coming}
        if not unknown:
            return
        found = await nodes.members(self._api)
        others = {member.id for group, members in found.items() if group != group_state.group.name for member in _all(members)}
        if strangers := unknown & others:
            raise ProviderError("conflict", group_state.group.name, f"{sorted(strangers)} are of another group")

    async def _group_state(self, name: GroupName) -> _GroupState:
        if name not in self._groups:
            raise ProviderError("gone", name, "no such group is configured")
        # Reads the record first: a machine that arrives meanwhile is then in both, and `coming` leaves it out.
        page = await self._record.read()
        members = (await nodes.members(self._api, name)).get(name, Members())
        return _GroupState(group=self._groups[name], page=page, members=members)

    def _given_up(self, group_state: _GroupState, count: int) -> Iterable[int]:
        """Selects `count` machines that do not run yet and returns their numbers: failed machines first, then the youngest.

        :raises ProviderError: a `conflict`, since fewer machines are still being created.
        """
        waiting = {instance.id: instance for instance in self._instances(group_state) if instance.state == "creating"}
        if count > len(waiting):
            detail = f"{group_state.target - len(waiting)} machines run, want at most {group_state.target - count}"
            raise ProviderError("conflict", group_state.group.name, detail)

        def order(entry: tuple[NodeName, int]) -> tuple[bool, int]:
            name, number = entry
            return waiting[InstanceId(ID_PREFIX + name)].error is not None, number

        coming = (entry for entry in group_state.coming.items() if ID_PREFIX + entry[0] in waiting)
        return [number for _, number in sorted(coming, key=order)[-count:]]


def _after_all(group_state: _GroupState) -> Machines:
    """Returns the group's machines, with `next_number` raised above the number of every existing Node.

    This avoids used numbers if the ConfigMap was deleted, after which the record begins at 0 again.
    """
    machines, group = group_state.machines, group_state.group
    numbers = (group.number_of(member.name) for member in _all(group_state.members))
    beyond = 1 + max((number for number in numbers if number is not None), default=-1)
    return Machines(next_number=max(machines.next_number, beyond), asked_at=machines.asked_at)


def _all(members: Members) -> Iterator[Member]:
    yield from members.there.values()
    yield from members.leaving.values()
