"""Nodes, pods and disruption budgets, with only the fields that decisions read.

`adapters.kube` decodes the API's objects into these once; nothing here keeps a reference to the JSON. `read_preempting` reads
the annotation of a preemptor.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, structs

from slackwater.model.devices import ResourceSlice
from slackwater.model.eviction_facts import NO_EVICTION_FACTS, EvictionFacts
from slackwater.model.ids import NodeName, PodKey, PodUid, UnixTime
from slackwater.model.pod_constraints import Kind
from slackwater.model.resources import Amounts
from slackwater.model.selectors import Requirement
from slackwater.model.storage import CsiNode
from slackwater.model.vertical import Vertical
from slackwater_protocol.names import OWNED_BY

#: The first words of the message in a victim's condition; the preemptor's name follows. `controllers.history` reads them again.
VICTIM_MESSAGE: Final = "slackwater: preempting to accommodate the higher priority pod "


class OngoingPreemption(Struct, frozen=True):
    """A preemption under way: the node where room is made, and the pods that have to leave it."""

    node: NodeName
    victims: tuple[PodUid, ...]


def read_preempting(text: str | None) -> OngoingPreemption | None:
    """Reads a preemptor's annotation `slackwater.dev/preempting`, the part of a preemption that outlives the process. None if
    it is missing or cannot be read.

    The text is `{"node": "n", "victims": ["uid", ...]}`. It is written before the first victim is deleted.
    """
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=OngoingPreemption)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


_DAEMON_SET: Final = ("apps", "DaemonSet")

#: Sorted (key, value) pairs; the adapter gives equal ones the same instance.
Labels = tuple[tuple[str, str], ...]


#: The part of the annotation `slackwater.dev/owned-by` that is kept, in characters: it is shown to people.
_LONGEST_OWNER: Final = 100


def read_owner(annotations: Mapping[str, str]) -> str | None:
    """The autoscaler that the annotation `slackwater.dev/owned-by` names, cut off where it is long; None without it."""
    owner = annotations.get(OWNED_BY)
    return owner if owner is None or len(owner) <= _LONGEST_OWNER else f"{owner[:_LONGEST_OWNER]}..."


class Taint(Struct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Image(Struct, frozen=True):
    """An image that a node has: all names of the image, and its size in bytes."""

    names: tuple[str, ...]
    size: int


class Node(Struct, frozen=True, kw_only=True):
    """A node. `allocatable` is capacity if the node reports no allocatable.

    `scalars` are the other allocatable resources, sorted by name: the count of pods, ephemeral-storage, huge pages, extended
    resources. `features` are those that its kubelet declares. `provider_id` is the provider's id of the machine, or "". `keep`:
    the annotation that forbids the removal of the node, or "". `deletion_delayed`: annotations delay the deletion of the node.
    `cordoned_by_us`: an annotation says that we made the node unschedulable. `owned_by`: the annotation that names the
    autoscaler of the node's group; None without it. `csi` and `slices` are set only on templates of
    nodes: what the CSINode and ResourceSlices of a new node will have. For an existing node these are objects of their own.
    """

    name: NodeName
    uid: str
    resource_version: int
    allocatable: Amounts
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    scalars: tuple[tuple[str, int], ...] = ()
    images: tuple[Image, ...] = ()
    features: tuple[str, ...] = ()
    provider_id: str = ""
    keep: str = ""
    deletion_delayed: bool = False
    cordoned_by_us: bool = False
    owned_by: str | None = None
    created_at: UnixTime | None = None  #: None where the object does not say
    csi: CsiNode | None = None
    slices: tuple[ResourceSlice, ...] = ()


#: Labels that say what a node's machine is; the last two are Karpenter's.
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
NODE_POOL: Final = "karpenter.sh/nodepool"

#: The labels that the API server copies from a node to the pods that are bound to it, by the admission plug-in
#: PodTopologyLabels (KEP-4742).
COPIED_LABELS: Final = frozenset({ZONE, REGION})


@lru_cache(maxsize=8_192)
def _without_copied(labels: Labels) -> Labels:
    left = tuple(each for each in labels if each[0] not in COPIED_LABELS)
    return left if len(left) < len(labels) else labels


class Pod(Struct, frozen=True, kw_only=True, gc=False):
    """A pod.

    `node` is None until the pod is bound. `ended` is true from phase Succeeded or Failed on: such a pod takes no room.
    `unschedulable_message` is the text of condition PodScheduled=False, reason Unschedulable: the scheduler's latest message.
    `ready` is false if condition Ready exists and is not True. `starting` is true in phase Pending, with or without a node.
    `overdue_at` is when a pod that is being deleted should have ended: its deletion timestamp plus its grace period; None for
    every other pod. `successor` is set only if the node calls the pod's resize infeasible: the `Kind` of the pod that its
    controller makes next, which requests the larger amounts.
    """

    uid: PodUid
    key: PodKey
    resource_version: int
    labels: Labels
    kind: Kind
    node: NodeName | None
    ended: bool
    deleting: bool
    priority: int
    created_at: str
    started_at: str
    nominated_node: NodeName | None
    unschedulable_message: str | None
    #: The amounts and bounds of a workload that grows in place; None for every other pod.
    vertical: Vertical | None = None
    #: Why the annotations of a pod that grows in place cannot be read; the pod then counts as an ordinary one, and is not
    #: placed.
    vertical_problem: str | None = None
    eviction_facts: EvictionFacts = NO_EVICTION_FACTS
    ready: bool = True
    overdue_at: UnixTime | None = None
    #: The pod's termination grace period.
    grace_seconds: int = 30
    #: The preemption of a pending preemptor: see `read_preempting`.
    preempting: OngoingPreemption | None = None
    #: Names in `spec.schedulingGates`, perhaps with ours: no scheduler looks at the pod while there are any.
    gates: tuple[str, ...] = ()
    #: For how long after the pod's creation no node may be added for it, by its annotation.
    scale_up_delay_seconds: float | None = None
    #: For how long after its first refusal the pod preempts nobody, by its annotation.
    preemption_delay_seconds: float = 0.0
    #: The ProvisioningRequest that provides the pod's nodes; empty if none does.
    provisioning_request: str = ""
    successor: Kind | None = None
    starting: bool = False
    #: The condition DisruptionTarget as "reason: message": who is ending the pod; None if nobody has said so.
    disruption: str | None = None

    @property
    def renewed_kind(self) -> Kind:
        """The `Kind` of the pod that the controller makes after this one."""
        return self.successor or self.kind

    @property
    def renewed_labels(self) -> Labels:
        """The labels of the pod that the controller makes after this one."""
        return _without_copied(self.labels)

    @property
    def group(self) -> tuple[Kind, Labels, int]:
        """What the pod has in common with the pod that its controller makes after it: needs, labels and priority."""
        return self.renewed_kind, self.renewed_labels, self.priority

    @property
    def pending(self) -> bool:
        """Has the pod no node, and has it not ended?"""
        return self.node is None and not self.ended

    @property
    def migratable(self) -> bool:
        """Is the pod a virtual machine that may be migrated? A protection for a time does not count here, since this code has
        no wall clock; drains check it (`fit.drainability`)."""
        return self.vertical is not None and self.vertical.migratable and self.eviction_facts.do_not_disrupt != math.inf

    def expendable(self, cutoff: int) -> bool:
        """Does the pod neither keep a node nor take room, because its priority is below `cutoff`?"""
        return self.priority < cutoff and not self.eviction_facts.do_not_disrupt

    def on(self, node: NodeName) -> "Pod":
        """A copy of the pod with this node."""
        return structs.replace(self, node=node)

    @property
    def need(self) -> Amounts:
        """What the pod needs of a node in our accounting: what it uses now if it grows in place, else its requests."""
        return self.kind.requests if self.vertical is None else self.vertical.using


class BudgetRule(Struct, frozen=True, kw_only=True):
    """The rule in a PodDisruptionBudget's spec: maxUnavailable if `unavailable` is true, else minAvailable. `amount` is a
    number of pods, or a percentage of the expected pods if `percent` is true."""

    amount: int
    percent: bool
    unavailable: bool

    @property
    def allows_none(self) -> bool:
        """Whether it allows no disruption, however many pods there are."""
        return self.amount == 0 if self.unavailable else self.percent and self.amount >= 100

    @property
    def text(self) -> str:
        return f"{self.amount}%" if self.percent else str(self.amount)


class DisruptionBudget(Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget: how many more of the pods that it selects may be disrupted now.

    `selector` is None if the budget has none: it then selects nothing; an empty one selects every pod of the namespace.
    `unready_may_go`: the Eviction API evicts a pod that is not ready whatever `disruptions_allowed` says, because the
    budget's `unhealthyPodEvictionPolicy` is AlwaysAllow or enough pods are healthy. `is_counted`: a controller has written
    its status, or nothing has to be counted. `disrupted` are the names of pods whose eviction `disruptions_allowed` already
    includes although they still exist (`status.disruptedPods`). `rule` is what the spec says; None if that is not known.
    `lacking`: how many more pods would have to be healthy until the budget counts disruptions, for people.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    selector: tuple[Requirement, ...] | None
    disruptions_allowed: int
    unready_may_go: bool = False
    is_counted: bool = True
    disrupted: tuple[str, ...] = ()
    rule: BudgetRule | None = None
    lacking: int = 0


#: Labels and taints of nodes on which the control plane runs: kubeadm's, its former one, and that of dedicated etcd nodes.
_CONTROL_PLANE: Final = frozenset(f"node-role.kubernetes.io/{role}" for role in ("control-plane", "master", "etcd"))


def runs_control_plane(node: Node) -> bool:
    return not _CONTROL_PLANE.isdisjoint(node.labels) or any(taint.key in _CONTROL_PLANE for taint in node.taints)


def is_daemon(pod: Pod) -> bool:
    """Whether the pod belongs to its node: a DaemonSet's pod, a mirror pod, or a pod whose annotation says that it counts as a
    DaemonSet's."""
    owner = pod.eviction_facts.owner
    return (
        pod.eviction_facts.daemon
        or pod.eviction_facts.mirror_pod
        or (owner is not None and (owner.group, owner.kind) == _DAEMON_SET)
    )


@lru_cache(maxsize=8_192)
def created_at_of(text: str) -> UnixTime:
    """Converts a creation time in the API's format to Unix time; 0 for an empty text, which pods from a manifest have."""
    if not text:
        return UnixTime(0.0)
    at = datetime.fromisoformat(text)
    return UnixTime((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp())
