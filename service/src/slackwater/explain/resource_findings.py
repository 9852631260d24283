"""Makes findings and obstacles about lacking resources: how much of which resource lacks, by kube-scheduler's accounting and by
ours, and what would help."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.explain.events import quantity_in
from slackwater.explain.explain_input import Change, NodeEdit, PodEdit
from slackwater.explain.findings import Finding, PodQuery, of_reason
from slackwater.fit.plugins.node_accounting import lacks_request
from slackwater.fit.plugins.node_resources import asked_lines, unoffered
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.model.reasons import Reason
from slackwater.model.resources import RESOURCES, Amounts
from slackwater.snapshot.node_facts import CPU, FIRST_RESOURCES, MEMORY, PODS
from slackwater_protocol.units import Bytes, MilliCpu

_FULL: Final = (Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY)
_ABOVE: Final = (Reason.CPU_ABOVE_TOTAL, Reason.MEMORY_ABOVE_TOTAL)


def unit_of(resource: str) -> str:
    """The unit of the resource's amounts: "milliCPU", "bytes" or "count"."""
    if resource == "cpu":
        return "milliCPU"
    return "bytes" if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-") else "count"


def quantity(resource: str, amount: int) -> str:
    """The amount as a Kubernetes quantity, such as 500m or 4Gi."""
    return quantity_in(unit_of(resource), amount)


def lacking(asked: PodQuery) -> Iterator[tuple[str, Int64, Int64]]:
    """How much lacks on each row, for each resource that the pod requests and for the number of pods. Yields the resource, what
    is allocatable, and what lacks; both of shape (n_rows,). 0 or less: nothing lacks."""
    snapshot = asked.snapshot
    used = snapshot.used_against(asked.numbered.kind)[:, : snapshot.n_rows]
    allocatable = snapshot.facts.allocatable[:, : snapshot.n_rows]
    yield FIRST_RESOURCES[PODS], allocatable[PODS], 1 - (allocatable[PODS] - used[PODS])
    names, nothing = list(snapshot.facts.resource), np.zeros(snapshot.n_rows, np.int64)
    for line, amount in asked_lines(snapshot, asked.numbered):
        yield names[line], allocatable[line], amount - (allocatable[line] - used[line])
    for name, amount in unoffered(snapshot, asked.numbered):
        yield name, nothing, nothing + amount


def short_findings(asked: PodQuery, rows: Rows) -> list[Finding]:
    """One finding for each resource of which some rows have too little by kube-scheduler's accounting; the most frequent
    first."""
    found = [_short(asked, *lack, rows) for lack in lacking(asked) if (lack[2][rows] > 0).any()]
    return sorted(found, key=lambda finding: -finding.nodes)


def _short(asked: PodQuery, resource: str, allocatable: Int64, amounts: Int64, rows: Rows) -> Finding:
    short = rows[amounts[rows] > 0]
    closest = short[int(np.argmin(amounts[short]))]
    counts_pods = resource == FIRST_RESOURCES[PODS]
    above = bool((allocatable[short] < (1 if counts_pods else asked_of(asked.pod, resource))).all())
    detail = "Too many pods" if counts_pods else f"Insufficient {resource}"
    return of_reason(
        Reason.RESOURCES_ABOVE_NODE if above else Reason.RESOURCES_SHORT,
        nodes=len(short),
        resource=resource,
        short={unit_of(resource): int(amounts[closest])},
        closest=asked.name_of(Row(int(closest))),
        detail=detail,
    )


def enough(asked: PodQuery, row: Row, finding: Finding) -> tuple[Change, ...]:
    """Changes after which the row has enough of the resource that the finding says is short."""
    assert finding.resource is not None
    amount = finding.short[unit_of(finding.resource)]
    if finding.resource == "pods":
        return (_more_pods(asked, row, amount),)
    lower = _lower(asked, finding.resource, amount)
    return () if lower is None else (lower,)


def _more_pods(asked: PodQuery, row: Row, amount: int) -> Change:
    node = asked.snapshot.facts.nodes[row]
    before = dict(node.scalars).get("pods", 0)

    def edit(node: Node) -> Node:
        return structs.replace(node, scalars=tuple(sorted({**dict(node.scalars), "pods": before + amount}.items())))

    return NodeEdit(words=f"let node {node.name} take {before + amount} pods instead of {before}", node=node.name, edit=edit)


def _lower(asked: PodQuery, resource: str, amount: int) -> PodEdit | None:
    """The change that lowers the pod's request for the resource by `amount`; None if nothing would be left of the request."""
    asks = asked_of(asked.pod, resource)
    left = asks - amount
    if left <= 0:
        return None
    words = (
        f"lower the request of pod {asked.pod.key} for {resource} by {quantity(resource, amount)}, "
        f"from {quantity(resource, asks)} to {quantity(resource, left)}"
    )
    return PodEdit(words=words, pod=asked.pod, row=asked.at, edit=lowered(resource, left))


def asked_of(pod: Pod, resource: str) -> int:
    """The pod's request for the resource."""
    if resource in RESOURCES:
        return pod.kind.requests[RESOURCES.index(resource)]
    return dict((pod.kind.pod_constraints or NO_POD_CONSTRAINTS).scalars).get(resource, 0)


def lowered(resource: str, left: int) -> Callable[[Pod], Pod]:
    """An edit that lowers a pod's request for the resource to at most `left`."""

    def edit(pod: Pod) -> Pod:
        kind, asks = pod.kind, pod.kind.pod_constraints
        if resource in RESOURCES:
            cpu, memory = kind.requests
            at = RESOURCES.index(resource)
            new = Amounts(MilliCpu(min(cpu, left)), memory) if at == CPU else Amounts(cpu, Bytes(min(memory, left)))
            return structs.replace(pod, kind=replace(kind, requests=new))
        assert asks is not None, resource
        scalars = tuple((name, min(amount, left) if name == resource else amount) for name, amount in asks.scalars)
        return structs.replace(pod, kind=replace(kind, pod_constraints=replace(asks, scalars=scalars)))

    return edit


# --- our own accounting ---------------------------------------------------------------------------------------------------


def ledger_findings(asked: PodQuery, rows: Rows) -> list[Finding]:
    """Findings by our own accounting. A node's free amount is its Total minus Reserved and minus the holds for other pods."""
    kind = asked.pod.kind
    if lacks_request(asked.snapshot, kind):
        return [of_reason(Reason.MISSING_REQUEST, nodes=len(rows), objects=(f"container {kind.missing_request}",))]
    found = [finding for line in (CPU, MEMORY) for finding in _ledger_short(asked, line, rows) if asked.pod.kind.requests[line]]
    return sorted(found, key=lambda finding: -finding.nodes)


def _ledger_short(asked: PodQuery, line: int, rows: Rows) -> Iterator[Finding]:
    columns = asked.snapshot.ledger_against(asked.pod.kind)
    assert columns is not None
    want, total = asked.pod.kind.requests[line], columns.total[line, rows]
    free = columns.unreserved(rows)[line]
    held = columns.held[line, rows]
    levels = (
        (Reason.HELD_FOR_OTHERS, (free - held < want) & (free >= want), want - (free - held)),
        (_FULL[line], (free < want) & (total >= want), want - (free - held)),
        (_ABOVE[line], total < want, want - (free - held)),
    )
    for reason, mask, amounts in levels:
        if mask.any():
            at = int(np.argmin(np.where(mask, amounts, np.iinfo(np.int64).max)))
            yield of_reason(
                reason,
                nodes=int(mask.sum()),
                resource=RESOURCES[line],
                short={unit_of(RESOURCES[line]): int(amounts[at])},
                closest=asked.name_of(Row(int(rows[at]))),
            )
