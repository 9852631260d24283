"""What only the node decides: cordons, names, taints, affinity, features."""

import re

from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.pod_constraints import NodeSelectorTerm, Toleration
from slackwater.model.reasons import Reason
from slackwater.model.selectors import Requirement, holds, whole_number
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks


def node_unschedulable(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    return Reason.NODE_UNSCHEDULABLE if node.unschedulable and not tolerated(pod, cordon) else Reason.OK


def node_name(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    return Reason.OK if asks(pod).node_name in (None, node.name) else Reason.NODE_NAME


def taint_toleration(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(pod, taint):
            return Reason.TAINT_NOT_TOLERATED
    return Reason.OK


def tolerated(pod: Pod, taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.kind.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)


def node_affinity(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    return Reason.OK if chosen(pod, node) else Reason.NODE_AFFINITY


def chosen(pod: Pod, node: Node) -> bool:
    """Do the pod's nodeSelector and required affinity accept the node?"""
    if any(node.labels.get(key) != value for key, value in pod.kind.node_selector):
        return False
    terms = pod.kind.node_affinity
    return terms is None or any(term_accepts(term, node) for term in terms)


def term_accepts(term: NodeSelectorTerm, node: Node, *, fields: bool = True) -> bool:
    if not term.labels and not term.fields:
        return False
    if not all(map(_label_is_valid, term.labels)) or not all(map(_field_is_valid, term.fields)):
        return False
    labels_hold = all(holds(requirement, node.labels) for requirement in term.labels)
    return labels_hold and (not fields or all(_field_holds(requirement, node) for requirement in term.fields))


def _label_is_valid(requirement: Requirement) -> bool:
    values = requirement.values
    if requirement.operator in ("In", "NotIn"):
        return bool(values) and all(re.fullmatch(r"([A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?", v) for v in values)
    if requirement.operator in ("Exists", "DoesNotExist"):
        return not values
    return requirement.operator in ("Gt", "Lt") and len(values) == 1 and whole_number(values[0]) is not None


def _field_is_valid(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _field_holds(requirement: Requirement, node: Node) -> bool:
    value = node.name if requirement.key == "metadata.name" else ""
    return (value in requirement.values) == (requirement.operator == "In")


def left_out(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    """Where every term names nodes one by one, others are not even looked at."""
    names = names_asked(pod)
    return Reason.NODE_LEFT_OUT if names and node.name not in names else Reason.OK


def names_asked(pod: Pod) -> set[str] | None:
    """The nodes that the terms name one by one, none where they contradict themselves; None where some term does not."""
    found: set[str] = set()
    for term in pod.kind.node_affinity or ():
        names = [set(field.values) for field in term.fields if field.key == "metadata.name" and field.operator == "In"]
        if not names:
            return None
        found |= set.intersection(*names)
    return found if pod.kind.node_affinity else None


def node_declared_features(_cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    lacking = [feature for feature in asks(pod).features if feature not in node.features]
    return Reason.NODE_FEATURES if lacking else Reason.OK
