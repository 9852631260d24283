"""kube-scheduler's plug-ins that read one fact of a node or of the pod: NodeName, NodeUnschedulable, NodePorts,
NodeDeclaredFeatures and ImageLocality.

- NodeName: a pod that names its node fits on no other.
- NodeUnschedulable: a cordoned node takes only pods that tolerate its cordon.
- NodePorts: the host ports of the pod must be free on the node.
- NodeDeclaredFeatures: a node must declare the kubelet features that the pod needs. Which features there are depends on the
  version (k8s.io/component-helpers/nodedeclaredfeatures).
- ImageLocality (score): prefers nodes that already have the pod's images, above all large ones. An image counts by its size
  times the share of nodes that have it, so an image that only a few nodes have does not draw all its pods to these nodes. Image
  volumes count since 1.36.
"""

from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.fit.scoring import HIGHEST
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import NodeName, Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Taint
from slackwater.model.pod_constraints import HOST_USERS, Kind
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT, NodeFacts
from slackwater.snapshot.row_journal import Selection, coded, n_selected


def judge_node_name(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    here = snapshot.facts.row_of.get(NodeName(kind.asks.node_name or ""), ABSENT)
    return coded(np.arange(snapshot.n_rows)[rows] != here, Reason.NODE_NAME)


_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def judge_node_unschedulable(facts: NodeFacts, kind: Kind, rows: Selection) -> Codes:
    # The cordon's taint has no value, so no comparison tolerates it.
    if kind.tolerations and tolerated(_CORDON, kind.tolerations, comparing=False):
        return np.zeros(n_selected(rows), np.uint8)
    return coded(facts.cordoned[: facts.n_rows][rows], Reason.NODE_UNSCHEDULABLE)


def judge_node_ports(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    taken = np.zeros(snapshot.n_rows, np.bool_)
    for port in kind.asks.host_ports:
        taken[[row for row in snapshot.attached.rows_with_port(port) if row < snapshot.n_rows]] = True
    return coded(taken[rows], Reason.HOST_PORTS)


def declared_features_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> frozenset[str] | None:
    """The features of the pod that this version requires nodes to declare; None if it requires none."""
    if not kind.asks.features or not snapshot.follows(Rule.NODE_DECLARED_FEATURES):
        return None
    declared = snapshot.follows(Rule.HOST_USERS_DECLARED)
    return frozenset(name for name in kind.asks.features if name != HOST_USERS or declared) or None


def features_text(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> str:
    """kube-scheduler's message for a row that lacks a feature."""
    if snapshot.follows(Rule.FEATURES_UNNAMED):
        return Reason.NODE_FEATURES.text
    lacking = sorted((declared_features_part(snapshot, kind) or frozenset()).difference(snapshot.facts.nodes[row].features))
    return f"node declared features check failed - unsatisfied requirements: {', '.join(lacking)}"


def judge_node_declared_features(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    facts, needed = snapshot.facts, declared_features_part(snapshot, kind) or frozenset()
    lacking = np.array([not needed.issubset(declared) for declared in facts.features.values], np.bool_)
    return coded(lacking[facts.features.ids[: facts.n_rows][rows]], Reason.NODE_FEATURES)


_MIB: Final = 1024 * 1024
_LEAST: Final = 23 * _MIB
_MOST_A_CONTAINER: Final = 1000 * _MIB


def images_differ(snapshot: ClusterSnapshot, kind: NumberedGroup) -> bool:
    return bool(kind.kind.images) and any(size for size, _ in _images(snapshot, kind))


def _images(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[tuple[int, Mask]]:
    """The size of each of the pod's images, and which rows have it."""
    volumes = kind.asks.image_volumes if snapshot.follows(Rule.IMAGE_VOLUMES_SCORED) else ()
    # The tag is `latest` where a name has neither tag nor digest.
    tags = ((image, "" if image.rfind(":") > image.rfind("/") else ":latest") for image in (*kind.kind.images, *volumes))
    return [snapshot.facts.image(image + tag) for image, tag in tags]


def score_image_locality(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
    counted = len(kind.kind.images)
    if kind.asks.image_volumes and snapshot.follows(Rule.IMAGE_VOLUMES_COUNTED):
        counted += len(kind.asks.image_volumes)
    most = _MOST_A_CONTAINER * counted
    if not most:
        return np.zeros(len(rows), np.int64)
    present = np.zeros(len(rows), np.int64)
    images = _images(snapshot, kind)
    if not any(size for size, _ in images):
        return present
    n_nodes = int(snapshot.facts.live[: snapshot.n_rows].sum())
    for size, has_it in images:
        spread = float(has_it.sum()) / float(n_nodes)
        present += int(float(size) * spread) * has_it[rows]
    return HIGHEST * (np.clip(present, _LEAST, most) - _LEAST) // (most - _LEAST)


NODE_NAME: Final = Predicate(name="NodeName", part=lambda _, kind: kind.asks.node_name, judge=judge_node_name, reads="facts")
NODE_UNSCHEDULABLE: Final = Predicate(
    name="NodeUnschedulable",
    part=lambda _, kind: kind.kind.tolerations,
    judge=lambda snapshot, kind, rows: judge_node_unschedulable(snapshot.facts, kind.kind, rows),
    reads="facts",
)
NODE_PORTS: Final = Predicate(
    name="NodePorts", part=lambda _, kind: kind.asks.host_ports or None, judge=judge_node_ports, reads="room"
)
NODE_DECLARED_FEATURES: Final = Predicate(
    name="NodeDeclaredFeatures", part=declared_features_part, judge=judge_node_declared_features, reads="facts"
)
