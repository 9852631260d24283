"""The closed list of standstills: why something waits where no verdict on a node and no hindrance of a removal says it.

`explain` answers with the labels of `model.reasons` for pods and nodes that do not fit together, with the words of
`model.hindrances` for nodes that stay, and with these for everything else.
"""

from enum import StrEnum
from typing import Final


class Standstill(StrEnum):
    """Why something does not happen, or need not."""

    # A pod.
    PLACED = "placed"
    ENDED = "ended"
    SCHEDULER_FREE = "fits_already"
    SCHEDULING_GATES = "scheduling_gates"
    NOT_COUNTED = "not_counted_for_growth"
    NO_NODES = "no_nodes"
    COMING = "node_coming"
    # A node.
    REMOVABLE = "removable"
    # A group does not grow. The first six are as plans say them.
    SWITCHED_OFF = "switched-off"
    NOT_READY = "not-ready"
    BACKOFF = "backoff"
    NO_TEMPLATE = "no-template"
    LIMIT = "limit"
    TIME = "time"
    NOT_NEEDED = "not_needed"
    GROWS = "grows"
    # A permit.
    GRANTED = "granted"
    NODE_FULL = "node_full"
    NOT_ON_RECORD = "not_on_record"
    NOT_HEARD = "not_heard"
    FENCED = "fenced"
    # A migration.
    NO_LANDING = "no_landing"
    UNDER_WAY = "under_way"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    # A gate.
    VICTIMS_LEAVE = "victims_leave"


TEXTS: Final[dict[Standstill, str]] = {
    Standstill.PLACED: "the pod has a node",
    Standstill.ENDED: "the pod has ended or is being deleted",
    Standstill.SCHEDULER_FREE: "the pod fits; the scheduler has not placed it yet",
    Standstill.SCHEDULING_GATES: "the pod has scheduling gates: no scheduler looks at it",
    Standstill.NOT_COUNTED: "no node is added for the pod",
    Standstill.NO_NODES: "there is no node",
    Standstill.COMING: "a node that is on its way takes the pod",
    Standstill.REMOVABLE: "the node can be removed: its pods fit elsewhere",
    Standstill.SWITCHED_OFF: "the group is switched off",
    Standstill.NOT_READY: "the group is not well, or its provider does not answer",
    Standstill.BACKOFF: "the group failed to grow a short while ago",
    Standstill.NO_TEMPLATE: "nobody knows what a node of the group looks like",
    Standstill.LIMIT: "the group, a quota or the cluster is at its maximum",
    Standstill.TIME: "planning took too long",
    Standstill.NOT_NEEDED: "no pending pod needs a node of the group",
    Standstill.GROWS: "a plan made now would add nodes to the group",
    Standstill.GRANTED: "the agent has all that it asked for",
    Standstill.NODE_FULL: "the node has no room for what was asked for",
    Standstill.NOT_ON_RECORD: "the permit waits until it is written",
    Standstill.NOT_HEARD: "the agent has not been heard since the start: its largest permit is held for it",
    Standstill.FENCED: "the pod may not grow until a write has ended",
    Standstill.NO_LANDING: "no other node has room for the pod",
    Standstill.UNDER_WAY: "the migration is under way",
    Standstill.QUEUED: "the pod waits in its node's queue: others migrate before it",
    Standstill.BACKING_OFF: "a migration of the pod failed a short while ago",
    Standstill.VICTIMS_LEAVE: "the pod waits for the victims of its preemption to leave",
}
