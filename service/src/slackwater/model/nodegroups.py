"""Node groups as their provider reports them: their sizes, instances, options and templates.

A provider's answer, refreshed once a loop, becomes these values. What is remembered of a group between loops (cool-downs,
back-off, requested sizes) is in `cluster.nodegroups`. This module decides nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NewType

from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import ZONE, Node
from slackwater.model.resources import NOTHING
from slackwater.model.storage import CsiNode
from slackwater_protocol.names import NODE_GROUP

GroupName = NewType("GroupName", str)
#: The provider's name of a machine, which a Node carries as `spec.providerID`.
InstanceId = NewType("InstanceId", str)

#: - out-of-resources: the provider has no more such machines for now.
#: - quota: the quota of the account is used up.
#: - other: anything else.
InstanceErrorKind = Literal["out-of-resources", "quota", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceError:
    """Why an instance was not created: `code` is the provider's error code, `message` its text."""

    kind: InstanceErrorKind
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine of a group, whether its node has registered or not.

    `node` is the name of its Node, None if the provider does not know it: the Node is then found by `id`. States: "creating":
    the machine is being created; with an `error` it will not come unless it is requested again. "running": the machine exists,
    but its Node may still be missing. `drifted`: why the provider says that the machine is not as a new one, "" if it does not.
    """

    id: InstanceId
    state: Literal["creating", "running", "deleting"]
    node: NodeName | None = None
    error: InstanceError | None = None
    drifted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineWarning:
    """A cloud's warning that a machine will stop at a time (Unix seconds), or may stop soon (None). `text`: why."""

    machine: InstanceId
    stops_at: UnixTime | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """A provider's options for one group. If a field is None, the value of the configuration file applies."""

    utilization_threshold: float | None = None
    gpu_utilization_threshold: float | None = None
    unneeded_time: float | None = None
    unready_time: float | None = None
    #: An instance whose node has not registered and started after this time counts as lost.
    provision_seconds: float | None = None
    ignore_daemon_sets_utilization: bool | None = None
    #: The group must be either empty or at its maximum size.
    all_or_nothing: bool | None = None
    #: The age in seconds at which nodes are replaced; 0: never.
    expire_after: float | None = None
    disruption_budgets: tuple[NodeDisruptionBudget, ...] | None = None
    #: For the expander `priority`: higher goes first.
    priority: int | None = None


NO_OPTIONS: Final = GroupOptions()


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """Who chooses the variant of a new node, in a group whose nodes differ by instance type, capacity type or zone.

    `types` (of instances and of capacity) and `zones`: "cloud": the cloud, so any that the group's nodes show may come. "plan":
    whoever makes the node takes the variant that a plan names. "template": nobody, each new node is as the template says.
    "evenly": the cloud creates the next node in the zone with the fewest.
    """

    types: Literal["cloud", "plan", "template"] = "cloud"
    zones: Literal["cloud", "plan", "template", "evenly"] = "cloud"

    def settled_by(self, template: Node) -> "VariantChoice":
        """The choice that is left if each new node has what the template says."""
        types, zones = self.types, self.zones
        if template.allocatable != NOTHING:
            types = "template"
        return VariantChoice(types, "template" if ZONE in template.labels else zones)


CLOUD_CHOOSES: Final = VariantChoice()
#: Scaling groups of AWS, Azure, Google Cloud and Oracle.
EVEN_ZONES: Final = VariantChoice(zones="evenly")
AS_TEMPLATE: Final = VariantChoice("template", "template")


def choice_of_provider(provider: str, id_: str) -> VariantChoice:
    """Who chooses the variant of a provider's new nodes (ADR 269). `id_`: the provider's name of the group.

    kwok copies the template. A group of karpenter is one variant of a NodePool. A MachineDeployment or MachineSet of Cluster
    API has one machine template, and the infrastructure provider chooses the zone unless the template does; a MachinePool is a
    cloud's scaling group. So are the groups of aws, and those of nearly every server of externalgrpc.
    """
    if provider in ("aws", "externalgrpc") or id_.startswith("MachinePool/"):
        return EVEN_ZONES
    return {"kwok": AS_TEMPLATE, "karpenter": AS_TEMPLATE, "clusterapi": VariantChoice(types="template")}.get(
        provider, CLOUD_CHOOSES
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A node group as its provider reports it now.

    `target` counts existing, upcoming and requested instances, but none that is being deleted. `template` is an example of a
    new node, None if the provider cannot say: a real node of the group is then copied. `undeletable`: why the provider would
    refuse to delete machines of the group now, "" if it knows of no reason. `price_micros`: the provider's price of one such
    node for an hour, in millionths of its currency; None if it says none. `choice`: who chooses the variant of a new node. No
    provider takes a variant from us yet, so none says "plan". `id`: the provider's name of the group, "" if that is `name`.
    `owned_by`: the annotation of the group's own object that names its autoscaler; None without it. `zones`: those in which new
    nodes come, if the provider knows them; else the group's nodes show them. `held_by`: the other autoscaler that still changes
    the group, as a text, "" if the provider knows that none does; None if it does not know. `pool`: groups of the same pool
    share their disruption budgets; "" for a group by itself. `unreadable`: what of the group the provider cannot read, and why,
    as a text that names the object; "" if it can read all. Then `name`, `provider` and `pool` are facts, and the instances,
    though some may be missing.
    """

    name: GroupName
    provider: str
    min_size: int
    max_size: int
    target: int
    instances: tuple[Instance, ...]
    template: Node | None = None
    options: GroupOptions = NO_OPTIONS
    undeletable: str = ""
    price_micros: int | None = None
    choice: VariantChoice = CLOUD_CHOOSES
    id: str = ""
    owned_by: str | None = None
    zones: tuple[str, ...] = ()
    held_by: str | None = None
    pool: str = ""
    unreadable: str = ""


class Membership:
    """Maps a node to its group: the group that the node's label names, else the group whose provider knows the node's machine.

    The label counts only if it names one of the groups, so that a node copied from another cluster belongs to none.
    """

    def __init__(self, groups: Iterable[NodeGroup]) -> None:
        known = tuple(groups)
        self._names = frozenset(group.name for group in known)
        self._by_id = {instance.id: group.name for group in known for instance in group.instances}

    def group_of(self, node: Node) -> GroupName | None:
        label = GroupName(node.labels.get(NODE_GROUP, ""))
        if label in self._names:
            return label
        return self._by_id.get(InstanceId(node.provider_id)) if node.provider_id else None


CSI_DRIVERS: Final = "capacity.cluster-autoscaler.kubernetes.io/csi-driver"
#: The largest limit that the API allows (int32).
_MOST: Final = 2**31 - 1
_MOST_DIGITS: Final = 10


def read_attach_limits(text: str) -> CsiNode | None:
    """Reads the annotation with the volume limits of a group's new nodes. Returns a CsiNode without a name, or None if the text
    names no driver.

    A group without nodes has no CSINode that shows the limits. The form is Cluster Autoscaler's,
    `ebs.csi.aws.com=25,efs.csi.aws.com`: a driver without a number is installed and attaches any number of volumes. Raises
    ValueError.
    """
    drivers: dict[str, int | None] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        driver, equals, limit = (part.strip() for part in entry.partition("="))
        if not driver or driver in drivers:
            raise ValueError(f"{entry!r:.80}, want driver=limit, each driver once")
        drivers[driver] = _limit(entry, limit) if equals else None
    return CsiNode(name="", drivers=tuple(drivers.items())) if drivers else None


def _limit(entry: str, text: str) -> int:
    readable = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not readable or int(text) > _MOST:
        raise ValueError(f"{entry!r:.80}, want driver=limit with a whole number from 0 to {_MOST}")
    return int(text)
