"""The closed lists of reasons: verdicts, wait reasons and unremovable reasons.

- `Reason`: why a node does not suit a pod, or why a request was refused.
- `WaitReason`: why something waits, where neither of the other lists explains it.
- `UnremovableReason`: why a node is not removed, for now or permanently.

The text that kube-scheduler shows, the label of a metric, the reason of an Event and the answers of explain all come from here.
"""

from enum import IntEnum, StrEnum
from typing import Self


class Reason(IntEnum):
    """A verdict on one node for one pod, or on one request. Columns of verdicts store its number as uint8.

    Texts name no amounts and no objects: kube-scheduler counts equal texts ("0/50 nodes are available: 30 Slackwater: not
    enough CPU") and would otherwise print one for each node.

    A member is its number; the label in metrics and JSON; the text for people, constant for each reason; whether evicting pods
    from the node could help (kube-scheduler: Unschedulable, else ...AndUnresolvable); and the plug-in of kube-scheduler's
    default profile whose text it is, or Slackwater.
    """

    label: str
    text: str
    resolvable: bool
    plugin: str

    # The defaults are only for type checkers, which take a look-up such as `Reason(7)` for a call of this.
    def __new__(
        cls, number: int, label: str = "", text: str = "", resolvable: bool = False, plugin: str = "Slackwater"
    ) -> Self:
        new = int.__new__(cls, number)
        new._value_ = number
        new.label, new.text, new.resolvable, new.plugin = label, text, resolvable, plugin
        return new

    OK = 0, "ok", "fits", True
    NODE_UNKNOWN = 1, "node_unknown", "Slackwater: the node is not in its cluster state yet", True
    NOT_ENOUGH_CPU = 2, "not_enough_cpu", "Slackwater: not enough CPU", True
    NOT_ENOUGH_MEMORY = 3, "not_enough_memory", "Slackwater: not enough memory", True
    CPU_ABOVE_TOTAL = 4, "cpu_above_total", "Slackwater: the pod asks more CPU than the node has", False
    MEMORY_ABOVE_TOTAL = 5, "memory_above_total", "Slackwater: the pod asks more memory than the node has", False
    HELD_FOR_OTHERS = 6, "held_for_others", "Slackwater: the room is held for pods about to be bound", True
    BIND_DENIED = 7, "bind_denied", "Slackwater: a bind of the pod to the node was denied", True
    NODE_UNSCHEDULABLE = 8, "node_unschedulable", "node(s) were unschedulable", False, "NodeUnschedulable"
    TAINT_NOT_TOLERATED = 9, "taint_not_tolerated", "node(s) had untolerated taint(s)", False, "TaintToleration"
    NODE_AFFINITY = 10, "node_affinity", "node(s) didn't match Pod's node affinity/selector", False, "NodeAffinity"
    POD_UNKNOWN = 11, "pod_unknown", "Slackwater: the pod is not in its cluster state", False
    POD_BOUND_ELSEWHERE = 12, "pod_bound_elsewhere", "Slackwater: the pod is bound to another node", False
    POD_FINISHED = 13, "pod_finished", "Slackwater: the pod has ended or is being deleted", False
    API_REFUSED = 14, "api_refused", "Slackwater: the API server refused the binding", True
    API_UNREACHABLE = 15, "api_unreachable", "Slackwater: the API server did not answer in time", True
    MISSING_REQUEST = 16, "missing_request", "Slackwater: a container lacks a resource request", False
    VERTICAL_UNREADABLE = (
        17,
        "vertical_unreadable",
        "Slackwater: the annotations of a workload that grows in place cannot be read",
        False,
    )
    TARGET_NODE_ELSEWHERE = 18, "target_node_elsewhere", "Slackwater: the migration has its room on another node", False
    NODE_NAME = 19, "node_name", "node(s) didn't match the requested node name", False, "NodeName"
    NODE_LEFT_OUT = 20, "node_left_out", "node(s) didn't satisfy plugin(s) [NodeAffinity]", False, "NodeAffinity"
    AFFINITY_CONFLICT = 21, "affinity_conflict", "pod affinity terms conflict", False, "NodeAffinity"
    HOST_PORTS = 22, "host_ports", "node(s) didn't have free ports for the requested pod ports", True, "NodePorts"
    RESOURCES_SHORT = 23, "resources_short", "Insufficient resources", True, "NodeResourcesFit"
    RESOURCES_ABOVE_NODE = 24, "resources_above_node", "Insufficient resources", False, "NodeResourcesFit"
    DISK_CONFLICT = 25, "disk_conflict", "node(s) had no available disk", True, "VolumeRestrictions"
    CLAIM_IN_USE = (
        26,
        "claim_in_use",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        True,
        "VolumeRestrictions",
    )
    CLAIM_NOT_FOUND = 27, "claim_not_found", "persistentvolumeclaim not found", False, "VolumeRestrictions"
    VOLUME_LIMIT = 28, "volume_limit", "node(s) exceed max volume count", True, "NodeVolumeLimits"
    CLAIM_UNUSABLE = 29, "claim_unusable", "persistentvolumeclaim cannot be used", False, "VolumeBinding"
    CLAIM_UNBOUND = 30, "claim_unbound", "pod has unbound immediate PersistentVolumeClaims", False, "VolumeBinding"
    VOLUME_NODE_CONFLICT = (
        31,
        "volume_node_conflict",
        "node(s) didn't match PersistentVolume's node affinity",
        False,
        "VolumeBinding",
    )
    VOLUME_BIND_CONFLICT = (
        32,
        "volume_bind_conflict",
        "node(s) didn't find available persistent volumes to bind",
        False,
        "VolumeBinding",
    )
    STORAGE_SHORT = 33, "storage_short", "node(s) did not have enough free storage", False, "VolumeBinding"
    VOLUME_NOT_FOUND = (
        34,
        "volume_not_found",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        False,
        "VolumeBinding",
    )
    VOLUME_ZONE = 35, "volume_zone", "node(s) had no available volume zone", False, "VolumeZone"
    VOLUME_ZONE_UNKNOWN = 36, "volume_zone_unknown", "the zone of a volume is not known", False, "VolumeZone"
    SPREAD_LABEL_MISSING = (
        37,
        "spread_label_missing",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        False,
        "PodTopologySpread",
    )
    SPREAD_SKEW = 38, "spread_skew", "node(s) didn't match pod topology spread constraints", True, "PodTopologySpread"
    POD_AFFINITY = 39, "pod_affinity", "node(s) didn't match pod affinity rules", False, "InterPodAffinity"
    POD_ANTI_AFFINITY = 40, "pod_anti_affinity", "node(s) didn't match pod anti-affinity rules", True, "InterPodAffinity"
    EXISTING_ANTI_AFFINITY = (
        41,
        "existing_anti_affinity",
        "node(s) didn't satisfy existing pods anti-affinity rules",
        True,
        "InterPodAffinity",
    )
    RESOURCE_CLAIMS = 42, "resource_claims", "a resource claim of the pod cannot be used", False, "DynamicResources"
    NODE_FEATURES = 43, "node_features", "node(s) didn't match Pod's required features", False, "NodeDeclaredFeatures"
    GATED = 44, "gated", "Slackwater: the pod waits for the victims of its preemption to leave", False
    ROOM_NOT_ON_RECORD = 45, "room_not_on_record", "Slackwater: room that others gave back is not on record as free yet", True
    NODE_QUARANTINED = (
        46,
        "node_quarantined",
        "Slackwater: the node's sums do not add up, so nothing new is placed there until they do",
        False,
    )
    NODE_NOT_CHOSEN = 47, "node_not_chosen", "Slackwater: another node was chosen for the pod", True
    CSI_DRIVER_MISSING = 48, "csi_driver_missing", "CSI driver is not installed on the node", True, "NodeVolumeLimits"
    DEVICES_SHORT = 49, "devices_short", "cannot allocate all claims", False, "DynamicResources"
    CLAIM_ELSEWHERE = 50, "claim_elsewhere", "resourceclaim not available on the node", False, "DynamicResources"
    DEVICE_POOL_INVALID = 51, "device_pool_invalid", "invalid resource pools were encountered", False, "DynamicResources"
    DEVICE_CLASS_MISSING = 52, "device_class_missing", "a device class does not exist", False, "DynamicResources"
    DEVICES_FAILED = 53, "devices_failed", "kube-scheduler fails to judge the pod's resource claims", False, "DynamicResources"
    DEVICES_NOT_MODELLED = (
        54,
        "devices_not_modelled",
        "Slackwater: the pod's resource claims need a rule that it does not model",
        False,
    )
    NODE_AFFINITY_ENFORCED = (
        55,
        "node_affinity_enforced",
        "node(s) didn't match scheduler-enforced node affinity",
        False,
        "NodeAffinity",
    )


class _Worded(StrEnum):
    """Members with a text for people, constant for each."""

    text: str

    def __new__(cls, code: str, text: str = "") -> Self:  # a look-up gives no text
        new = str.__new__(cls, code)
        new._value_ = code
        new.text = text
        return new


class WaitReason(_Worded):
    """Why something does not happen, or need not happen. Explain uses these where no `Reason` and no `UnremovableReason`
    applies."""

    # A pod.
    PLACED = "placed", "the pod has a node"
    ENDED = "ended", "the pod has ended or is being deleted"
    SCHEDULER_FREE = "fits_already", "the pod fits; the scheduler has not placed it yet"
    SCHEDULER_UNKNOWN = (
        "scheduler_unknown",
        "no scheduler of this name is known: it has placed no pod, and has not tried this one",
    )
    LABEL_UNKNOWN = "label_unknown", "the pod wants a label that no node has, and nodes have one that is nearly the same"
    NAME_UNKNOWN = "name_unknown", "the pod names something that does not exist, and something of nearly the same name does"
    CLASS_UNKNOWN = "storage_class_unknown", "there is no StorageClass of this name"
    PARTLY_JUDGED = "partly_judged", "the pod fits by the rules that could be judged; the notes name the others"
    SCHEDULING_GATES = "scheduling_gates", "the pod has scheduling gates: no scheduler looks at it"
    NOT_COUNTED = "not_counted_for_growth", "no node is added for the pod"
    NO_NODES = "no_nodes", "there is no node"
    SCHEDULER_DISAGREES = (
        "scheduler_disagrees",
        "kube-scheduler keeps refusing the pod, although it fits by the rules that Slackwater knows",
    )
    PLACED_AGAINST_RULES = (
        "placed_against_rules",
        "kube-scheduler placed the pod on a node that refuses it by the rules that Slackwater knows",
    )
    COMING = "node_coming", "a node that is on its way takes the pod"
    SCHEDULER_SAYS = "scheduler_says", "kube-scheduler's own message"
    # A workload is short of pods, or its pods wait.
    QUOTA_EXCEEDED = "quota_exceeded", "a ResourceQuota leaves no room for the pods"
    LIMIT_RANGE = "limit_range", "a LimitRange forbids the pods"
    ACCOUNT_MISSING = "service_account_missing", "the pods' ServiceAccount does not exist"
    PRIORITY_UNKNOWN = "priority_class_unknown", "there is no PriorityClass of this name"
    RUNTIME_UNKNOWN = "runtime_class_unknown", "there is no RuntimeClass of this name"
    PODS_REFUSED = "pods_refused", "the API server refuses the pods"
    PAUSED = "paused", "the rollout is paused"
    SUSPENDED = "suspended", "the Job is suspended"
    JOB_COMPLETE = "job_complete", "the Job is complete"
    JOB_FAILED = "job_failed", "the Job has failed: it makes no more pods"
    AWAITS_ORDINAL = "awaits_ordinal", "the StatefulSet makes the next pod once the one before it is ready"
    NOT_OBSERVED = "not_observed", "its controller has not seen its newest version"
    SELECTS_NO_NODE = "selects_no_node", "the DaemonSet's pods want nodes of which there is none"
    NOT_MADE = "not_made", "the controller has not made the pods, and nothing that was read says why"
    PODS_UNREADY = "pods_unready", "pods have a node and are not ready"
    PODS_PENDING = "pods_pending", "pods have no node"
    # A node.
    REMOVABLE = "removable", "the node can be removed: its pods fit elsewhere"
    # A group does not grow. Plans use the first seven.
    SWITCHED_OFF = "switched-off", "the group is switched off"
    NOT_READY = "not-ready", "the group is not well, or its provider does not answer"
    BACKOFF = "backoff", "the group failed to grow a short while ago"
    NO_TEMPLATE = "no-template", "nobody knows what a node of the group looks like"
    LIMIT = "limit", "the group, a quota or the cluster is at its maximum"
    TIME = "time", "planning took too long"
    ERROR = "error", "planning for it raised an error"
    NOT_NEEDED = "not_needed", "no pending pod needs a node of the group"
    GROWS = "grows", "a plan made now would add nodes to the group"
    # A permit.
    GRANTED = "granted", "the agent has all that it asked for"
    NODE_FULL = "node_full", "the node has no room for what was asked for"
    NOT_ON_RECORD = "not_on_record", "the permit waits until it is written"
    NOT_HEARD = "not_heard", "the agent has not been heard since the start: its largest permit is held for it"
    FENCED = "fenced", "the pod may not grow until a write has ended"
    # A migration.
    NO_TARGET_NODE = "no_target_node", "no other node has room for the pod"
    UNDER_WAY = "under_way", "the migration is under way"
    QUEUED = "queued", "the pod waits in its node's queue: others migrate before it"
    BACKING_OFF = "backing_off", "a migration of the pod failed a short while ago"
    # A gate.
    VICTIMS_LEAVE = "victims_leave", "the pod waits for the victims of its preemption to leave"


class UnremovableReason(_Worded):
    """Why a node is not removed, for now or permanently: one of its pods keeps it, it is no candidate, it is a candidate that
    is not removed now, or its removal was rolled back.

    The names are Cluster Autoscaler's where it has such a reason, since people and dashboards know them. Reasons of a pod come
    from the rules of `fit.drainability`. `NO_PLACE` comes from the search for another node, whose verdicts are in `Reason`.
    Reasons of the node come from the plan and its batch (`controllers.scaledown`), those of a removal under way from
    `controllers.scaledown.drains`.
    """

    # A pod keeps the node.
    CONTROLLER_NOT_FOUND = "ControllerNotFound", "the pod's controller is gone: nothing would create the pod again"
    MIN_REPLICAS_REACHED = "MinReplicasReached", "the pod's controller has fewer replicas than may be disturbed"
    NOT_REPLICATED = "NotReplicated", "the pod has no controller: nothing would create it again"
    UNMOVABLE_SYSTEM_POD = "UnmovableKubeSystemPod", "a young pod of kube-system that no PodDisruptionBudget covers"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation", "the pod's annotation safe-to-evict is false"
    DO_NOT_DISRUPT = "DoNotDisruptAnnotation", "the pod's annotation karpenter.sh/do-not-disrupt protects it"
    LOCAL_STORAGE = "LocalStorageRequested", "the pod has local storage, which would be lost"
    MACHINE_CANNOT_MIGRATE = (
        "MachineCannotMigrate",
        "the pod is a virtual machine that may not migrate, and machines are not evicted",
    )
    NOT_ENOUGH_PDB = "NotEnoughPdb", "a PodDisruptionBudget of the pod allows no disruption now"
    MULTIPLE_PDBS = "MultiplePdbs", "several PodDisruptionBudgets select the pod, which the Eviction API never evicts then"
    NO_PLACE = "NoPlaceToMovePods", "the pod fits on no other node"
    SLACK_NEEDED = "RoomKeptAsSlack", "the room is kept for pods to come, and there is not as much elsewhere"
    # The node is no candidate.
    BEING_DELETED = "CurrentlyBeingDeleted", "the node's removal has begun already"
    NOT_AUTOSCALED = "NotAutoscaled", "the node belongs to no node group"
    DISABLED_FOR_GROUP = "ScaleDownDisabledForGroup", "nodes of this group are not removed"
    DISABLED_ANNOTATION = "ScaleDownDisabledAnnotation", "an annotation on the node forbids its removal"
    UNREADY_DISABLED = "ScaleDownUnreadyDisabled", "the node is not ready, and such nodes are not removed"
    NOT_UNDERUTILIZED = "NotUnderutilized", "the node's utilisation is above the threshold"
    GROUP_MIN_SIZE = "NodeGroupMinSizeReached", "without the node its group would be smaller than its minimum"
    CLUSTER_MINIMUM = "MinimalResourceLimitExceeded", "without the node the cluster would have less than its minimum"
    DRAIN_FAILED = "DrainFailedRecently", "removals of the node failed a short while ago, each is followed by a longer pause"
    RECENTLY_UNREMOVABLE = "RecentlyUnremovable", "a short while ago the node could not be emptied"
    DESTINATION = "DestinationOfOtherPods", "pods of other candidates would move to the node"
    LEFT_TO_CONSOLIDATION = "LeftToConsolidation", "the node is in use, and consolidation decides which of these nodes go"
    REPLACEMENT = "ReplacementOfOtherNodes", "the node came for pods of nodes that are being replaced"
    NOT_REACHED = "NotReachedInTime", "the time for planning was over before the node's turn"
    # Consolidation alone.
    NODE_BUSY = "NodeBusy", "a hold, a migration or a preemption is under way on the node"
    NODE_TOO_YOUNG = "NodeTooYoung", "the node was added a short while ago"
    POD_MOVED_RECENTLY = "PodMovedRecently", "the pod was moved a short while ago"
    SAVES_TOO_LITTLE = "SavesTooLittle", "moving the node's pods saves too little for what it disturbs"
    # No node is a candidate.
    LEAVING_PODS_HOMELESS = (
        "LeavingPodsNoLongerFit",
        "a pod of a node that is being removed fits nowhere any more: no other is tried",
    )
    EVICTED_PODS_HOMELESS = (
        "EvictedPodsDoNotFit",
        "a pod that was evicted a short while ago fits nowhere, so no other node is tried",
    )
    # A candidate is not removed now.
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough", "the node has not been unneeded for long enough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough", "the node is not ready, and has not been unneeded for long enough"
    IN_COOLDOWN = "ScaleDownInCooldown", "the group has grown or shrunk a short while ago, or deletions in it are refused"
    AWAITS_COMPLETION = "BlockedByOnCompletionPod", "a pod of the node has to complete first"
    THROTTLED = "ScaleDownThrottled", "as many nodes are being removed as may be"
    DRAINS_DO_NOT_OVERLAP = "DrainInProgress", "nodes are being removed, and drains may not overlap"
    DISRUPTION_BUDGET_REACHED = (
        "DisruptionBudgetReached",
        "a disruption budget of the group allows no more nodes to be disrupted now",
    )
    ALL_OR_NOTHING = "AtomicScaleDownFailed", "the node's group goes as a whole, and some of its nodes have to stay"
    # A removal under way was given up and rolled back.
    TAINT_FAILED = "TaintFailed", "the node, or another of its batch, could not be tainted"
    NO_LONGER_EMPTY = "NoLongerEmpty", "the node was to be removed empty, and has pods again"
    EVICTION_REFUSED = "EvictionRefused", "the API server will not have the eviction of a pod"
    EVICTION_TIMEOUT = "EvictionTimeout", "a PodDisruptionBudget held up the eviction of a pod for too long"
    DRAIN_TIMEOUT = "DrainTimeout", "evicted pods were not gone in time"
    DELETION_FAILED = "NodeDeletionFailed", "the provider did not delete the node"
    CANCELLED = "Cancelled", "a person cancelled the removal"
    ROOM_NEEDED = "RoomNeededAgain", "the room on the node is needed again"
