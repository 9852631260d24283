"""The closed list of hindrances: why a node keeps its pods, why it is no candidate, and why a candidate does not go now.

The words are those of Cluster Autoscaler where it has one, since people and dashboards know them. A hindrance of a pod comes
from a rule of `simulate.drainability`; `NO_PLACE` from the search for another place, whose verdicts are in `model.reasons`;
those of the node from the plan and its batch (`decide.scaledown`); those of a removal under way from `world.drains`.
"""

from enum import StrEnum
from typing import Final


class Hindrance(StrEnum):
    """Why a node stays, for now or for good."""

    # A pod is in the way.
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
    # There are no candidates at all.
    LEAVING_PODS_HOMELESS = "LeavingPodsNoLongerFit"
    EVICTED_PODS_HOMELESS = "EvictedPodsDoNotFit"
    # A candidate does not go now.
    NOT_UNNEEDED_LONG_ENOUGH = "NotUnneededLongEnough"
    NOT_UNREADY_LONG_ENOUGH = "NotUnreadyLongEnough"
    IN_COOLDOWN = "ScaleDownInCooldown"
    AWAITS_COMPLETION = "BlockedByOnCompletionPod"
    THROTTLED = "ScaleDownThrottled"
    DRAINS_DO_NOT_OVERLAP = "DrainInProgress"
    ALL_OR_NOTHING = "AtomicScaleDownFailed"
    # A removal that had begun was given up, and rolled back.
    TAINT_FAILED = "TaintFailed"
    NO_LONGER_EMPTY = "NoLongerEmpty"
    EVICTION_REFUSED = "EvictionRefused"
    EVICTION_TIMEOUT = "EvictionTimeout"
    DRAIN_TIMEOUT = "DrainTimeout"
    DELETION_FAILED = "NodeDeletionFailed"
    CANCELLED = "Cancelled"
    ROOM_NEEDED = "RoomNeededAgain"


#: For people; constant for each hindrance.
TEXTS: Final[dict[Hindrance, str]] = {
    Hindrance.CONTROLLER_NOT_FOUND: "the pod's controller is gone: nothing would make the pod anew",
    Hindrance.MIN_REPLICAS_REACHED: "the pod's controller has fewer replicas than may be disturbed",
    Hindrance.NOT_REPLICATED: "the pod has no controller: nothing would make it anew",
    Hindrance.UNMOVABLE_SYSTEM_POD: "a young pod of kube-system that no PodDisruptionBudget covers",
    Hindrance.NOT_SAFE_TO_EVICT: "the pod's annotation safe-to-evict is false",
    Hindrance.LOCAL_STORAGE: "the pod has local storage, which would be lost",
    Hindrance.MACHINE_CANNOT_MIGRATE: "the pod is a virtual machine that may not migrate, and machines are not evicted",
    Hindrance.NOT_ENOUGH_PDB: "a PodDisruptionBudget of the pod allows no disruption now",
    Hindrance.MULTIPLE_PDBS: "more than one PodDisruptionBudget selects the pod, which the Eviction API never evicts then",
    Hindrance.NO_PLACE: "the pod fits on no other node",
    Hindrance.SLACK_NEEDED: "the room is kept for pods to come, and there is not as much elsewhere",
    Hindrance.BEING_DELETED: "the node's removal has begun already",
    Hindrance.NOT_AUTOSCALED: "the node belongs to no node group",
    Hindrance.DISABLED_FOR_GROUP: "nodes of this group are not removed",
    Hindrance.DISABLED_ANNOTATION: "the node's annotation scale-down-disabled is true",
    Hindrance.UNREADY_DISABLED: "the node is not ready, and such nodes are not removed",
    Hindrance.NOT_UNDERUTILIZED: "the node's utilisation is above the threshold",
    Hindrance.GROUP_MIN_SIZE: "without the node its group would be smaller than its minimum",
    Hindrance.CLUSTER_MINIMUM: "without the node the cluster would have less than its minimum",
    Hindrance.DRAIN_FAILED: "drains of the node failed a short while ago, each is followed by a longer pause",
    Hindrance.RECENTLY_UNREMOVABLE: "a short while ago the node could not be emptied",
    Hindrance.DESTINATION: "pods of other candidates would move to the node",
    Hindrance.NOT_REACHED: "the time for planning was over before the node's turn",
    Hindrance.LEAVING_PODS_HOMELESS: "a pod of a node that is being removed fits nowhere any more, so no other node is tried",
    Hindrance.EVICTED_PODS_HOMELESS: "a pod that was evicted a short while ago fits nowhere, so no other node is tried",
    Hindrance.NOT_UNNEEDED_LONG_ENOUGH: "the node has not been unneeded for long enough",
    Hindrance.NOT_UNREADY_LONG_ENOUGH: "the node is not ready, and has not been unneeded for long enough",
    Hindrance.IN_COOLDOWN: "the group has grown, shrunk or failed to shrink a short while ago",
    Hindrance.AWAITS_COMPLETION: "a pod of the node has to complete first",
    Hindrance.THROTTLED: "as many nodes are being removed as may be",
    Hindrance.DRAINS_DO_NOT_OVERLAP: "nodes are being removed, and drains may not overlap",
    Hindrance.ALL_OR_NOTHING: "the node's group goes as a whole, and some of its nodes have to stay",
    Hindrance.TAINT_FAILED: "the node, or another of its batch, could not be tainted",
    Hindrance.NO_LONGER_EMPTY: "the node was to be removed empty, and has pods again",
    Hindrance.EVICTION_REFUSED: "the API server will not have the eviction of a pod",
    Hindrance.EVICTION_TIMEOUT: "a PodDisruptionBudget held up the eviction of a pod for too long",
    Hindrance.DRAIN_TIMEOUT: "evicted pods were not gone in time",
    Hindrance.DELETION_FAILED: "the provider did not delete the node",
    Hindrance.CANCELLED: "a person cancelled the removal",
    Hindrance.ROOM_NEEDED: "the room on the node is needed again",
}
