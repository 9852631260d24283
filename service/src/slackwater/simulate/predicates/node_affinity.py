"""nodeSelector and required node affinity (kube-scheduler's NodeAffinity)."""

from slackwater.model.kinds import Kind, NodeSelectorTerm, Requirement
from slackwater.model.objects import Node
from slackwater.model.reasons import Reason


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


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    """Does a selector requirement hold for the labels? Gt and Lt compare integers; what is none holds for neither."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str | None) -> bool:
    try:
        seen, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return seen > bound if requirement.operator == "Gt" else seen < bound
