"""What other pods decide: spreading over domains, standing together or apart."""

from collections import Counter

from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import PodTerm, SpreadConstraint
from slackwater.model.reasons import Reason
from slackwater.model.selectors import selects
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks
from tests.laws.fit.rowbyrow.nodes import chosen, taint_toleration


def pod_topology_spread(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    constraints = [constraint for constraint in asks(pod).spread if constraint.hard]
    for constraint in constraints:
        if constraint.topology_key not in node.labels:
            return Reason.SPREAD_LABEL_MISSING
        matches = _matches(cluster, pod, constraint, [c.topology_key for c in constraints])
        least = min(matches.values()) if len(matches) >= max(1, constraint.min_domains) else 0
        itself = selects(constraint.selector, dict(pod.labels))
        if matches.get(node.labels[constraint.topology_key], 0) + itself - least > constraint.max_skew:
            return Reason.SPREAD_SKEW
    return Reason.OK


def _matches(cluster: PlainCluster, pod: Pod, constraint: SpreadConstraint, keys: list[str]) -> dict[str, int]:
    """Matching pods for each domain that has a node which counts."""
    found: Counter[str] = Counter()
    for node in cluster.nodes:
        if any(key not in node.labels for key in keys):
            continue
        if constraint.honor_affinity and not chosen(pod, node):
            continue
        if constraint.honor_taints and taint_toleration(cluster, pod, node):
            continue
        found[node.labels[constraint.topology_key]] += sum(_counts(other, pod, constraint) for other in cluster.on(node))
    return found


def _counts(other: Pod, pod: Pod, constraint: SpreadConstraint) -> bool:
    if other.deleting or other.key.namespace != pod.key.namespace or constraint.selector == ():
        return False  # a selector that selects everything counts nothing in kube-scheduler
    return selects(constraint.selector, dict(other.labels))


def inter_pod_affinity(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    if not _may_stand_together(cluster, pod, node):
        return Reason.POD_AFFINITY
    for other in cluster.running_pods:
        there = cluster.node_of(other)
        for term in asks(pod).anti_affinity:
            if _speaks_of(cluster, term, other) and _same_domain(term, node, there):
                return Reason.POD_ANTI_AFFINITY
    for other in cluster.running_pods:
        there = cluster.node_of(other)
        for term in asks(other).anti_affinity:
            if _is_spoken_of(cluster, term, pod) and _same_domain(term, node, there):
                return Reason.EXISTING_ANTI_AFFINITY
    return Reason.OK


def _may_stand_together(cluster: PlainCluster, pod: Pod, node: Node) -> bool:
    terms = asks(pod).affinity
    if any(term.topology_key not in node.labels for term in terms):
        return False
    friends = [other for other in cluster.running_pods if all(_speaks_of(cluster, term, other) for term in terms)]
    homes = [cluster.node_of(friend) for friend in friends]
    if all(any(_same_domain(term, node, home) for home in homes) for term in terms):
        return True
    anybody = any(term.topology_key in home.labels for term in terms for home in homes)
    return not anybody and all(_speaks_of(cluster, term, pod) for term in terms)


def _same_domain(term: PodTerm, one: Node, other: Node) -> bool:
    value = one.labels.get(term.topology_key)
    return value is not None and other.labels.get(term.topology_key) == value


def _speaks_of(cluster: PlainCluster, term: PodTerm, other: Pod) -> bool:
    """A term of the pod to be placed. Its namespace selector is also tried on no labels at all, as in kube-scheduler."""
    namespace, chooses = other.key.namespace, term.namespace_selector
    labels = cluster.namespaces.get(namespace)
    reached = namespace in term.namespaces or selects(chooses, {}) or (labels is not None and selects(chooses, labels))
    return reached and selects(term.selector, dict(other.labels))


def _is_spoken_of(cluster: PlainCluster, term: PodTerm, pod: Pod) -> bool:
    """A term of a pod that stands already."""
    namespace = pod.key.namespace
    reached = namespace in term.namespaces or selects(term.namespace_selector, cluster.namespaces.get(namespace, {}))
    return reached and selects(term.selector, dict(pod.labels))
