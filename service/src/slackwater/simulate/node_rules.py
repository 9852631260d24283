"""What the nodes themselves, whatever runs on them, say to pods of a kind."""

from collections.abc import Sequence

import numpy as np

from slackwater.model.columns import Mask
from slackwater.model.kinds import Kind
from slackwater.model.objects import Node
from slackwater.model.reasons import Reason
from slackwater.simulate.predicates.node_affinity import judge_node_affinity
from slackwater.simulate.predicates.node_unschedulable import judge_node_unschedulable
from slackwater.simulate.predicates.taint_toleration import judge_taint_toleration

#: In this order; the first verdict other than OK counts.
NODE_RULES = (judge_node_unschedulable, judge_taint_toleration, judge_node_affinity)


def node_verdict(kind: Kind, node: Node) -> Reason:
    """The first rule's word that is not OK."""
    return next((reason for rule in NODE_RULES if (reason := rule(kind, node)) is not Reason.OK), Reason.OK)


def admitting(kind: Kind, nodes: Sequence[Node | None]) -> Mask:
    """Which of the rows take pods of the kind, shape (len(nodes),); free rows take none. About 2 us a node."""
    return np.array([node is not None and node_verdict(kind, node) is Reason.OK for node in nodes], np.bool_)
