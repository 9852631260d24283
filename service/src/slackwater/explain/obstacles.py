"""Finds what keeps a pod off nodes, rule by rule, with amounts and objects; and the changes that might remove each obstacle.

    why_nowhere(asked)                    # for all nodes: each counts for the first rule that rejects it
    of_rows(asked, reason, rows)          # the findings of one verdict on many rows
    on_row(asked, row)                    # all obstacles on one row, each with changes to try

kube-scheduler stops at the first rule that rejects a node; `on_row` applies the others too. An obstacle may still hide another
one (a second pod at the same port), so the search calls `on_row` again after each change.
"""

from collections.abc import Iterable

import numpy as np

from slackwater.explain import node_findings, pod_findings, resource_findings
from slackwater.explain.findings import Finding, Obstacle, PodQuery, of_reason
from slackwater.fit.feasible_nodes import feasible, judged_apart, refused, words
from slackwater.fit.plugins import Refusal
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.model.reasons import Reason, WaitReason
from slackwater.snapshot.node_facts import FIRST_RESOURCES, PODS

_ROOM = frozenset({Reason.RESOURCES_SHORT, Reason.RESOURCES_ABOVE_NODE})
_LEDGER = frozenset(
    {
        Reason.NOT_ENOUGH_CPU,
        Reason.NOT_ENOUGH_MEMORY,
        Reason.CPU_ABOVE_TOTAL,
        Reason.MEMORY_ABOVE_TOTAL,
        Reason.HELD_FOR_OTHERS,
    }
)


def of_rows(asked: PodQuery, reason: Reason, rows: Rows) -> list[Finding]:
    """The findings for why the nodes of some rows refuse the pod: one for each lacking resource, each taint and so on.
    Rules are applied in kube-scheduler's order; on each row, the first that refuses the pod gives the reason."""
    if reason in _ROOM:
        return resource_findings.short_findings(asked, rows)
    if reason in _LEDGER:
        return resource_findings.ledger_findings(asked, rows)
    if reason is Reason.TAINT_NOT_TOLERATED:
        return node_findings.taint_findings(asked, rows)
    if reason is Reason.NODE_AFFINITY:
        return node_findings.affinity_findings(asked, rows)
    first = Row(int(rows[0]))
    objects = tuple(dict.fromkeys(name for row in rows[:3].tolist() for name in pod_findings.objects(asked, reason, Row(row))))
    said = "; ".join(words(asked.snapshot, asked.kind, first, reason, None))
    detail = said if said != of_reason(reason).text else ""
    return [of_reason(reason, nodes=len(rows), objects=objects, detail=detail)]


def of_refusal(asked: PodQuery, refusal: Refusal) -> Finding:
    """The finding for a refusal by PreFilter, which refuses the pod on every node."""
    n_live = int(asked.snapshot.facts.live[: asked.snapshot.n_rows].sum())
    objects = pod_findings.objects(asked, refusal.reason, Row(0))
    return of_reason(refusal.reason, nodes=n_live, objects=objects, detail=refusal.text)


def on_row(asked: PodQuery, row: Row) -> list[Obstacle]:
    """All obstacles that keep the pod off the row's node, in the order of the rules; empty if the pod fits."""
    refusal = refused(asked.snapshot, asked.numbered)
    if refusal is not None:
        edits = (asked.without_node_affinity(),) if refusal.reason is Reason.AFFINITY_CONFLICT else ()
        return [Obstacle(of_refusal(asked, refusal), edits)]
    rows: Rows = np.array([row], np.intp)
    found: list[Obstacle] = []
    for codes in judged_apart(asked.snapshot, asked.kind).values():
        reason = Reason(int(codes[row]))
        if reason is not Reason.OK:
            found += _obstacles(asked, row, rows, reason)
    return found


def _obstacles(asked: PodQuery, row: Row, rows: Rows, reason: Reason) -> Iterable[Obstacle]:
    if reason is Reason.TAINT_NOT_TOLERATED:
        return node_findings.taint_obstacles(asked, row)
    if reason is Reason.NODE_UNSCHEDULABLE:
        return node_findings.cordon_obstacles(asked, row)
    if reason is Reason.NODE_AFFINITY:
        return node_findings.affinity_obstacles(asked, row)
    found = of_rows(asked, reason, rows)
    if reason in _ROOM | _LEDGER:  # holds end soon without a change, so the only changes are lower requests
        return [Obstacle(each, resource_findings.enough(asked, row, each)) for each in found if each.resource]
    return pod_findings.obstacles(asked, row, reason, found[0])


def counts(asked: PodQuery) -> Int64:
    """A lower bound for the number of obstacles on each row, shape (n_rows,). Rows without a node, and closed rows, have a very
    large number."""
    snapshot = asked.snapshot
    apart = judged_apart(snapshot, asked.kind)
    total: Int64 = np.zeros(snapshot.n_rows, np.int64)
    for name, codes in apart.items():
        against = (codes != 0).astype(np.int64)
        if name == "NodeResourcesFit":
            against = np.sum([amounts > 0 for _, _, amounts in resource_findings.lacking(asked)], axis=0)
        elif name == "TaintToleration":
            against = node_findings.n_taints(asked)
        elif name == "Ledger" and "NodeResourcesFit" in apart:
            against = against * (apart["NodeResourcesFit"] == 0)
        total += against
    total[~snapshot.facts.live[: snapshot.n_rows]] = np.iinfo(np.int32).max
    return total


def relative_shortage(asked: PodQuery) -> Int64:
    """The sum of the lacking amounts on each row, in millionths of the node's allocatable; shape (n_rows,). Among rows with
    equally many obstacles, the one with the smaller sum is nearer to taking the pod."""
    snapshot = asked.snapshot
    far: Int64 = np.zeros(snapshot.n_rows, np.int64)
    for resource, allocatable, lacking in resource_findings.lacking(asked):
        total = np.maximum(allocatable, 1)
        weight = 1_000 if resource == FIRST_RESOURCES[PODS] else 1_000_000
        far += np.minimum(np.maximum(lacking, 0) / total * weight, 1_000_000_000).astype(np.int64)
    return far


def why_nowhere(asked: PodQuery, *, leave_out: Row | None = None) -> list[Finding]:
    """The reasons for which nodes reject the pod, each with the number of nodes that a rule rejects for it before any other
    rule. The most frequent reason comes first. Nodes that fit the pod, and the node of row `leave_out`, are not counted."""
    snapshot = asked.snapshot
    verdicts = feasible(snapshot, asked.kind)
    live = np.flatnonzero(snapshot.facts.live[: snapshot.n_rows])
    if leave_out is not None:
        live = live[live != leave_out]
    if not len(live):
        return [of_reason(WaitReason.NO_NODES)] if leave_out is None else []
    if verdicts.refusal is not None:
        return [of_refusal(asked, verdicts.refusal)]
    codes = verdicts.codes[live]
    found = []
    for code in np.unique(codes[codes != 0]).tolist():
        found += of_rows(asked, Reason(code), live[codes == code])
    return sorted(found, key=lambda finding: -finding.nodes)
