"""The closed list of verdicts: why a node does not suit a pod, and why a request was refused.

Each has one number, so that a verdict also fits into a column. The text that kube-scheduler shows, the label of a metric, the
reason of an Event and the answer of `explain` all come from here. Texts name no amounts and no objects: kube-scheduler counts
equal texts ("0/50 nodes are available: 30 Slackwater: not enough CPU") and would otherwise print one for each node.
"""

from enum import IntEnum
from typing import Final, NamedTuple


class Reason(IntEnum):
    """A verdict on one node for one pod, or on one request."""

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


class Meaning(NamedTuple):
    """The presentation of a reason: its label and text, whether preemption could help, and the plug-in that it belongs to."""

    label: str  #: in metrics and JSON
    text: str  #: for people; constant for each reason
    resolvable: bool  #: could evicting pods from the node help? (kube-scheduler: Unschedulable, else ...AndUnresolvable)
    plugin: str = "Slackwater"  #: the plug-in of kube-scheduler's default profile whose text it is, or Slackwater


MEANINGS: Final[dict[Reason, Meaning]] = {
    Reason.OK: Meaning("ok", "fits", True),
    Reason.NODE_UNKNOWN: Meaning("node_unknown", "Slackwater: the node is not in its cluster state yet", True),
    Reason.NOT_ENOUGH_CPU: Meaning("not_enough_cpu", "Slackwater: not enough CPU", True),
    Reason.NOT_ENOUGH_MEMORY: Meaning("not_enough_memory", "Slackwater: not enough memory", True),
    Reason.CPU_ABOVE_TOTAL: Meaning("cpu_above_total", "Slackwater: the pod asks more CPU than the node has", False),
    Reason.MEMORY_ABOVE_TOTAL: Meaning("memory_above_total", "Slackwater: the pod asks more memory than the node has", False),
    Reason.HELD_FOR_OTHERS: Meaning("held_for_others", "Slackwater: the room is held for pods about to be bound", True),
    Reason.BIND_DENIED: Meaning("bind_denied", "Slackwater: a bind of the pod to the node was denied", True),
    Reason.NODE_UNSCHEDULABLE: Meaning("node_unschedulable", "node(s) were unschedulable", False, "NodeUnschedulable"),
    Reason.TAINT_NOT_TOLERATED: Meaning("taint_not_tolerated", "node(s) had untolerated taint(s)", False, "TaintToleration"),
    Reason.NODE_AFFINITY: Meaning("node_affinity", "node(s) didn't match Pod's node affinity/selector", False, "NodeAffinity"),
    Reason.POD_UNKNOWN: Meaning("pod_unknown", "Slackwater: the pod is not in its cluster state", False),
    Reason.POD_BOUND_ELSEWHERE: Meaning("pod_bound_elsewhere", "Slackwater: the pod is bound to another node", False),
    Reason.POD_FINISHED: Meaning("pod_finished", "Slackwater: the pod has ended or is being deleted", False),
    Reason.API_REFUSED: Meaning("api_refused", "Slackwater: the API server refused the binding", True),
    Reason.API_UNREACHABLE: Meaning("api_unreachable", "Slackwater: the API server did not answer in time", True),
    Reason.MISSING_REQUEST: Meaning("missing_request", "Slackwater: a container lacks a resource request", False),
    Reason.VERTICAL_UNREADABLE: Meaning(
        "vertical_unreadable", "Slackwater: the annotations of a workload that grows in place cannot be read", False
    ),
    Reason.TARGET_NODE_ELSEWHERE: Meaning("landing_elsewhere", "Slackwater: the migration has its room on another node", False),
    Reason.NODE_NAME: Meaning("node_name", "node(s) didn't match the requested node name", False, "NodeName"),
    Reason.NODE_LEFT_OUT: Meaning("node_left_out", "node(s) didn't satisfy plugin(s) [NodeAffinity]", False, "NodeAffinity"),
    Reason.AFFINITY_CONFLICT: Meaning("affinity_conflict", "pod affinity terms conflict", False, "NodeAffinity"),
    Reason.HOST_PORTS: Meaning("host_ports", "node(s) didn't have free ports for the requested pod ports", True, "NodePorts"),
    Reason.RESOURCES_SHORT: Meaning("resources_short", "Insufficient resources", True, "NodeResourcesFit"),
    Reason.RESOURCES_ABOVE_NODE: Meaning("resources_above_node", "Insufficient resources", False, "NodeResourcesFit"),
    Reason.DISK_CONFLICT: Meaning("disk_conflict", "node(s) had no available disk", True, "VolumeRestrictions"),
    Reason.CLAIM_IN_USE: Meaning(
        "claim_in_use",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        True,
        "VolumeRestrictions",
    ),
    Reason.CLAIM_NOT_FOUND: Meaning("claim_not_found", "persistentvolumeclaim not found", False, "VolumeRestrictions"),
    Reason.VOLUME_LIMIT: Meaning("volume_limit", "node(s) exceed max volume count", True, "NodeVolumeLimits"),
    Reason.CLAIM_UNUSABLE: Meaning("claim_unusable", "persistentvolumeclaim cannot be used", False, "VolumeBinding"),
    Reason.CLAIM_UNBOUND: Meaning("claim_unbound", "pod has unbound immediate PersistentVolumeClaims", False, "VolumeBinding"),
    Reason.VOLUME_NODE_CONFLICT: Meaning(
        "volume_node_conflict", "node(s) didn't match PersistentVolume's node affinity", False, "VolumeBinding"
    ),
    Reason.VOLUME_BIND_CONFLICT: Meaning(
        "volume_bind_conflict", "node(s) didn't find available persistent volumes to bind", False, "VolumeBinding"
    ),
    Reason.STORAGE_SHORT: Meaning("storage_short", "node(s) did not have enough free storage", False, "VolumeBinding"),
    Reason.VOLUME_NOT_FOUND: Meaning(
        "volume_not_found", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", False, "VolumeBinding"
    ),
    Reason.VOLUME_ZONE: Meaning("volume_zone", "node(s) had no available volume zone", False, "VolumeZone"),
    Reason.VOLUME_ZONE_UNKNOWN: Meaning("volume_zone_unknown", "the zone of a volume is not known", False, "VolumeZone"),
    Reason.SPREAD_LABEL_MISSING: Meaning(
        "spread_label_missing",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        False,
        "PodTopologySpread",
    ),
    Reason.SPREAD_SKEW: Meaning(
        "spread_skew", "node(s) didn't match pod topology spread constraints", True, "PodTopologySpread"
    ),
    Reason.POD_AFFINITY: Meaning("pod_affinity", "node(s) didn't match pod affinity rules", False, "InterPodAffinity"),
    Reason.POD_ANTI_AFFINITY: Meaning(
        "pod_anti_affinity", "node(s) didn't match pod anti-affinity rules", True, "InterPodAffinity"
    ),
    Reason.EXISTING_ANTI_AFFINITY: Meaning(
        "existing_anti_affinity", "node(s) didn't satisfy existing pods anti-affinity rules", True, "InterPodAffinity"
    ),
    Reason.RESOURCE_CLAIMS: Meaning(
        "resource_claims", "Slackwater: resource claims (DRA) are not judged yet", False, "DynamicResources"
    ),
    Reason.NODE_FEATURES: Meaning(
        "node_features", "node(s) didn't match Pod's required features", False, "NodeDeclaredFeatures"
    ),
    Reason.GATED: Meaning("gated", "Slackwater: the pod waits for the victims of its preemption to leave", False),
    Reason.ROOM_NOT_ON_RECORD: Meaning(
        "room_not_on_record", "Slackwater: room that others gave back is not on record as free yet", True
    ),
    Reason.NODE_QUARANTINED: Meaning(
        "node_quarantined", "Slackwater: the node's sums do not add up, so nothing new is placed there until they do", False
    ),
    Reason.NODE_NOT_CHOSEN: Meaning("node_not_chosen", "Slackwater: another node was chosen for the pod", True),
}
