"""A `NodeProvider` over EC2 Auto Scaling groups: sets the desired capacity, and ends machines by their id.

AWS takes absolute sizes without a precondition. So each change reads the group first, under a lock for the group: two calls of
this process never grow a group twice. Two processes could, so only the leader makes changes. AWS may answer with what was some
seconds ago; `own_changes` adds what we have changed since.

Machines that AWS could not launch are shown as instances with an error, one for each that the group lacks. To delete one of
them is to lower the desired capacity. Invariant: the desired capacity is never set below the number of machines there, since
AWS would choose which of them to end.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import anyio
import structlog

from slackwater.adapters.cloud.apiserver import bounded, check_growth, check_seen, each
from slackwater.adapters.cloud.aws.activities import launch_failures
from slackwater.adapters.cloud.aws.client import AwsClient, is_throttled
from slackwater.adapters.cloud.aws.groups import GroupFinder, Machine, ScalingGroup
from slackwater.adapters.cloud.aws.machine_types import MachineType, MachineTypes
from slackwater.adapters.cloud.aws.own_changes import OwnChanges
from slackwater.adapters.cloud.aws.template import options_of, template_of
from slackwater.adapters.cloud.read_groups import ProblemLog, unreadable_group
from slackwater.model.nodegroups import (
    NO_OPTIONS,
    GroupName,
    Instance,
    InstanceError,
    InstanceId,
    NodeGroup,
    choice_of_provider,
)
from slackwater.ports.protocols import ProviderError

_log = structlog.get_logger(__name__)

#: How old an answer of AWS may be.
CONSISTENT_AFTER_SECONDS: Final = 30.0
#: Machines that one call ends at the same time; AWS throttles more.
_WIDTH: Final = 4
_SUSPENDED: Final = "its process {} is suspended"


class AwsGroups:
    """Implements `ports.protocols.GroupReader`. `tags`: those that a group must have ("" as a value: any). `names`: groups that
    are used whatever their tags. `now`: Unix time in seconds. `consistent_after`: how old an answer may be, in seconds."""

    name: Final = "aws"

    def __init__(
        self,
        client: AwsClient,
        *,
        tags: Mapping[str, str],
        names: Collection[GroupName] = (),
        now: Callable[[], float],
        consistent_after: float = CONSISTENT_AFTER_SECONDS,
    ) -> None:
        self._client = client
        self._now = now
        self._finder = GroupFinder(client, tags=tags, names=names)
        self._types = MachineTypes(client, now)
        self._changes = OwnChanges(now, seconds=consistent_after)
        #: Since when each group has lacked machines that it wants.
        self._lacking: dict[GroupName, float] = {}
        #: Each machine of the groups when they were last listed, and its group, by AWS' id.
        self._owners: dict[str, tuple[GroupName, InstanceId]] = {}
        #: Whether the groups have been listed.
        self.knows_machines = False
        self._problems = ProblemLog()

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with bounded(None, timeout_seconds):
            every = (await self._finder.all()).values()
            found = [self._changes.known(group) for group in every if not group.problem]
            self._changes.keep(group.name for group in every)
            self._owners = {machine.id: (group.name, machine.name) for group in every for machine in group.machines}
            self.knows_machines = True
            lacking = {group.name for group in found if group.desired > group.live}
            self._lacking = {name: self._lacking.get(name, self._now()) for name in lacking}
            failures = await self._launch_failures()
            types = await self._types.of(found)
            shown = [await self._shown(group, types[group.name], failures.get(group.name)) for group in found]
            shown += [self._unreadable(group) for group in every if group.problem]
        return sorted(shown, key=lambda group: group.name)

    async def _launch_failures(self) -> Mapping[GroupName, InstanceError]:
        """Why machines are lacking. Where AWS does not say, a group is waited for until its nodes are overdue."""
        try:
            failures = await launch_failures(self._client, self._lacking, now=self._now())
        except ProviderError as error:
            if self._problems.is_new("", error.detail):
                _log.warning("launches that fail are not seen", problem=error.detail)
            return {}
        self._problems.solved("")
        return failures

    def name_of(self, id_: str) -> InstanceId | None:
        """The name of a machine by AWS' id; None if it was in no group when these were last listed."""
        owner = self._owners.get(id_)
        return None if owner is None else owner[1]

    def _unreadable(self, group: ScalingGroup) -> NodeGroup:
        why, instances = f"Auto Scaling group {group.name}: {group.problem}", [*map(_instance, group.machines)]
        return unreadable_group(self.name, group.name, why, instances, zones=group.zones)

    async def _shown(self, group: ScalingGroup, types: Sequence[MachineType], failure: InstanceError | None) -> NodeGroup:
        managed = await self._types.managed(group)
        return NodeGroup(
            name=group.name,
            provider=self.name,
            min_size=group.min_size,
            # A group that launches nothing must not be chosen.
            max_size=group.target if "Launch" in group.suspended else group.max_size,
            target=group.target,
            instances=(*map(_instance, group.machines), *_not_launched(group, failure)),
            template=self._problems.read(group.name, lambda: template_of(group, types, managed), None),
            options=self._problems.read(group.name, lambda: options_of(group), NO_OPTIONS),
            undeletable=_SUSPENDED.format("Terminate") if "Terminate" in group.suspended else "",
            choice=choice_of_provider(self.name, group.name),
            zones=group.zones,
        )


def _instance(machine: Machine) -> Instance:
    return Instance(id=machine.name, state=machine.state)


def _not_launched(group: ScalingGroup, failure: InstanceError | None) -> Sequence[Instance]:
    """An instance for each machine that AWS could not launch."""
    count = 0 if failure is None else group.desired - group.live
    return [Instance(id=InstanceId(f"{_prefix(group.name)}{n}"), state="creating", error=failure) for n in range(count)]


def _prefix(group: GroupName) -> str:
    return f"aws:///not-launched/{group}/"


class AwsProvider(AwsGroups):
    """Implements `ports.protocols.NodeProvider`."""

    def __init__(self, client: AwsClient, **how: Any) -> None:
        """As `AwsGroups`."""
        super().__init__(client, **how)
        self._locks: dict[GroupName, anyio.Lock] = defaultdict(anyio.Lock)

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                there = await self._present(group)
                check_growth(group, target=there.target, seen=seen, to=to, most=there.max_size)
                if "Launch" in there.suspended:
                    raise ProviderError("limit", group, _SUSPENDED.format("Launch"))
                await self._resize(group, to)
                self._lacking[group] = self._now()  # failures before this launch say nothing about it

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                there = await self._present(group)
                check_seen(group, target=there.target, seen=seen)
                await self._lower(there, to)

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        wanted = {instance.id for instance in instances}
        with bounded(group, timeout_seconds):
            async with self._locks[group]:
                there = await self._present(group)
                self._check_ours(there, wanted)
                to_end = [machine for machine in there.machines if machine.name in wanted and machine.state != "deleting"]
                not_launched = sum(id_.startswith(_prefix(group)) for id_ in wanted)
                spare = 0 if replace else min(not_launched, max(there.desired - there.live, 0))
                left = there.target - (0 if replace else len(to_end) + spare)
                if left < min(there.target, there.min_size):
                    raise ProviderError("limit", group, f"{left} nodes would be left, want at least {there.min_size}")
                self._check_sure(there, to_end)
                if spare:
                    await self._lower(there, there.desired - spare)
                await self._end_all(there, to_end, desired=there.desired - spare, lowers=not replace)

    async def _present(self, name: GroupName) -> ScalingGroup:
        group = await self._finder.one(name)
        if group is None:
            raise ProviderError("gone", name, "AWS has no such group")
        if group.problem:
            raise ProviderError("other", name, group.problem)
        return self._changes.known(group)

    async def _resize(self, group: GroupName, desired: int) -> None:
        await self._client.ask(
            "autoscaling",
            "set_desired_capacity",
            group=group,
            AutoScalingGroupName=group,
            DesiredCapacity=desired,
            HonorCooldown=False,
        )
        self._changes.resized(group, desired)

    async def _lower(self, there: ScalingGroup, to: int) -> None:
        """Gives up machines: first those that are not launched, then those that are on their way, by their ids."""
        if to < there.min_size:
            raise ProviderError("limit", there.name, f"got {to} nodes, want at least {there.min_size}")
        on_their_way = [machine for machine in there.machines if machine.state == "creating"]
        if to < there.live - len(on_their_way):
            detail = f"{there.live - len(on_their_way)} machines run, want at most {to}"
            raise ProviderError("conflict", there.name, detail)
        to_end = on_their_way[: max(there.live - to, 0)]
        self._check_sure(there, to_end)
        if (desired := min(max(to, there.live), there.desired)) < there.desired:
            await self._resize(there.name, desired)
        await self._end_all(there, to_end, desired=desired, lowers=True)

    def _check_sure(self, there: ScalingGroup, to_end: Iterable[Machine]) -> None:
        """Raises `unknown` if one of the machines may have been ended already: a second call might lower the size again."""
        if unsure := self._changes.unsure(there.name) & {machine.id for machine in to_end}:
            detail = f"no answer said whether {', '.join(sorted(unsure))} ended, and AWS may not show it yet"
            raise ProviderError("unknown", there.name, detail)

    def _check_ours(self, there: ScalingGroup, wanted: AbstractSet[InstanceId]) -> None:
        """Raises a `conflict` if one of the machines is in another group. A machine in no group is gone: no error."""
        own = {machine.name for machine in there.machines}
        others = ((id_, self._owners.get(_id_of(id_))) for id_ in wanted - own)
        of_others = {id_ for id_, owner in others if owner is not None and owner[0] != there.name}
        if of_others:
            raise ProviderError("conflict", there.name, f"{sorted(of_others)} are of another group")

    async def _end_all(self, there: ScalingGroup, machines: Sequence[Machine], *, desired: int, lowers: bool) -> None:
        """Ends the machines. With `lowers` each call also lowers the desired capacity, which is `desired` now, by one; not for
        as many machines as are there beyond it."""
        surplus = max(there.live - desired, 0) if lowers else 0

        async def end(machine: Machine) -> None:
            nonlocal desired, surplus
            beyond, surplus = surplus > 0, max(surplus - 1, 0)
            if await self._end(there.name, machine, lowers=lowers and not beyond) and lowers and not beyond:
                desired -= 1
                self._changes.resized(there.name, desired)

        await each(there.name, machines, end, width=_WIDTH)

    async def _end(self, group: GroupName, machine: Machine, *, lowers: bool) -> bool:
        """Ends one machine. False if it was gone already."""
        try:
            await self._client.ask(
                "autoscaling",
                "terminate_instance_in_auto_scaling_group",
                group=group,
                InstanceId=machine.id,
                ShouldDecrementDesiredCapacity=lowers,
            )
        except ProviderError as error:
            if error.kind == "gone":
                return False
            if error.kind == "unknown" and not is_throttled(error):
                self._changes.maybe_ended(group, machine.id)
            raise
        except anyio.get_cancelled_exc_class():  # the deadline has passed, and the call may have arrived
            self._changes.maybe_ended(group, machine.id)
            raise
        self._changes.ended(group, machine.id)
        return True


def _id_of(name: str) -> str:
    return name.rpartition("/")[2]
