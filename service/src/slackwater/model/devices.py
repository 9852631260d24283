"""Devices of dynamic resource allocation (resource.k8s.io/v1), with the fields that placement reads.

Drivers publish devices in slices, claims request devices, classes define which devices a request may take. Amounts (capacity,
counters) are integers in units of 10^-9, so that every quantity of the API is exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Struct

from slackwater.model.pod_constraints import NodeSelectorTerm

#: Every DeviceClass backs the extended resource named by this prefix and the class's name, in addition to the one that its spec
#: names.
CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
#: The API's limit of devices in one allocation.
MOST_RESULTS: Final = 32
#: The key of a claim or a claim template: namespace and name.
ClaimKey = tuple[str, str]


class DeviceId(NamedTuple):
    """A device: its driver, its pool, and its name in the pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version, as text."""

    text: str


#: The value of an attribute. None stands for a kind of value that kube-scheduler does not read by default, such as a list.
Attribute = str | int | bool | Version | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPolicy:
    """How much of a capacity a request may consume: one of `values`, or an amount from `least` to `most` in steps of `step`.

    `default` applies if a request states no amount. `ranged`: the policy has a range, even if no bound of it is set.
    """

    default: int | None = None
    values: tuple[int, ...] = ()
    ranged: bool = False
    least: int | None = None
    most: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """An amount of something that a device has, such as memory. `policy` limits what a request may consume of it. `unreduced`:
    its text is a quantity that Kubernetes does not read as an integer, even if the amount is whole (2000m, 1Pi)."""

    name: str
    amount: int
    policy: RequestPolicy | None = None
    unreduced: bool = False


class DeviceTaint(Struct, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(Struct, frozen=True):
    """A device taint that a request tolerates. An empty key tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class CounterSet:
    """A set of counters that devices of a pool share, or what one device consumes of it: pairs of counter name and amount."""

    name: str
    counters: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """The nodes that can use a slice or a device: one by name, or every node, or those that `terms` select. None of these set:
    no node."""

    name: str = ""
    every: bool = False
    terms: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a slice. `nodes` is set if the slice leaves the choice of nodes to its devices.

    `shareable`: several requests may share the device, each consuming some of its capacity. `binding` are conditions that must
    become true before a pod may use the device; `failures` are conditions that say that they never will.
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
    """A part of a pool of devices, published by a driver. Only the newest generation of a pool is used.

    A pool is complete when it has `slices` slices of that generation. `per_device`: each device states its own nodes. A slice
    has either devices, or counters that devices of the pool share.
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
    """A DeviceClass: CEL selectors that its devices must meet, and the extended resource that it backs. `created` is its
    creation time: of several classes that back the same resource the newest is used."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str | None = None
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """What a request, or one of its alternatives, asks for: `count` devices (None: all) that the class and the selectors
    accept.

    `consumes` are amounts of a device's capacity. With `admin` access the ask may get devices that others use, and its own
    allocation does not put a device in use.
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
    """A request of a claim: a single ask, or several alternatives (`firstAvailable`), of which the first that can be allocated
    is used."""

    name: str
    asks: tuple[DeviceAsk, ...]
    alternatives: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConstraint:
    """A constraint of a claim: the devices of `requests` (empty: of all requests) have the same value of the attribute, or with
    `distinct` all different ones."""

    attribute: str
    distinct: bool
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What a claim asks for. Claims with equal specs can be allocated on the same nodes."""

    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """A device of an allocation. If requests share the device, `share` is the id of this request's share, and `consumed` the
    capacity that it consumes.

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

    `failed`: one of its devices reports a condition that says that binding will never be complete. `extended`: kube-scheduler
    created the claim for a pod's extended resources.
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


DRA_DRIVER: Final = "capacity.cluster-autoscaler.kubernetes.io/dra-driver"
GPU_COUNT: Final = "capacity.cluster-autoscaler.kubernetes.io/gpu-count"
#: The API's limit of devices in one ResourceSlice.
MOST_DEVICES: Final = 128
_MOST_DIGITS: Final = 3


def template_slice(
    driver: str, count: int, *, attributes: Mapping[str, Attribute] | None = None, capacity: Mapping[str, int] | None = None
) -> ResourceSlice:
    """The ResourceSlice of a template node: `count` equal devices of the driver. `capacity` is in units of 10^-9. The pool has
    no name yet: each planned node's pool gets the node's name."""
    has = tuple(sorted((attributes or {}).items(), key=lambda item: item[0]))
    holds = tuple(Capacity(name=name, amount=amount) for name, amount in sorted((capacity or {}).items()))
    return ResourceSlice(
        name=driver,
        driver=driver,
        pool="",
        generation=1,
        slices=1,
        nodes=NodeChoice(name="template"),
        devices=tuple(Device(name=f"gpu-{at}", attributes=has, capacity=holds) for at in range(count)),
    )


def read_template_devices(annotations: Mapping[str, str]) -> tuple[ResourceSlice, ...]:
    """The ResourceSlices that a template's annotations state; empty without a driver or a count. Raises ValueError."""
    driver, count = annotations.get(DRA_DRIVER, "").strip(), annotations.get(GPU_COUNT, "").strip()
    if not driver or not count:
        return ()
    if not (count.isascii() and count.isdecimal() and len(count) <= _MOST_DIGITS and int(count) <= MOST_DEVICES):
        raise ValueError(f"annotation {GPU_COUNT}: got {count!r:.40}, want a whole number from 0 to {MOST_DEVICES}")
    return (template_slice(driver, int(count), attributes={"type": "gpu"}),) if int(count) else ()
