"""Devices of dynamic resource allocation (resource.k8s.io/v1), with the fields that placement reads.

Drivers publish devices in slices, claims request devices, classes say which ones a request may take. Amounts (capacity,
counters) are integers in units of 10^-9, so that every quantity of the API is exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from slackwater.model.pod_constraints import NodeSelectorTerm

#: Classes back the extended resource of this prefix and their name, beside the one that they state.
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: An allocation has at most so many devices.
MOST_RESULTS: Final = 32
#: An object of a namespace: namespace and name.
ClaimKey = tuple[str, str]


class DeviceId(NamedTuple):
    """A device: its driver, the pool it belongs to, and its name there."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Version:
    """A semantic version as text: a value of an attribute."""

    text: str


#: The value of an attribute. None stands for a kind of value that kube-scheduler does not read by default, such as a list.
Attribute = str | int | bool | Version | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPolicy:
    """How much of a capacity a request may consume: one of `values`, or at least `least` in steps, and at most `most`.

    `default` counts where a request states no amount. `ranged`: the policy has a range, even if no bound of it is set.
    """

    default: int | None = None
    values: tuple[int, ...] = ()
    ranged: bool = False
    least: int | None = None
    most: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """An amount of something that a device has."""

    name: str
    amount: int
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of a request. An empty key tolerates every key, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices share, or what a device consumes of them: pairs of name and amount."""

    name: str
    counters: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """The nodes that can use a slice or a device: one by name, all, or those that a selector accepts. Empty: none."""

    name: str = ""
    every: bool = False
    terms: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a slice. `nodes` is set where the slice leaves the choice of nodes to its devices.

    `shareable`: several requests may share it, each consuming some of its capacity. `binding` conditions have to become true
    before a pod may use it, `failures` are conditions that say it never will.
    """

    name: str
    attributes: tuple[tuple[str, Attribute], ...] = ()
    capacity: tuple[Capacity, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    consumes: tuple[CounterSet, ...] = ()
    nodes: NodeChoice | None = None
    shareable: bool = False
    binds_to_node: bool = False
    binding: tuple[str, ...] | None = None
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """A part of a pool of devices, published by a driver. The newest generation of a pool counts.

    A pool is complete when it has `slices` slices of that generation. `per_device`: each device states its own nodes. A slice
    has devices, or counters that devices of the pool share.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slices: int
    nodes: NodeChoice
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


class DeviceTaintSelector(NamedTuple):
    """The names by which a rule selects devices; None selects by any name."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaintRule:
    """A DeviceTaintRule: a taint for every device that its selector selects. `selector` None selects no device."""

    name: str
    taint: DeviceTaint
    selector: DeviceTaintSelector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A DeviceClass: CEL selectors that its devices meet, and the extended resource that it backs. `created` orders classes."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str | None = None
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """What one request, or one of its alternatives, asks for: `count` devices, or all (None) that the selectors accept.

    `consumes` are amounts of the device's capacity. With `admin` access devices in use count as free, and stay so.
    """

    name: str
    class_name: str
    selectors: tuple[str, ...] = ()
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    consumes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A request of a claim: one ask, or alternatives (`firstAvailable`), of which the first that can be allocated counts."""

    name: str
    asks: tuple[DeviceAsk, ...]
    alternatives: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstraint:
    """A constraint: the devices of the named requests (none: of all) have the same attribute, or all a different one."""

    attribute: str
    distinct: bool
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What a claim asks for. Equal specs can be allocated on the same nodes."""

    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """A device of an allocation. `share` is its share's id where requests share the device, with what it consumes.

    `binding` and `failures` are the conditions of the device at the time of the allocation.
    """

    request: str
    device: DeviceId
    admin: bool = False
    share: str | None = None
    consumed: tuple[tuple[str, int], ...] = ()
    binding: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The devices of a claim, and the nodes that can use them (None: every node)."""

    devices: tuple[AllocatedDevice, ...]
    terms: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A ResourceClaim. `owner` is the UID of its controlling owner, `users` the UIDs of the pods that it is reserved for.

    `failed`: a device reports a condition that says binding will never be complete. `extended`: kube-scheduler made it for the
    extended resources of a pod.
    """

    namespace: str
    name: str
    spec: ClaimSpec
    uid: str = ""
    allocation: Allocation | None = None
    users: tuple[str, ...] = ()
    owner: str | None = None
    deleting: bool = False
    failed: bool = False
    extended: bool = False

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceObjects:
    """All known objects about devices. Unlike those of storage, objects that are not here count as absent.

    `slices` are as their drivers publish them. `taint_rules` is empty where kube-scheduler of the version reads none.
    """

    slices: Mapping[str, ResourceSlice] = field(default_factory=dict)
    taint_rules: Mapping[str, DeviceTaintRule] = field(default_factory=dict)
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    claims: Mapping[ClaimKey, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[ClaimKey, ClaimSpec] = field(default_factory=dict)


NO_DEVICES: Final = DeviceObjects()
