"""What a machine of an instance type has, which types a group launches, and what EKS says of a managed node group.

EC2 is asked only for types that groups name, so there is no table to keep up to date. Answers are kept: those about types for
good, others for some minutes. A question that fails is not repeated at once, so that a missing right costs no call a loop.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from slackwater.adapters.cloud.aws.client import AwsClient, readable
from slackwater.adapters.cloud.aws.groups import LaunchSource, ScalingGroup
from slackwater.model.objects import Taint
from slackwater.ports.protocols import ProviderError

T = TypeVar("T")

_log = structlog.get_logger(__name__)

#: A launch template may get another default version, a managed node group other labels.
_KEPT_SECONDS: Final = 600.0
#: Values of one filter: what AWS allows.
_NAMES: Final = 200
_MOST_PAGES: Final = 10
_MIB: Final = 2**20
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64", "i386": "386"}
_GPUS: Final = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
_NEURON: Final = "aws.amazon.com/neuron"
_EKS_CLUSTER: Final = "eks:cluster-name"
_EKS_NODE_GROUP: Final = "eks:nodegroup-name"
_EFFECTS: Final = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """An instance type. `memory` in bytes. `addresses`: how many pods its network interfaces have addresses for, by the rule of
    the VPC CNI; 0: unknown. `devices`: extended resources."""

    name: str
    cpus: int
    memory: int
    architecture: str
    addresses: int = 0
    devices: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNodeGroup:
    """What EKS puts on the nodes of a managed node group, and the group's own tags."""

    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    tags: Mapping[str, str]


class MachineTypes:
    """Answers by asking AWS. `now`: the time in seconds, of any clock."""

    def __init__(self, client: AwsClient, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._types: dict[str, MachineType | None] = {}
        self._kept: dict[object, tuple[float, Any]] = {}
        self._problems: dict[object, str] = {}

    async def of(self, groups: Iterable[ScalingGroup]) -> dict[str, tuple[MachineType, ...]]:
        """The types that each group launches, by its name; empty if one of them is not known."""
        names = {group.name: await self._names(group) for group in groups}
        await self._learn({name for some in names.values() for name in some} - self._types.keys())
        found = {group: [self._types.get(name) for name in some] for group, some in names.items()}
        return {group: tuple(filter(None, some)) if all(some) else () for group, some in found.items()}

    async def managed(self, group: ScalingGroup) -> ManagedNodeGroup | None:
        """What EKS says of the group; None if EKS does not manage it, or does not say."""
        cluster, name = group.tags.get(_EKS_CLUSTER), group.tags.get(_EKS_NODE_GROUP)
        if not cluster or not name:
            return None

        async def describe() -> ManagedNodeGroup:
            return _managed(await self._client.ask("eks", "describe_nodegroup", clusterName=cluster, nodegroupName=name))

        found: ManagedNodeGroup | None = await self._once((cluster, name), describe)
        return found

    async def _names(self, group: ScalingGroup) -> tuple[str, ...]:
        """The names of the types. Machines that are there show them where AWS chooses by attributes, or nothing else says."""
        source, shown = group.source, tuple(sorted({machine.type for machine in group.machines if machine.type}))
        if source.types or source.by_attributes:
            return source.types or shown
        said: str | None = None
        if source.template or source.configuration:
            said = await self._once(source, lambda: self._launched(source))
        return (said,) if said else shown

    async def _launched(self, source: LaunchSource) -> str:
        """The instance type in a launch template or launch configuration; "" if it has none."""
        if source.template:
            by, version = source.template
            parameters: dict[str, Any] = {by[0]: by[1], "Versions": [version[1]]}
            answer = await self._client.ask("ec2", "describe_launch_template_versions", **parameters)
            data = [each.get("LaunchTemplateData") or {} for each in answer.get("LaunchTemplateVersions") or ()]
        else:
            names = [source.configuration]
            answer = await self._client.ask("autoscaling", "describe_launch_configurations", LaunchConfigurationNames=names)
            data = list(answer.get("LaunchConfigurations") or ())
        return next((each["InstanceType"] for each in data if each.get("InstanceType")), "")

    async def _learn(self, names: Iterable[str]) -> None:
        """Asks for types. A name that AWS does not know is not asked for again."""
        missing = sorted(names)
        for start in range(0, len(missing), _NAMES):
            some = missing[start : start + _NAMES]

            async def describe(some: list[str] = some) -> list[MachineType]:
                only = [{"Name": "instance-type", "Values": some}]
                pages = self._client.pages("ec2", "describe_instance_types", "InstanceTypes", most=_MOST_PAGES, Filters=only)
                return [each async for wire in pages if (each := _readable_type(wire)) is not None]

            if (found := await self._once(tuple(some), describe)) is not None:
                self._types |= dict.fromkeys(some) | {each.name: each for each in found}

    async def _once(self, key: object, ask: Callable[[], Any]) -> Any:
        """The answer of `ask`, kept for some minutes; None if it fails, which is logged once."""
        at, answer = self._kept.get(key, (0.0, None))
        if key in self._kept and self._now() - at < _KEPT_SECONDS:
            return answer
        try:
            with readable("what new machines have"):
                answer = await ask()
            self._problems.pop(key, None)
        except ProviderError as error:  # the last answer is better than none
            if self._problems.get(key) != error.detail:
                self._problems[key] = error.detail
                _log.warning("what new machines have is not known", problem=error.detail)
        self._kept = {old: each for old, each in self._kept.items() if self._now() - each[0] < 2 * _KEPT_SECONDS}
        self._kept[key] = (self._now(), answer)
        return answer


def _readable_type(wire: Mapping[str, Any]) -> MachineType | None:
    """The type; None if it cannot be read, so that it costs no other type its answer."""
    try:
        with readable("describe_instance_types"):
            return _machine_type(wire)
    except ProviderError as error:
        _log.warning("an instance type is not known", problem=error.detail)
        return None


def _machine_type(wire: Mapping[str, Any]) -> MachineType:
    network, processor = wire.get("NetworkInfo") or {}, wire.get("ProcessorInfo") or {}
    interfaces, each = network.get("MaximumNetworkInterfaces", 0), network.get("Ipv4AddressesPerInterface", 0)
    devices: dict[str, int] = {}
    for gpu in (wire.get("GpuInfo") or {}).get("Gpus") or ():
        name = _GPUS.get(gpu.get("Manufacturer", ""))
        if name is not None:
            devices[name] = devices.get(name, 0) + gpu.get("Count", 0)
    for neuron in (wire.get("NeuronInfo") or {}).get("NeuronDevices") or ():
        devices[_NEURON] = devices.get(_NEURON, 0) + neuron.get("Count", 0)
    known = [_ARCHITECTURES[name] for name in processor.get("SupportedArchitectures") or () if name in _ARCHITECTURES]
    return MachineType(
        name=wire["InstanceType"],
        cpus=(wire.get("VCpuInfo") or {}).get("DefaultVCpus", 0),
        memory=(wire.get("MemoryInfo") or {}).get("SizeInMiB", 0) * _MIB,
        architecture="amd64" if "amd64" in known or not known else known[0],
        addresses=interfaces * (each - 1) + 2 if interfaces and each else 0,
        devices=tuple(sorted(devices.items())),
    )


def _managed(wire: Mapping[str, Any]) -> ManagedNodeGroup:
    group = wire.get("nodegroup") or {}
    labels = {"eks.amazonaws.com/nodegroup": group.get("nodegroupName", "")}
    if group.get("capacityType") in ("ON_DEMAND", "SPOT"):
        labels["eks.amazonaws.com/capacityType"] = group["capacityType"]
    taints = (
        Taint(each["key"], each.get("value") or "", _EFFECTS[each["effect"]])
        for each in group.get("taints") or ()
        if each.get("key") and each.get("effect") in _EFFECTS
    )
    return ManagedNodeGroup(labels=labels | (group.get("labels") or {}), taints=tuple(taints), tags=group.get("tags") or {})
