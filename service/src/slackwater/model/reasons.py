"""The closed list of verdicts: why a node is not for a pod, and why a request was refused.

One number each, so that a verdict also fits into a column. The text that kube-scheduler shows, the label of a metric,
the reason of an Event and the answer of `explain` all come from here. Texts name no amounts and no objects: kube-scheduler
counts equal texts ("0/50 nodes are available: 30 Slackwater: not enough CPU") and would otherwise print one for each node.
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
    LANDING_ELSEWHERE = 18


class Meaning(NamedTuple):
    """What a reason says, and what may be tried next."""

    label: str  #: in metrics and JSON
    text: str  #: for people; constant for each reason
    resolvable: bool  #: could evicting pods from the node help? (kube-scheduler: Unschedulable, else ...AndUnresolvable)


MEANINGS: Final[dict[Reason, Meaning]] = {
    Reason.OK: Meaning("ok", "fits", True),
    Reason.NODE_UNKNOWN: Meaning("node_unknown", "Slackwater: the node is not in its picture yet", True),
    Reason.NOT_ENOUGH_CPU: Meaning("not_enough_cpu", "Slackwater: not enough CPU", True),
    Reason.NOT_ENOUGH_MEMORY: Meaning("not_enough_memory", "Slackwater: not enough memory", True),
    Reason.CPU_ABOVE_TOTAL: Meaning("cpu_above_total", "Slackwater: the pod asks more CPU than the node has", False),
    Reason.MEMORY_ABOVE_TOTAL: Meaning("memory_above_total", "Slackwater: the pod asks more memory than the node has", False),
    Reason.HELD_FOR_OTHERS: Meaning("held_for_others", "Slackwater: the room is held for pods about to be bound", True),
    Reason.BIND_DENIED: Meaning("bind_denied", "Slackwater: a bind of the pod to the node was denied", True),
    Reason.NODE_UNSCHEDULABLE: Meaning("node_unschedulable", "Slackwater: the node is unschedulable", False),
    Reason.TAINT_NOT_TOLERATED: Meaning("taint_not_tolerated", "Slackwater: a taint is not tolerated", False),
    Reason.NODE_AFFINITY: Meaning("node_affinity", "Slackwater: node selector or affinity does not match", False),
    Reason.POD_UNKNOWN: Meaning("pod_unknown", "Slackwater: the pod is not in its picture", False),
    Reason.POD_BOUND_ELSEWHERE: Meaning("pod_bound_elsewhere", "Slackwater: the pod is bound to another node", False),
    Reason.POD_FINISHED: Meaning("pod_finished", "Slackwater: the pod has ended or is being deleted", False),
    Reason.API_REFUSED: Meaning("api_refused", "Slackwater: the API server refused the binding", True),
    Reason.API_UNREACHABLE: Meaning("api_unreachable", "Slackwater: the API server did not answer in time", True),
    Reason.MISSING_REQUEST: Meaning("missing_request", "Slackwater: a container lacks a resource request", False),
    Reason.VERTICAL_UNREADABLE: Meaning(
        "vertical_unreadable", "Slackwater: the annotations of a workload that grows in place cannot be read", False
    ),
    Reason.LANDING_ELSEWHERE: Meaning("landing_elsewhere", "Slackwater: the migration has its room on another node", False),
}
