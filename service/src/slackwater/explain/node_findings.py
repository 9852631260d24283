"""Makes findings and obstacles that properties of nodes cause: taints, cordons and labels. The changes are of the node or the
pod."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.explain.explain_input import Change, NodeEdit
from slackwater.explain.findings import MOST_OBJECTS, Finding, Obstacle, PodQuery, of_reason
from slackwater.fit.plugins.taint_toleration import tolerated
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Node, Taint
from slackwater.model.pod_constraints import Toleration
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_selector import rows_of_terms
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT

#: The node controller's taint of a cordoned node.
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_ENDS: Final = {
    "node.kubernetes.io/not-ready": "wait until node {} is ready",
    "node.kubernetes.io/unreachable": "wait until node {} answers again, or remove the node",
    "node.kubernetes.io/memory-pressure": "wait until node {} has memory to spare again",
    "node.kubernetes.io/disk-pressure": "wait until node {} has disk space to spare again",
    "node.kubernetes.io/pid-pressure": "wait until node {} has process ids to spare again",
    "node.kubernetes.io/network-unavailable": "wait until the network of node {} is set up",
    "node.kubernetes.io/out-of-service": "bring node {} back into service",
    "node.cloudprovider.kubernetes.io/uninitialized": "wait until the cloud provider has initialized node {}",
    "node.cloudprovider.kubernetes.io/shutdown": "start the machine of node {}",
    UNSCHEDULABLE: "uncordon node {}",
    TO_BE_DELETED_TAINT: "cancel the removal of node {}",
}
_STARTING: Final = ("startup-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/")
#: Prefixes of labels that kubelets, cloud providers and storage drivers set to describe the machine.
_GIVEN: Final = ("kubernetes.io/", "beta.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "topology.")
_GIVEN_KEYS: Final = frozenset({"node.kubernetes.io/instance-type", NODE_GROUP})


def is_transient(key: str) -> bool:
    """Does a taint with this key describe a temporary state of the node?"""
    return key in _ENDS or key.startswith(_STARTING)


def until_over(node: Node, key: str) -> Change:
    """The change by which the temporary state ends: removes all taints with this key, and for a cordon `unschedulable`."""
    words = _ENDS.get(key, f"wait until node {{}} has started, which takes taint {key} off").format(node.name)

    def edit(node: Node) -> Node:
        taints = tuple(taint for taint in node.taints if taint.key != key)
        return structs.replace(node, taints=taints, unschedulable=node.unschedulable and key != UNSCHEDULABLE)

    return NodeEdit(words=words, node=node.name, edit=edit)


_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


def taint_text(taint: Taint) -> str:
    """The taint as kubectl prints it."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _untolerated(asked: PodQuery, taints: tuple[Taint, ...]) -> list[Taint]:
    tolerations, comparing = asked.pod.kind.tolerations, asked.snapshot.follows(Rule.COMPARING_TOLERATIONS)
    return [taint for taint in taints if taint.effect in _REPELLING and not tolerated(taint, tolerations, comparing=comparing)]


def n_taints(asked: PodQuery) -> Int64:
    """The number of obstacles by taints on each row, shape (n_rows,). The taint of a cordon is not counted, because the cordon
    itself is an obstacle."""
    facts = asked.snapshot.facts
    of_set = []
    for taints in (_untolerated(asked, taints) for taints in facts.taints.values):
        passing = {taint.key for taint in taints if is_transient(taint.key)}
        of_set.append(len(passing - {UNSCHEDULABLE}) + sum(taint.key not in passing for taint in taints))
    counted: Int64 = np.array(of_set, np.int64)[facts.taints.ids[: facts.n_rows]]
    return counted


def taint_findings(asked: PodQuery, rows: Rows) -> list[Finding]:
    """One finding for each taint that the pod does not tolerate on some of the rows, the most frequent first."""
    facts = asked.snapshot.facts
    counts: Counter[str] = Counter()
    for number, n_rows in zip(*np.unique(facts.taints.ids[: facts.n_rows][rows], return_counts=True), strict=True):
        for taint in _untolerated(asked, facts.taints.values[number]):
            counts[taint_text(taint)] += int(n_rows)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        of_reason(Reason.TAINT_NOT_TOLERATED, nodes=n_rows, objects=(f"taint {text}",))
        for text, n_rows in ordered[:MOST_OBJECTS]
    ]


def taint_obstacles(asked: PodQuery, row: Row) -> Iterator[Obstacle]:
    """One obstacle for each taint that the pod does not tolerate. Taints of one temporary state end together, so they are one
    obstacle."""
    node = asked.snapshot.facts.nodes[row]
    taints = _untolerated(asked, node.taints)
    passing = dict.fromkeys(taint.key for taint in taints if is_transient(taint.key))
    for key in passing:
        if key != UNSCHEDULABLE or not node.unschedulable:  # `cordon_obstacles` reports a cordon
            texts = (f"taint {taint_text(taint)}" for taint in taints if taint.key == key)
            finding = of_reason(Reason.TAINT_NOT_TOLERATED, nodes=1, objects=(*texts, f"node {node.name}"))
            yield Obstacle(finding, (until_over(node, key),))
    for taint in taints:
        if taint.key not in passing:
            text = taint_text(taint)
            finding = of_reason(Reason.TAINT_NOT_TOLERATED, nodes=1, objects=(f"taint {text}", f"node {node.name}"))
            yield Obstacle(finding, (_untaint(node, taint), _tolerate(asked, taint)))


def _untaint(node: Node, taint: Taint) -> Change:
    def edit(node: Node) -> Node:
        return structs.replace(node, taints=tuple(each for each in node.taints if each != taint))

    return NodeEdit(words=f"remove taint {taint_text(taint)} from node {node.name}", node=node.name, edit=edit)


def _tolerate(asked: PodQuery, taint: Taint) -> Change:
    toleration = Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)
    return asked.edit_kind(
        f"let pod {asked.pod.key} tolerate taint {taint_text(taint)}",
        lambda kind: replace(kind, tolerations=(*kind.tolerations, toleration)),
    )


def cordon_obstacles(asked: PodQuery, row: Row) -> Iterator[Obstacle]:
    node = asked.snapshot.facts.nodes[row]
    finding = of_reason(Reason.NODE_UNSCHEDULABLE, nodes=1, objects=(f"node {node.name}",))
    yield Obstacle(finding, (until_over(node, UNSCHEDULABLE),))


def affinity_findings(asked: PodQuery, rows: Rows) -> list[Finding]:
    """One finding for each label of the pod's node selector that some of the rows' nodes lack, and one for the required node
    affinity if some do not match it; the most frequent first."""
    facts, kind = asked.snapshot.facts, asked.pod.kind
    found = []
    for key, value in kind.node_selector:
        column = facts.label(key)
        lacking = int((column.ids[: facts.n_rows][rows] != column.known(value)).sum())
        if column.known(value) < 0:
            lacking = len(rows)
        if lacking:
            found.append(of_reason(Reason.NODE_AFFINITY, nodes=lacking, objects=(f"label {key}={value}",)))
    if kind.node_affinity is not None:
        lacking = int((~rows_of_terms(facts, kind.node_affinity, rows)).sum())
        if lacking:
            found.append(of_reason(Reason.NODE_AFFINITY, nodes=lacking, objects=(f"nodeAffinity {_terms(asked)}",)))
    return sorted(found, key=lambda finding: -finding.nodes)


def _terms(asked: PodQuery) -> str:
    """The terms of the pod's required node affinity as text."""
    terms = asked.pod.kind.node_affinity or ()
    return " or ".join(
        " and ".join(f"{req.key} {req.operator} {','.join(req.values)}".rstrip() for req in (*term.labels, *term.fields))
        or "nothing"
        for term in terms
    )


def affinity_obstacles(asked: PodQuery, row: Row) -> Iterator[Obstacle]:
    node, kind, facts = asked.snapshot.facts.nodes[row], asked.pod.kind, asked.snapshot.facts
    for key, value in kind.node_selector:
        if node.labels.get(key) != value:
            finding = of_reason(Reason.NODE_AFFINITY, nodes=1, objects=(f"label {key}={value}", f"node {node.name}"))
            yield Obstacle(finding, tuple(_label_changes(asked, node, key, value)))
    rows: Rows = np.array([row], np.intp)
    if kind.node_affinity is not None and not rows_of_terms(facts, kind.node_affinity, rows)[0]:
        finding = of_reason(Reason.NODE_AFFINITY, nodes=1, objects=(f"nodeAffinity {_terms(asked)}", f"node {node.name}"))
        yield Obstacle(finding, (asked.without_node_affinity(),))


def _label_changes(asked: PodQuery, node: Node, key: str, value: str) -> Iterator[Change]:
    # Setting a label by hand makes no sense if it describes the machine.
    if key not in _GIVEN_KEYS and not key.startswith(_GIVEN):
        words = f"label node {node.name} with {key}={value}"
        yield NodeEdit(words=words, node=node.name, edit=lambda node: structs.replace(node, labels={**node.labels, key: value}))
    yield asked.edit_kind(
        f"take {key}={value} out of the node selector of pod {asked.pod.key}",
        lambda kind: replace(kind, node_selector=tuple(pair for pair in kind.node_selector if pair != (key, value))),
    )
