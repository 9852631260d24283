"""The closed list of wait reasons: why something waits where neither a verdict on a node nor an unremovable reason explains it.

`explain` answers with the labels of `model.reasons` for pods and nodes that do not fit together, with
`model.unremovable_reasons` for nodes that are not removed, and with these for everything else.
"""

from enum import StrEnum
from typing import Final


class WaitReason(StrEnum):
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
    # A group does not grow. Plans use the first six.
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
    NO_TARGET_NODE = "no_landing"
    UNDER_WAY = "under_way"
    QUEUED = "queued"
    BACKING_OFF = "backing_off"
    # A gate.
    VICTIMS_LEAVE = "victims_leave"


TEXTS: Final[dict[WaitReason, str]] = {
    WaitReason.PLACED: "the pod has a node",
    WaitReason.ENDED: "the pod has ended or is being deleted",
    WaitReason.SCHEDULER_FREE: "the pod fits; the scheduler has not placed it yet",
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
