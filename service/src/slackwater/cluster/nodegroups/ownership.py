"""By what another autoscaler marks a node group as its own: pure functions only.

The marks: an annotation of the group's own object or of a node, Karpenter's label on a node, and the list of groups in Cluster
Autoscaler's status. A marked group is not changed, unless `autoscaler.handedOver` names it (ADR 248, ADR 315).
"""

from collections.abc import Collection, Iterable
from typing import Final

from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import NODE_POOL, Node
from slackwater_protocol.names import OWNED_BY

_OURS: Final = "slackwater"


def mark_of(group: NodeGroup, nodes: Iterable[Node], listed: Collection[str] = ()) -> str:
    """The mark of another autoscaler on the group, as a text; empty if there is none. `nodes`: the group's, and its template.
    `listed`: the groups in Cluster Autoscaler's status, by its names for them, which are the provider's."""
    if group.held_by:
        return group.held_by
    if group.owned_by not in (None, _OURS):
        return f"its object has the annotation {OWNED_BY}: {group.owned_by}"
    for node in nodes:
        if node.owned_by not in (None, _OURS):
            return f"node {node.name} of it has the annotation {OWNED_BY}: {node.owned_by}"
        if group.held_by is None and (pool := node.labels.get(NODE_POOL)):
            return f"its nodes are of Karpenter's NodePool {pool}"
    name = group.id or group.name
    return f"Cluster Autoscaler's status lists it ({name})" if name in listed else ""
