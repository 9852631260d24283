"""The version of kube-scheduler whose rules Slackwater follows, and the table of the rules that differ between versions.

    version = KubernetesVersion.parse("v1.37.2", {"VolumeLimitScaling": False})
    version.follows(Rule.NODE_NAME_FIRST)      # true since 1.37

`Rule` is the whole table: each member says since which minor version, or by which feature gate, kube-scheduler's default
profile behaves so. Code that differs by version asks `follows`. `tests/oracle` compares the supported versions with
kube-scheduler's own plug-ins. Deliberately absent: where the version comes from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Self

#: The minor versions of Kubernetes 1 that the oracle compares, and the patch releases that it was built from.
OLDEST_MINOR: Final = 34
NEWEST_MINOR: Final = 37
SUPPORTED: Final = ("1.34.4", "1.35.4", "1.36.3", "1.37.2")
_TEXT: Final = re.compile(r"v?1\.(\d{1,3})(?:\.(\d{1,4}))?(?:[-+][0-9A-Za-z.+_-]{0,80})?", re.ASCII)
_SHOWN: Final = 60


class Gate(NamedTuple):
    """A feature gate of kube-scheduler: since which minor version it exists, is on by default, and can no longer be set.

    `needs` is the gate without which it does nothing. `split_from` is the gate that governed the same before this one existed.
    `compatible`: it is on where kube-scheduler's `--min-compatibility-version` is at least this.
    """

    since: int
    on: int | None = None
    locked: int | None = None
    needs: str | None = None
    split_from: str | None = None
    compatible: int | None = None


#: The gates that change a filter or score plug-in of the default profile, as in pkg/features/kube_features.go.
GATES: Final[Mapping[str, Gate]] = {
    "DRAConsumableCapacity": Gate(since=34, on=36),
    "DRADeviceBindingConditions": Gate(since=34, on=36),
    "DRADeviceTaintRules": Gate(since=35, on=37, needs="DRADeviceTaints", split_from="DRADeviceTaints"),
    "DRADeviceTaints": Gate(since=33, on=36),
    "DRAExtendedResource": Gate(since=34, on=36, locked=37),
    "DRAFractionalCapacityRange": Gate(since=37, needs="DRAConsumableCapacity", compatible=37),
    "DRAPartitionableDevices": Gate(since=33, on=36),
    "InPlacePodLevelResourcesVerticalScaling": Gate(since=35, on=36),
    "NodeDeclaredFeatures": Gate(since=35, on=36, locked=37),
    "PodLevelResources": Gate(since=32, on=34),
    "PodLevelResourcesFixDefaulting": Gate(since=37, on=37),
    "StorageCapacityScoring": Gate(since=33, on=37),
    "TaintTolerationComparisonOperators": Gate(since=35),
    "VolumeLimitScaling": Gate(since=35, on=37),
}


class SinceRule(NamedTuple):
    """A rule that holds from a minor version on. `effect` describes it in the documentation."""

    minor: int
    plugin: str
    effect: str


class GateRule(NamedTuple):
    """A rule that holds where a feature gate is on."""

    gate: str
    plugin: str
    effect: str


class Rule(Enum):
    """The rules of kube-scheduler's default profile that differ between the supported versions."""

    NODE_NAME_FIRST = SinceRule(37, "NodeName", "filters before NodeUnschedulable; before 1.37, after it")
    BALANCE_BY_IMPROVEMENT = SinceRule(
        36,
        "NodeResourcesBalancedAllocation",
        "scores how much more even the pod makes the use of a node; before 1.36, how even the use is with it",
    )
    IMAGE_VOLUMES_SCORED = SinceRule(36, "ImageLocality", "counts image volumes too")
    IMAGE_VOLUMES_COUNTED = SinceRule(37, "ImageLocality", "scales by containers and image volumes; before 1.37, by containers")
    CSI_DRIVER_OPTS_IN = SinceRule(
        36,
        "NodeVolumeLimits",
        "misses only CSI drivers with `preventPodSchedulingIfMissing`; in 1.35 with the gate, all of them",
    )
    PORTWORX_MIGRATED = SinceRule(
        36, "NodeVolumeLimits", "counts in-tree Portworx volumes everywhere; before 1.36, where the CSINode names the plug-in"
    )
    NAMESPACES_LISTED = SinceRule(
        37,
        "InterPodAffinity",
        "counts the pods of the namespaces that a term's selector selects; before 1.37 a selector that also selects no labels "
        "(NotIn, DoesNotExist) covered every namespace",
    )
    FEATURES_UNNAMED = SinceRule(
        36, "NodeDeclaredFeatures", "has one text; in 1.35 with the gate, it names the missing features"
    )
    HOST_USERS_DECLARED = SinceRule(36, "NodeDeclaredFeatures", "knows user namespaces on the host's network")
    RESIZED_BY_SUMS = SinceRule(
        37,
        "NodeResourcesFit",
        "counts a pod in resize by the largest sum of its containers (spec, allocated, actual); before 1.37, by the sum of "
        "the largest amounts",
    )
    INCOMPLETE_POOLS_UNUSED = SinceRule(
        35,
        "DynamicResources",
        "allocates from complete pools only, and passes over invalid ones; in 1.34 it allocates from incomplete pools, counts "
        "only the slices that concern the node, and fails at an invalid pool",
    )
    DEVICES_SCORED = SinceRule(35, "DynamicResources", "scores by the alternatives (`firstAvailable`) that claims get")
    CLAIM_OWNER_CAPITALS = SinceRule(36, "DynamicResources", "names Pods with a capital where a pod does not own its claim")
    COUNTERS_OF_THE_NODE = SinceRule(
        37,
        "DynamicResources",
        "counts a slice of shared counters where its nodes are; before 1.37, and where neither capacity is shared nor "
        "conditions of binding are read, on every node",
    )
    COUNTERS_BY_DRIVER = SinceRule(
        37,
        "DynamicResources",
        "keeps the shared counters of two drivers apart whose pools have one name; in 1.35 and 1.36 the counters of the first "
        "that is tried are those of both",
    )
    AMOUNTS_IN_RANGE = SinceRule(
        37,
        "DynamicResources",
        "fails at a request for capacity that it cannot compute with: too large for its steps, or negative",
    )
    ALL_BY_CAPACITY = SinceRule(
        37,
        "DynamicResources",
        "counts a device whose capacity is in use among all devices, so the request fails; before 1.37 it left it out",
    )
    SHARES_WITHOUT_AMOUNT = SinceRule(
        37, "DynamicResources", "does not draw counters again for a device that is shared without consumed capacity"
    )
    SHARED_ONCE = SinceRule(
        36,
        "DynamicResources",
        "gives a request each shared device once; in 1.35, with the gate of consumable capacity, as often as there is room",
    )
    DISTINCT_FROM_ALL = SinceRule(
        37,
        "DynamicResources",
        "compares `distinctAttribute` with all devices of a claim; before 1.37, with the latest one of each request",
    )
    ONLY_KNOWN_EFFECTS = SinceRule(
        35, "DynamicResources", "ignores taints of devices with an effect other than NoSchedule and NoExecute, such as None"
    )
    NO_SELECTOR_TAINTS_NOTHING = SinceRule(
        37, "DynamicResources", "reads a DeviceTaintRule without a selector as one for no device; before 1.37, for all devices"
    )
    DEVICE_TAINTS = GateRule("DRADeviceTaints", "DynamicResources", "reads taints of devices")
    DEVICE_TAINT_RULES = GateRule(
        "DRADeviceTaintRules", "DynamicResources", "reads DeviceTaintRules, which taint the devices that they select"
    )
    PARTITIONABLE_DEVICES = GateRule(
        "DRAPartitionableDevices", "DynamicResources", "reads shared counters, and nodes of single devices"
    )
    CONSUMABLE_CAPACITY = GateRule(
        "DRAConsumableCapacity", "DynamicResources", "shares devices by capacity, and knows `distinctAttribute`"
    )
    BINDING_CONDITIONS = GateRule("DRADeviceBindingConditions", "DynamicResources", "reads conditions of binding")
    DEVICE_CLASS_RESOURCES = GateRule(
        "DRAExtendedResource", "DynamicResources", "claims extended resources that a DeviceClass backs; NodeResourcesFit too"
    )
    FRACTIONAL_CAPACITY = GateRule(
        "DRAFractionalCapacityRange", "DynamicResources", "rounds requests for capacity to thousandths, not to whole units"
    )
    NODE_DECLARED_FEATURES = GateRule("NodeDeclaredFeatures", "NodeDeclaredFeatures", "filters")
    POD_LEVEL_RESOURCES = GateRule("PodLevelResources", "NodeResourcesFit", "reads the requests of the pod itself")
    POD_LEVEL_DEFAULTS = GateRule(
        "PodLevelResourcesFixDefaulting",
        "the API server",
        "completes a pod's own requests by those of its containers; before 1.37 only where the pod has limits of its own",
    )
    POD_LEVEL_RESIZE = GateRule(
        "InPlacePodLevelResourcesVerticalScaling", "NodeResourcesFit", "reads the pod's own status during a resize"
    )
    STORAGE_CAPACITY_SCORING = GateRule("StorageCapacityScoring", "VolumeBinding", "scores")
    COMPARING_TOLERATIONS = GateRule(
        "TaintTolerationComparisonOperators", "TaintToleration", "knows the operators Gt and Lt; PodTopologySpread too"
    )
    VOLUME_LIMIT_SCALING = GateRule("VolumeLimitScaling", "NodeVolumeLimits", "refuses nodes without the volume's CSI driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesVersion:
    """A version of Kubernetes 1 with the feature gates of its kube-scheduler.

    `gates` are those that the user set, sorted, as (name, on) pairs. Gates that no rule here reads are kept and have no effect.
    """

    minor: int
    patch: int = 0
    gates: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def parse(cls, text: str, gates: Mapping[str, bool] | None = None) -> Self:
        """Parses a text like "v1.36.3" or "1.36". Vendors' endings ("-gke.100", "+k3s1") are ignored.

        Raises ValueError for other texts, and for a gate that this version does not have, or whose value is fixed.
        """
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"got {text[:_SHOWN]!r}, want a version of Kubernetes like 1.36 or v1.36.3")
        new = cls(minor=int(found[1]), patch=int(found[2] or 0))
        return new if not gates else new.with_gates(gates)

    def with_gates(self, gates: Mapping[str, bool]) -> Self:
        """This version with these gates set in addition to its own. Raises ValueError for a gate that this version does not
        have, or whose value is fixed."""
        for name, value in gates.items():
            self._check(name, value)
        merged = {**dict(self.gates), **gates}
        return type(self)(minor=self.minor, patch=self.patch, gates=tuple(sorted(merged.items())))

    def _check(self, name: str, value: bool) -> None:
        gate = GATES.get(name)
        if gate is None:
            return
        if self.minor < gate.since:
            raise ValueError(f"feature gate {name}: Kubernetes {self} does not have it, 1.{gate.since} is the first that does")
        if gate.locked is not None and self.minor >= gate.locked and value != _by_default(gate, self.minor):
            raise ValueError(f"feature gate {name}: cannot be changed since Kubernetes 1.{gate.locked}")

    def follows(self, rule: Rule) -> bool:
        """Whether kube-scheduler of this version, with these gates, behaves by the rule. A version above `NEWEST_MINOR` behaves
        like the newest one, a version below `OLDEST_MINOR` like the oldest."""
        value: SinceRule | GateRule = rule.value
        return self.minor >= value.minor if isinstance(value, SinceRule) else self.enabled(value.gate)

    def agrees_with(self, other: "KubernetesVersion") -> bool:
        """Whether both versions follow the same rules."""
        return all(self.follows(rule) == other.follows(rule) for rule in Rule)

    def enabled(self, gate: str) -> bool:
        """Whether one of `GATES` is on, and the gate that it needs."""
        known = GATES[gate]
        if known.split_from is not None and self.minor < known.since:
            return self.enabled(known.split_from)
        value = dict(self.gates).get(gate)
        if value is None:
            value = _by_default(known, max(self.minor, OLDEST_MINOR))
        return value and (known.needs is None or self.enabled(known.needs))

    @property
    def note(self) -> str:
        """What to tell a user about a version that is not supported; empty for supported ones."""
        if self.minor > NEWEST_MINOR:
            return f"Kubernetes {self} is newer than what Slackwater knows; it follows the rules of 1.{NEWEST_MINOR}"
        if self.minor < OLDEST_MINOR:
            return f"Kubernetes {self} is older than what Slackwater supports; it follows the rules of 1.{OLDEST_MINOR}"
        return ""

    @property
    def unread_gates(self) -> tuple[str, ...]:
        """The gates that the user set and that no rule reads."""
        return tuple(name for name, _ in self.gates if name not in GATES)

    def __str__(self) -> str:
        return f"1.{self.minor}.{self.patch}"


def read_gates(text: str) -> dict[str, bool]:
    """Parses gates in the form of kube-scheduler's flag, "A=true,B=false". Raises ValueError."""
    gates = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not (name and equals and value.lower() in ("true", "false")):
            raise ValueError(f"got {part[:60]!r}, want Name=true or Name=false, several with commas")
        gates[name] = value.lower() == "true"
    return gates


def gates_of_compatibility(least: KubernetesVersion) -> dict[str, bool]:
    """The gates that kube-scheduler turns on by `--min-compatibility-version`, whose default is the minor version before."""
    return {name: True for name, gate in GATES.items() if gate.compatible is not None and least.minor >= gate.compatible}


def _by_default(gate: Gate, minor: int) -> bool:
    return gate.on is not None and minor >= gate.on


#: The version that is assumed where nothing says another one.
DEFAULT_VERSION: Final = KubernetesVersion(minor=36, patch=3)
