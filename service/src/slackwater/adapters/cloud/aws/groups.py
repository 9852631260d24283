"""Auto Scaling groups as AWS describes them, and how they are found: by tags, and by the names in the configuration."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from slackwater.adapters.cloud.aws.client import AwsClient, readable
from slackwater.model.nodegroups import GroupName, InstanceId

#: Groups in one page, and names in one question: what AWS allows.
_PAGE: Final = 100
_MOST_PAGES: Final = 50
#: AWS allows sizes of a few thousand.
_LARGEST_SIZE: Final = 1_000_000

#: What helps with a group whose capacity is not in machines. With the old sizes AWS would launch many, or end many.
_TO_DO: Final = "and its sizes to numbers of machines in the same update"

MachineState = Literal["creating", "running", "deleting"]


@dataclass(frozen=True, slots=True)
class Machine:
    """An instance of a group. `id`: AWS's. `name`: `spec.providerID` of its Node."""

    id: str
    name: InstanceId
    state: MachineState
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSource:
    """What says which machines a group launches. `types`: instance types that it names itself, in their order. Else its launch
    template (`template`: parameters of DescribeLaunchTemplateVersions) or launch configuration says one. `by_attributes`: AWS
    chooses types by attributes."""

    types: tuple[str, ...] = ()
    template: tuple[tuple[str, str], ...] = ()
    configuration: str = ""
    by_attributes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroup:
    """A group as AWS described it. `machines` lacks those in a warm pool, on standby or detached: they do not count for the
    desired capacity. `problem`: why it cannot be scaled here; "" if it can."""

    name: GroupName
    min_size: int
    max_size: int
    desired: int
    machines: tuple[Machine, ...]
    zones: tuple[str, ...]
    tags: Mapping[str, str]
    source: LaunchSource
    suspended: frozenset[str] = field(default_factory=frozenset)
    problem: str = ""

    @property
    def live(self) -> int:
        """How many machines count for the desired capacity."""
        return sum(machine.state != "deleting" for machine in self.machines)

    @property
    def target(self) -> int:
        """How many machines there are, or are to be. More may be there than desired: AWS ends none that is protected."""
        return max(self.desired, self.live)


class GroupFinder:
    """Finds the groups with all of `tags` ("" as a value: any), and those of `names`."""

    def __init__(self, client: AwsClient, *, tags: Mapping[str, str], names: Collection[GroupName]) -> None:
        self._client = client
        self._tags = tags
        self._names = frozenset(names)
        self._known: frozenset[GroupName] = frozenset()

    async def all(self) -> dict[GroupName, ScalingGroup]:
        """All groups by name, with a call for each hundred of them. A group that was there before and is missing is asked for
        by its name, since an answer may be incomplete."""
        found = await self._described(Filters=[_filter(key, value) for key, value in self._tags.items()]) if self._tags else {}
        missing = sorted((self._names | self._known) - found.keys())
        for start in range(0, len(missing), _PAGE):
            found |= await self._described(AutoScalingGroupNames=missing[start : start + _PAGE])
        found = {name: group for name, group in found.items() if name in self._names or self._selects(group)}
        self._known = frozenset(found)
        return found

    async def one(self, name: GroupName) -> ScalingGroup | None:
        """The group with this name, as it is now; None if there is none that is ours."""
        group = (await self._described(AutoScalingGroupNames=[name])).get(name)
        return group if group is not None and (name in self._names or self._selects(group)) else None

    def _selects(self, group: ScalingGroup) -> bool:
        own = group.tags
        return bool(self._tags) and all(key in own and value in ("", own[key]) for key, value in self._tags.items())

    async def _described(self, **which: Any) -> dict[GroupName, ScalingGroup]:
        pages = self._client.pages(
            "autoscaling",
            "describe_auto_scaling_groups",
            "AutoScalingGroups",
            most=_MOST_PAGES,
            MaxRecords=_PAGE,
            **which,
        )
        with readable("describe_auto_scaling_groups"):
            read = [_read(wire) async for wire in pages if not wire.get("Status")]  # a group with a status is being deleted
        return {group.name: group for group in read}


def _filter(key: str, value: str) -> dict[str, Any]:
    return {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}


def _read(wire: Mapping[str, Any]) -> ScalingGroup:
    """The group. One that lacks something has a problem, and no machines: nobody would know which are missing."""
    try:
        return _whole(wire)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"describe_auto_scaling_groups: an answer cannot be read: {type(error).__name__}: {error}"
        return ScalingGroup(
            name=GroupName(wire["AutoScalingGroupName"]),
            min_size=0,
            max_size=0,
            desired=0,
            machines=(),
            zones=(),
            tags=_tags(wire),
            source=LaunchSource(),
            problem=problem,
        )


def _tags(wire: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value") or "" for tag in wire.get("Tags") or ()}


def _whole(wire: Mapping[str, Any]) -> ScalingGroup:
    sizes = [min(max(int(wire.get(key, 0)), 0), _LARGEST_SIZE) for key in ("MinSize", "MaxSize", "DesiredCapacity")]
    machines = (_machine(each) for each in wire.get("Instances") or ())
    return ScalingGroup(
        name=GroupName(wire["AutoScalingGroupName"]),
        min_size=sizes[0],
        max_size=sizes[1],
        desired=sizes[2],
        machines=tuple(machine for machine in machines if machine is not None),
        zones=tuple(sorted(wire.get("AvailabilityZones") or ())),
        tags=_tags(wire),
        source=_source(wire),
        suspended=frozenset(process.get("ProcessName", "") for process in wire.get("SuspendedProcesses") or ()),
        problem=_problem(wire),
    )


def _machine(wire: Mapping[str, Any]) -> Machine | None:
    state = wire.get("LifecycleState", "")
    found: MachineState
    if state == "InService" or state.startswith(("ReplacingRootVolume", "RootVolumeReplaced")):
        found = "running"
    elif state.startswith("Pending"):
        found = "creating"
    elif state.startswith("Terminating"):
        found = "deleting"
    else:
        return None
    id_, zone = wire["InstanceId"], wire["AvailabilityZone"]
    return Machine(id_, InstanceId(f"aws:///{zone}/{id_}"), found, wire.get("InstanceType") or "")


def _source(wire: Mapping[str, Any]) -> LaunchSource:
    mixed = (wire.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    overrides = mixed.get("Overrides") or ()
    template = mixed.get("LaunchTemplateSpecification") or wire.get("LaunchTemplate") or {}
    return LaunchSource(
        types=tuple(dict.fromkeys(each["InstanceType"] for each in overrides if each.get("InstanceType"))),
        template=_template(template),
        configuration=wire.get("LaunchConfigurationName") or "",
        by_attributes=any(each.get("InstanceRequirements") for each in overrides),
    )


def _template(wire: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    by = next((key for key in ("LaunchTemplateId", "LaunchTemplateName") if wire.get(key)), None)
    return () if by is None else ((by, wire[by]), ("Version", wire.get("Version") or "$Default"))


def _problem(wire: Mapping[str, Any]) -> str:
    if wire.get("DesiredCapacityType", "units") != "units":
        return f"its desired capacity counts {wire['DesiredCapacityType']}, not machines: set its type to units, {_TO_DO}"
    overrides: Iterable[Mapping[str, Any]] = ((wire.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}).get(
        "Overrides"
    ) or ()
    weights: Sequence[str] = sorted({each["WeightedCapacity"] for each in overrides if each.get("WeightedCapacity")} - {"1"})
    weigh = f"its mixed instances policy has weights ({', '.join(weights)}), so its sizes do not count machines"
    return f"{weigh}: set no WeightedCapacity, {_TO_DO}" if weights else ""
