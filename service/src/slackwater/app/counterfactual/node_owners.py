"""Which nodes of the real cluster another autoscaler owns, and which of them it is about to remove.

Nodes without an owner come and go for everybody; those of a group are decisions of the real side.
"""

from collections.abc import Callable
from typing import Final

from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT

#: The taints by which autoscalers say that they remove a node, with the autoscaler's name.
REMOVERS: Final = {
    TO_BE_DELETED_TAINT: "Cluster Autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
}
_KARPENTER: Final = "karpenter.sh/nodepool"
#: Taints of a plan; the other side has plans of its own.
PLANNED: Final = frozenset({*REMOVERS, DELETION_CANDIDATE_TAINT})
GroupOf = Callable[[Node], GroupName | None]


def remover_of(node: Node) -> str | None:
    """Who removes the node; None if nobody says so."""
    return next((REMOVERS[taint.key] for taint in node.taints if taint.key in REMOVERS), None)


def has_our_taint(node: Node) -> bool:
    """True if the node has the taint by which Slackwater says that it removes a node."""
    return any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)


def buyer_of(node: Node) -> str:
    """Who bought the node, as far as its labels say; "" if they do not."""
    return "Karpenter" if _KARPENTER in node.labels else ""


def is_owned(node: Node, group_of: GroupOf) -> bool:
    """True if the node belongs to a group: one of ours, or one that a label names."""
    return group_of(node) is not None or any(label in node.labels for label in CLOUD_GROUP_LABELS)
