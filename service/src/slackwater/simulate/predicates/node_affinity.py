"""nodeSelector and required node affinity (kube-scheduler's NodeAffinity)."""

from slackwater.model.kinds import Kind
from slackwater.model.objects import Node
from slackwater.model.particulars import NodeSelectorTerm
from slackwater.model.reasons import Reason
from slackwater.model.selectors import holds


def judge_node_affinity(kind: Kind, node: Node) -> Reason:
    if any(node.labels.get(key) != value for key, value in kind.node_selector):
        return Reason.NODE_AFFINITY
    if kind.node_affinity is not None and not any(_matches(term, node) for term in kind.node_affinity):
        return Reason.NODE_AFFINITY
    return Reason.OK


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.labels and not term.fields:
        return False
    return all(holds(r, node.labels) for r in term.labels) and all(holds(r, {"metadata.name": node.name}) for r in term.fields)
