"""The closed lists of reasons: verdicts, wait reasons and unremovable reasons.

- `Reason`: why a node does not suit a pod, or why a request was refused.
- `WaitReason`: why something waits, where neither of the other lists explains it.
- `UnremovableReason`: why a node is not removed, for now or permanently.

The text that kube-scheduler shows, the label of a metric, the reason of an Event and the answers of explain all come from here.
"""

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple


class Reason(IntEnum):
    """A verdict on one node for one pod, or on one request. Columns of verdicts store its number as uint8.

    Texts name no amounts and no objects: kube-scheduler counts equal texts ("0/50 nodes are available: 30 Slackwater: not
    enough CPU") and would otherwise print one for each node.
    """

    OK = 0
    NODE_UNKNOWN = 1
    NOT_ENOUGH_CPU = 2
    NOT_ENOUGH_MEMORY = 3
    CPU_ABOVE_TOTAL = 4
    MEMORY_ABOVE_TOTAL = 5
    HELD_FOR_OTHERS = 6
    BIND_DENIED = 7
    NODE_UNSCHEDULABLE = 8
    TAINT_NOT_TOLERATED = 9
    NODE_AFFINITY = 10
    POD_UNKNOWN = 11
    POD_BOUND_ELSEWHERE = 12
    POD_FINISHED = 13
    API_REFUSED = 14
    API_UNREACHABLE = 15
    MISSING_REQUEST = 16
    VERTICAL_UNREADABLE = 17
    TARGET_NODE_ELSEWHERE = 18
    NODE_NAME = 19
    NODE_LEFT_OUT = 20
    AFFINITY_CONFLICT = 21
    HOST_PORTS = 22
    RESOURCES_SHORT = 23
    RESOURCES_ABOVE_NODE = 24
    DISK_CONFLICT = 25
    CLAIM_IN_USE = 26
    CLAIM_NOT_FOUND = 27
    VOLUME_LIMIT = 28
    CLAIM_UNUSABLE = 29
    CLAIM_UNBOUND = 30
    VOLUME_NODE_CONFLICT = 31
    VOLUME_BIND_CONFLICT = 32
    STORAGE_SHORT = 33
    VOLUME_NOT_FOUND = 34
    VOLUME_ZONE = 35
    VOLUME_ZONE_UNKNOWN = 36
    SPREAD_LABEL_MISSING = 37
    SPREAD_SKEW = 38
    POD_AFFINITY = 39
    POD_ANTI_AFFINITY = 40
    EXISTING_ANTI_AFFINITY = 41
    RESOURCE_CLAIMS = 42
    NODE_FEATURES = 43
    GATED = 44
    ROOM_NOT_ON_RECORD = 45
    NODE_QUARANTINED = 46
    NODE_NOT_CHOSEN = 47
    CSI_DRIVER_MISSING = 48
    DEVICES_SHORT = 49
    CLAIM_ELSEWHERE = 50
    DEVICE_POOL_INVALID = 51
    DEVICE_CLASS_MISSING = 52
    DEVICES_FAILED = 53
    DEVICES_NOT_MODELLED = 54
    NODE_AFFINITY_ENFORCED = 55


class ReasonInfo(NamedTuple):
    """What people and metrics see of a reason: its label and text, whether preemption could help, and the plug-in that it
    belongs to."""

    label: str  #: in metrics and JSON
    text: str  #: for people; constant for each reason
    resolvable: bool  #: could evicting pods from the node help? (kube-scheduler: Unschedulable, else ...AndUnresolvable)
    plugin: str = "Slackwater"  #: the plug-in of kube-scheduler's default profile whose text it is, or Slackwater


MEANINGS: Final[dict[Reason, ReasonInfo]] = {
    Reason.OK: ReasonInfo("ok", "fits", True),
    Reason.NODE_UNKNOWN: ReasonInfo("node_unknown", "Slackwater: the node is not in its cluster state yet", True),
    Reason.NOT_ENOUGH_CPU: ReasonInfo("not_enough_cpu", "Slackwater: not enough CPU", True),
    Reason.NOT_ENOUGH_MEMORY: ReasonInfo("not_enough_memory", "Slackwater: not enough memory", True),
    Reason.CPU_ABOVE_TOTAL: ReasonInfo("cpu_above_total", "Slackwater: the pod asks more CPU than the node has", False),
    Reason.MEMORY_ABOVE_TOTAL: ReasonInfo(
        "memory_above_total", "Slackwater: the pod asks more memory than the node has", False
    ),
    Reason.HELD_FOR_OTHERS: ReasonInfo("held_for_others", "Slackwater: the room is held for pods about to be bound", True),
    Reason.BIND_DENIED: ReasonInfo("bind_denied", "Slackwater: a bind of the pod to the node was denied", True),
    Reason.NODE_UNSCHEDULABLE: ReasonInfo("node_unschedulable", "node(s) were unschedulable", False, "NodeUnschedulable"),
    Reason.TAINT_NOT_TOLERATED: ReasonInfo("taint_not_tolerated", "node(s) had untolerated taint(s)", False, "TaintToleration"),
    Reason.NODE_AFFINITY: ReasonInfo(
        "node_affinity", "node(s) didn't match Pod's node affinity/selector", False, "NodeAffinity"
    ),
    Reason.NODE_AFFINITY_ENFORCED: ReasonInfo(
        "node_affinity_enforced", "node(s) didn't match scheduler-enforced node affinity", False, "NodeAffinity"
    ),
    Reason.POD_UNKNOWN: ReasonInfo("pod_unknown", "Slackwater: the pod is not in its cluster state", False),
    Reason.POD_BOUND_ELSEWHERE: ReasonInfo("pod_bound_elsewhere", "Slackwater: the pod is bound to another node", False),
    Reason.POD_FINISHED: ReasonInfo("pod_finished", "Slackwater: the pod has ended or is being deleted", False),
    Reason.API_REFUSED: ReasonInfo("api_refused", "Slackwater: the API server refused the binding", True),
    Reason.API_UNREACHABLE: ReasonInfo("api_unreachable", "Slackwater: the API server did not answer in time", True),
    Reason.MISSING_REQUEST: ReasonInfo("missing_request", "Slackwater: a container lacks a resource request", False),
    Reason.VERTICAL_UNREADABLE: ReasonInfo(
        "vertical_unreadable", "Slackwater: the annotations of a workload that grows in place cannot be read", False
    ),
    Reason.TARGET_NODE_ELSEWHERE: ReasonInfo(
        "target_node_elsewhere", "Slackwater: the migration has its room on another node", False
    ),
    Reason.NODE_NAME: ReasonInfo("node_name", "node(s) didn't match the requested node name", False, "NodeName"),
    Reason.NODE_LEFT_OUT: ReasonInfo("node_left_out", "node(s) didn't satisfy plugin(s) [NodeAffinity]", False, "NodeAffinity"),
    Reason.AFFINITY_CONFLICT: ReasonInfo("affinity_conflict", "pod affinity terms conflict", False, "NodeAffinity"),
    Reason.HOST_PORTS: ReasonInfo(
        "host_ports", "node(s) didn't have free ports for the requested pod ports", True, "NodePorts"
    ),
    Reason.RESOURCES_SHORT: ReasonInfo("resources_short", "Insufficient resources", True, "NodeResourcesFit"),
    Reason.RESOURCES_ABOVE_NODE: ReasonInfo("resources_above_node", "Insufficient resources", False, "NodeResourcesFit"),
    Reason.DISK_CONFLICT: ReasonInfo("disk_conflict", "node(s) had no available disk", True, "VolumeRestrictions"),
    Reason.CLAIM_IN_USE: ReasonInfo(
        "claim_in_use",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        True,
        "VolumeRestrictions",
    ),
    Reason.CLAIM_NOT_FOUND: ReasonInfo("claim_not_found", "persistentvolumeclaim not found", False, "VolumeRestrictions"),
    Reason.VOLUME_LIMIT: ReasonInfo("volume_limit", "node(s) exceed max volume count", True, "NodeVolumeLimits"),
    Reason.CSI_DRIVER_MISSING: ReasonInfo(
        "csi_driver_missing", "CSI driver is not installed on the node", True, "NodeVolumeLimits"
    ),
    Reason.CLAIM_UNUSABLE: ReasonInfo("claim_unusable", "persistentvolumeclaim cannot be used", False, "VolumeBinding"),
    Reason.CLAIM_UNBOUND: ReasonInfo(
        "claim_unbound", "pod has unbound immediate PersistentVolumeClaims", False, "VolumeBinding"
    ),
    Reason.VOLUME_NODE_CONFLICT: ReasonInfo(
        "volume_node_conflict", "node(s) didn't match PersistentVolume's node affinity", False, "VolumeBinding"
    ),
    Reason.VOLUME_BIND_CONFLICT: ReasonInfo(
        "volume_bind_conflict", "node(s) didn't find available persistent volumes to bind", False, "VolumeBinding"
    ),
    Reason.STORAGE_SHORT: ReasonInfo("storage_short", "node(s) did not have enough free storage", False, "VolumeBinding"),
    Reason.VOLUME_NOT_FOUND: ReasonInfo(
        "volume_not_found", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", False, "VolumeBinding"
    ),
    Reason.VOLUME_ZONE: ReasonInfo("volume_zone", "node(s) had no available volume zone", False, "VolumeZone"),
    Reason.VOLUME_ZONE_UNKNOWN: ReasonInfo("volume_zone_unknown", "the zone of a volume is not known", False, "VolumeZone"),
    Reason.SPREAD_LABEL_MISSING: ReasonInfo(
        "spread_label_missing",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        False,
        "PodTopologySpread",
    ),
    Reason.SPREAD_SKEW: ReasonInfo(
        "spread_skew", "node(s) didn't match pod topology spread constraints", True, "PodTopologySpread"
    ),
    Reason.POD_AFFINITY: ReasonInfo("pod_affinity", "node(s) didn't match pod affinity rules", False, "InterPodAffinity"),
    Reason.POD_ANTI_AFFINITY: ReasonInfo(
        "pod_anti_affinity", "node(s) didn't match pod anti-affinity rules", True, "InterPodAffinity"
    ),
    Reason.EXISTING_ANTI_AFFINITY: ReasonInfo(
        "existing_anti_affinity", "node(s) didn't satisfy existing pods anti-affinity rules", True, "InterPodAffinity"
    ),
    Reason.RESOURCE_CLAIMS: ReasonInfo(
        "resource_claims", "a resource claim of the pod cannot be used", False, "DynamicResources"
    ),
    Reason.NODE_FEATURES: ReasonInfo(
        "node_features", "node(s) didn't match Pod's required features", False, "NodeDeclaredFeatures"
    ),
    Reason.GATED: ReasonInfo("gated", "Slackwater: the pod waits for the victims of its preemption to leave", False),
    Reason.ROOM_NOT_ON_RECORD: ReasonInfo(
        "room_not_on_record", "Slackwater: room that others gave back is not on record as free yet", True
    ),
    Reason.NODE_QUARANTINED: ReasonInfo(
        "node_quarantined", "Slackwater: the node's sums do not add up, so nothing new is placed there until they do", False
    ),
    Reason.DEVICES_SHORT: ReasonInfo("devices_short", "cannot allocate all claims", False, "DynamicResources"),
    Reason.CLAIM_ELSEWHERE: ReasonInfo("claim_elsewhere", "resourceclaim not available on the node", False, "DynamicResources"),
    Reason.DEVICE_POOL_INVALID: ReasonInfo(
        "device_pool_invalid", "invalid resource pools were encountered", False, "DynamicResources"
    ),
    Reason.DEVICE_CLASS_MISSING: ReasonInfo("device_class_missing", "a device class does not exist", False, "DynamicResources"),
    Reason.DEVICES_FAILED: ReasonInfo(
        "devices_failed", "kube-scheduler fails to judge the pod's resource claims", False, "DynamicResources"
    ),
    Reason.DEVICES_NOT_MODELLED: ReasonInfo(
        "devices_not_modelled", "Slackwater: the pod's resource claims need a rule that it does not model", False
    ),
    Reason.NODE_NOT_CHOSEN: ReasonInfo("node_not_chosen", "Slackwater: another node was chosen for the pod", True),
}


class WaitReason(StrEnum):
    """Why something does not happen, or need not happen. Explain uses these where no `Reason` and no `UnremovableReason`
    applies."""

    # A pod.
    PLACED = "placed"
    ENDED = "ended"
    SCHEDULER_FREE = "fits_already"
    SCHEDULER_UNKNOWN = "scheduler_unknown"
    PARTLY_JUDGED = "partly_judged"
    SCHEDULING_GATES = "scheduling_gates"
    NOT_COUNTED = "not_counted_for_growth"
    NO_NODES = "no_nodes"
    COMING = "node_coming"
    # A node.
    REMOVABLE = "removable"
    # A group does not grow. Plans use the first seven.
    SWITCHED_OFF = "switched-off"
    NOT_READY = "not-ready"
    BACKOFF = "backoff"
    NO_TEMPLATE = "no-template"
    LIMIT = "limit"
    TIME = "time"
    ERROR = "error"
    NOT_NEEDED = "not_needed"
    GROWS = "grows"
    # A permit.
    GRANTED = "granted"
    NODE_FULL = "node_full"
    NOT_ON_RECORD = "not_on_record"
    NOT_HEARD = "not_heard"
    FENCED = "fenced"
    # A migration.
    NO_TARGET_NODE = "no_target_node"
    UNDER_WAY = "under_way"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    # A gate.
    VICTIMS_LEAVE = "victims_leave"


WAIT_TEXTS: Final[dict[WaitReason, str]] = {
    WaitReason.PLACED: "the pod has a node",
    WaitReason.ENDED: "the pod has ended or is being deleted",
    WaitReason.SCHEDULER_FREE: "the pod fits; the scheduler has not placed it yet",
    WaitReason.SCHEDULER_UNKNOWN: "no scheduler of this name is known: it has placed no pod, and has not tried this one",
    WaitReason.PARTLY_JUDGED: "the pod fits by the rules that could be judged; the notes name the others",
    WaitReason.SCHEDULING_GATES: "the pod has scheduling gates: no scheduler looks at it",
    WaitReason.NOT_COUNTED: "no node is added for the pod",
    WaitReason.NO_NODES: "there is no node",
    WaitReason.COMING: "a node that is on its way takes the pod",
    WaitReason.REMOVABLE: "the node can be removed: its pods fit elsewhere",
    WaitReason.SWITCHED_OFF: "the group is switched off",
    WaitReason.NOT_READY: "the group is not well, or its provider does not answer",
    WaitReason.BACKOFF: "the group failed to grow a short while ago",
    WaitReason.NO_TEMPLATE: "nobody knows what a node of the group looks like",
    WaitReason.LIMIT: "the group, a quota or the cluster is at its maximum",
    WaitReason.TIME: "planning took too long",
    WaitReason.ERROR: "planning for it raised an error",
    WaitReason.NOT_NEEDED: "no pending pod needs a node of the group",
    WaitReason.GROWS: "a plan made now would add nodes to the group",
    WaitReason.GRANTED: "the agent has all that it asked for",
    WaitReason.NODE_FULL: "the node has no room for what was asked for",
    WaitReason.NOT_ON_RECORD: "the permit waits until it is written",
    WaitReason.NOT_HEARD: "the agent has not been heard since the start: its largest permit is held for it",
    WaitReason.FENCED: "the pod may not grow until a write has ended",
    WaitReason.NO_TARGET_NODE: "no other node has room for the pod",
    WaitReason.UNDER_WAY: "the migration is under way",
    WaitReason.QUEUED: "the pod waits in its node's queue: others migrate before it",
    WaitReason.BACKING_OFF: "a migration of the pod failed a short while ago",
    WaitReason.VICTIMS_LEAVE: "the pod waits for the victims of its preemption to leave",
}


class UnremovableReason(StrEnum):
    """Why a node is not removed, for now or permanently: one of its pods keeps it, it is no candidate, it is a candidate that
    is not removed now, or its removal was rolled back.

    The names are Cluster Autoscaler's where it has such a reason, since people and dashboards know them. Reasons of a pod come
    from the rules of `fit.drainability`. `NO_PLACE` comes from the search for another node, whose verdicts are in `Reason`.
    Reasons of the node come from the plan and its batch (`controllers.scaledown`), those of a removal under way from
    `controllers.scaledown.drains`.
    """

    # A pod keeps the node.
    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS_REACHED = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    UNMOVABLE_SYSTEM_POD = "UnmovableKubeSystemPod"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
    DO_NOT_DISRUPT = "DoNotDisruptAnnotation"
    LOCAL_STORAGE = "LocalStorageRequested"
    MACHINE_CANNOT_MIGRATE = "MachineCannotMigrate"
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    MULTIPLE_PDBS = "MultiplePdbs"
    NO_PLACE = "NoPlaceToMovePods"
    SLACK_NEEDED = "RoomKeptAsSlack"
    # The node is no candidate.
    BEING_DELETED = "CurrentlyBeingDeleted"
    NOT_AUTOSCALED = "NotAutoscaled"
    DISABLED_FOR_GROUP = "ScaleDownDisabledForGroup"
    DISABLED_ANNOTATION = "ScaleDownDisabledAnnotation"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled"
    NOT_UNDERUTILIZED = "NotUnderutilized"
    GROUP_MIN_SIZE = "NodeGroupMinSizeReached"
    CLUSTER_MINIMUM = "MinimalResourceLimitExceeded"
    DRAIN_FAILED = "DrainFailedRecently"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable"
    DESTINATION = "DestinationOfOtherPods"
    NOT_REACHED = "NotReachedInTime"
    # No node is a candidate.
    LEAVING_PODS_HOMELESS = "LeavingPodsNoLongerFit"
    EVICTED_PODS_HOMELESS = "EvictedPodsDoNotFit"
    # A candidate is not removed now.
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    IN_COOLDOWN = "ScaleDownInCooldown"
    AWAITS_COMPLETION = "BlockedByOnCompletionPod"
    THROTTLED = "ScaleDownThrottled"
    DRAINS_DO_NOT_OVERLAP = "DrainInProgress"
    ALL_OR_NOTHING = "AtomicScaleDownFailed"
    # A removal under way was given up and rolled back.
    TAINT_FAILED = "TaintFailed"
    NO_LONGER_EMPTY = "NoLongerEmpty"
    EVICTION_REFUSED = "EvictionRefused"
    EVICTION_TIMEOUT = "EvictionTimeout"
    DRAIN_TIMEOUT = "DrainTimeout"
    DELETION_FAILED = "NodeDeletionFailed"
    CANCELLED = "Cancelled"
    ROOM_NEEDED = "RoomNeededAgain"


#: The text for people; constant for each unremovable reason.
UNREMOVABLE_TEXTS: Final[dict[UnremovableReason, str]] = {
    UnremovableReason.CONTROLLER_NOT_FOUND: "the pod's controller is gone: nothing would create the pod again",
    UnremovableReason.MIN_REPLICAS_REACHED: "the pod's controller has fewer replicas than may be disturbed",
    UnremovableReason.NOT_REPLICATED: "the pod has no controller: nothing would create it again",
    UnremovableReason.UNMOVABLE_SYSTEM_POD: "a young pod of kube-system that no PodDisruptionBudget covers",
    UnremovableReason.NOT_SAFE_TO_EVICT: "the pod's annotation safe-to-evict is false",
    UnremovableReason.DO_NOT_DISRUPT: "the pod's annotation karpenter.sh/do-not-disrupt protects it",
    UnremovableReason.LOCAL_STORAGE: "the pod has local storage, which would be lost",
    UnremovableReason.MACHINE_CANNOT_MIGRATE: "the pod is a virtual machine that may not migrate, and machines are not evicted",
    UnremovableReason.NOT_ENOUGH_PDB: "a PodDisruptionBudget of the pod allows no disruption now",
    UnremovableReason.MULTIPLE_PDBS: "several PodDisruptionBudgets select the pod, which the Eviction API never evicts then",
    UnremovableReason.NO_PLACE: "the pod fits on no other node",
    UnremovableReason.SLACK_NEEDED: "the room is kept for pods to come, and there is not as much elsewhere",
    UnremovableReason.BEING_DELETED: "the node's removal has begun already",
    UnremovableReason.NOT_AUTOSCALED: "the node belongs to no node group",
    UnremovableReason.DISABLED_FOR_GROUP: "nodes of this group are not removed",
    UnremovableReason.DISABLED_ANNOTATION: "an annotation on the node forbids its removal",
    UnremovableReason.UNREADY_DISABLED: "the node is not ready, and such nodes are not removed",
    UnremovableReason.NOT_UNDERUTILIZED: "the node's utilisation is above the threshold",
    UnremovableReason.GROUP_MIN_SIZE: "without the node its group would be smaller than its minimum",
    UnremovableReason.CLUSTER_MINIMUM: "without the node the cluster would have less than its minimum",
    UnremovableReason.DRAIN_FAILED: "removals of the node failed a short while ago, each is followed by a longer pause",
    UnremovableReason.RECENTLY_UNREMOVABLE: "a short while ago the node could not be emptied",
    UnremovableReason.DESTINATION: "pods of other candidates would move to the node",
    UnremovableReason.NOT_REACHED: "the time for planning was over before the node's turn",
    UnremovableReason.LEAVING_PODS_HOMELESS: "a pod of a node that is being removed fits nowhere any more: no other is tried",
    UnremovableReason.EVICTED_PODS_HOMELESS: "a pod that was evicted a short while ago fits nowhere, so no other node is tried",
    UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH: "the node has not been unneeded for long enough",
    UnremovableReason.NOT_UNREADY_LONG_ENOUGH: "the node is not ready, and has not been unneeded for long enough",
    UnremovableReason.IN_COOLDOWN: "the group has grown or shrunk a short while ago, or deletions in it are refused",
    UnremovableReason.AWAITS_COMPLETION: "a pod of the node has to complete first",
    UnremovableReason.THROTTLED: "as many nodes are being removed as may be",
    UnremovableReason.DRAINS_DO_NOT_OVERLAP: "nodes are being removed, and drains may not overlap",
    UnremovableReason.ALL_OR_NOTHING: "the node's group goes as a whole, and some of its nodes have to stay",
    UnremovableReason.TAINT_FAILED: "the node, or another of its batch, could not be tainted",
    UnremovableReason.NO_LONGER_EMPTY: "the node was to be removed empty, and has pods again",
    UnremovableReason.EVICTION_REFUSED: "the API server will not have the eviction of a pod",
    UnremovableReason.EVICTION_TIMEOUT: "a PodDisruptionBudget held up the eviction of a pod for too long",
    UnremovableReason.DRAIN_TIMEOUT: "evicted pods were not gone in time",
    UnremovableReason.DELETION_FAILED: "the provider did not delete the node",
    UnremovableReason.CANCELLED: "a person cancelled the removal",
    UnremovableReason.ROOM_NEEDED: "the room on the node is needed again",
}
