"""The closed list of unremovable reasons: why a pod keeps its node, why a node is no candidate, why a candidate is not removed
now.

The names are Cluster Autoscaler's where it has one, since people and dashboards know them. Reasons of a pod come from the rules
of `fit.drainability`; `NO_PLACE` comes from the search for another node, whose verdicts are in `model.reasons`; reasons of the
node come from the plan and its batch (`controllers.scaledown`); those of a removal under way come from
`controllers.scaledown.drains`.
"""

from enum import StrEnum
from typing import Final


class UnremovableReason(StrEnum):
    """Why a node is not removed, for now or permanently."""

    # A pod keeps the node.
    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS_REACHED = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    UNMOVABLE_SYSTEM_POD = "UnmovableKubeSystemPod"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
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


#: For people; constant for each unremovable reason.
TEXTS: Final[dict[UnremovableReason, str]] = {
    UnremovableReason.CONTROLLER_NOT_FOUND: "the pod's controller is gone: nothing would create the pod again",
    UnremovableReason.MIN_REPLICAS_REACHED: "the pod's controller has fewer replicas than may be disturbed",
    UnremovableReason.NOT_REPLICATED: "the pod has no controller: nothing would create it again",
    UnremovableReason.UNMOVABLE_SYSTEM_POD: "a young pod of kube-system that no PodDisruptionBudget covers",
    UnremovableReason.NOT_SAFE_TO_EVICT: "the pod's annotation safe-to-evict is false",
    UnremovableReason.LOCAL_STORAGE: "the pod has local storage, which would be lost",
    UnremovableReason.MACHINE_CANNOT_MIGRATE: "the pod is a virtual machine that may not migrate, and machines are not evicted",
    UnremovableReason.NOT_ENOUGH_PDB: "a PodDisruptionBudget of the pod allows no disruption now",
    UnremovableReason.MULTIPLE_PDBS: "several PodDisruptionBudgets select the pod, which the Eviction API never evicts then",
    UnremovableReason.NO_PLACE: "the pod fits on no other node",
    UnremovableReason.SLACK_NEEDED: "the room is kept for pods to come, and there is not as much elsewhere",
    UnremovableReason.BEING_DELETED: "the node's removal has begun already",
    UnremovableReason.NOT_AUTOSCALED: "the node belongs to no node group",
    UnremovableReason.DISABLED_FOR_GROUP: "nodes of this group are not removed",
    UnremovableReason.DISABLED_ANNOTATION: "the node's annotation scale-down-disabled is true",
    UnremovableReason.UNREADY_DISABLED: "the node is not ready, and such nodes are not removed",
    UnremovableReason.NOT_UNDERUTILIZED: "the node's utilisation is above the threshold",
    UnremovableReason.GROUP_MIN_SIZE: "without the node its group would be smaller than its minimum",
    UnremovableReason.CLUSTER_MINIMUM: "without the node the cluster would have less than its minimum",
    UnremovableReason.DRAIN_FAILED: "drains of the node failed a short while ago, each is followed by a longer pause",
    UnremovableReason.RECENTLY_UNREMOVABLE: "a short while ago the node could not be emptied",
    UnremovableReason.DESTINATION: "pods of other candidates would move to the node",
    UnremovableReason.NOT_REACHED: "the time for planning was over before the node's turn",
    UnremovableReason.LEAVING_PODS_HOMELESS: "a pod of a node that is being removed fits nowhere any more: no other is tried",
    UnremovableReason.EVICTED_PODS_HOMELESS: "a pod that was evicted a short while ago fits nowhere, so no other node is tried",
    UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH: "the node has not been unneeded for long enough",
    UnremovableReason.NOT_UNREADY_LONG_ENOUGH: "the node is not ready, and has not been unneeded for long enough",
    UnremovableReason.IN_COOLDOWN: "the group has grown, shrunk or failed to shrink a short while ago",
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
