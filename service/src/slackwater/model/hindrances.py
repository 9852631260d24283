"""The closed list of hindrances: why the pods of a node cannot be moved away from it.

The words are those of Cluster Autoscaler, since people and dashboards know them. A hindrance of the pod comes from a rule
of `simulate.drainability`; the last one from the search for another place, whose verdicts are in `model.reasons`.
"""

from enum import StrEnum
from typing import Final


class Hindrance(StrEnum):
    """Why a node keeps its pods."""

    CONTROLLER_NOT_FOUND = "ControllerNotFound"
    MIN_REPLICAS_REACHED = "MinReplicasReached"
    NOT_REPLICATED = "NotReplicated"
    UNMOVABLE_SYSTEM_POD = "UnmovableKubeSystemPod"
    NOT_SAFE_TO_EVICT = "NotSafeToEvictAnnotation"
    LOCAL_STORAGE = "LocalStorageRequested"
    NOT_ENOUGH_PDB = "NotEnoughPdb"
    NO_PLACE = "NoPlaceToMovePods"


#: For people; constant for each hindrance.
TEXTS: Final[dict[Hindrance, str]] = {
    Hindrance.CONTROLLER_NOT_FOUND: "the pod's controller is gone: nothing would make the pod anew",
    Hindrance.MIN_REPLICAS_REACHED: "the pod's controller has fewer replicas than may be disturbed",
    Hindrance.NOT_REPLICATED: "the pod has no controller: nothing would make it anew",
    Hindrance.UNMOVABLE_SYSTEM_POD: "a young pod of kube-system that no PodDisruptionBudget covers",
    Hindrance.NOT_SAFE_TO_EVICT: "the pod's annotation safe-to-evict is false",
    Hindrance.LOCAL_STORAGE: "the pod has local storage, which would be lost",
    Hindrance.NOT_ENOUGH_PDB: "a PodDisruptionBudget of the pod allows no disruption now",
    Hindrance.NO_PLACE: "the pod fits on no other node",
}
