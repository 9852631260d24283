"""Explains permits, migrations and gates: why a pod is not permitted more, why a pod does not migrate, what a gate waits for.

In: the state machine's knowledge as values (`GrowingPod`, `MigratingPod`, `GatedPreemptor`), and an explain input. Out: an
`Explanation`; trials on the snapshot find the remedies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs

from slackwater.explain.explain_input import ExplainInput, PodEdit, PodLeaves, after
from slackwater.explain.findings import Explanation, Finding, PodQuery, Remedy, of_reason, remedy
from slackwater.explain.obstacles import on_row, why_nowhere
from slackwater.explain.pods import nearest_changes
from slackwater.explain.resource_findings import unit_of
from slackwater.fit.assumed_claims import take_off
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason, WaitReason
from slackwater.model.resources import NOTHING, RESOURCES, Amounts
from slackwater.snapshot.running_pods import RunningPod

_MOST_TRIED: Final = 32


def places(
    explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts
) -> tuple[list[NodeName], list[Finding]]:
    """The other nodes that would take the pod if it requested the amounts `wanted`, and why the rest would not. Leaves the
    snapshot unchanged."""
    snapshot = explain_input.snapshot
    with snapshot.fork():
        asked = _taken_off(explain_input, running_pod, row, wanted)
        snapshot.close(row)
        rows = feasible(snapshot, asked.kind).rows
        return [snapshot.facts.nodes[at].name for at in rows.tolist()], why_nowhere(asked)


def place_remedies(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> list[Remedy]:
    """Single changes after which another node would take the pod if it requested `wanted`; no changes of the pod itself."""
    snapshot = explain_input.snapshot
    with snapshot.fork():
        asked = _taken_off(explain_input, running_pod, row, wanted)
        # Changes of the pod itself do not help, because `wanted` is the amount in question.
        tried = [
            change
            for change in nearest_changes(asked, row)
            if not (isinstance(change, PodEdit | PodLeaves) and change.pod.uid == running_pod.pod.uid)
        ]
    found = []
    for change in tried[:_MOST_TRIED]:
        with after(explain_input, (change,)) as then:
            if places(then, running_pod, row, wanted)[0]:
                found.append(remedy(change))
    return found


def room_remedies(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> list[Remedy]:
    """The remedy to move one other pod off the node, which then has room for `wanted`: the smallest pod with which this works.
    Empty if there is none."""
    others = sorted(
        (other for other in explain_input.running_pods.on(row) if other.pod.uid != running_pod.pod.uid),
        key=lambda other: (other.pod.kind.requests.cpu, other.pod.kind.requests.memory, other.pod.key),
    )
    for other in others[:_MOST_TRIED]:
        name = explain_input.snapshot.facts.nodes[row].name
        change = PodLeaves(words=f"move pod {other.pod.key} off node {name}", pod=other.pod, row=row)
        with after(explain_input, (change,)) as then:
            asked = _taken_off(then, running_pod, row, wanted)
            # Other rules than those about resources do not matter, because the pod is on the row already.
            if all(obstacle.finding.resource is None for obstacle in on_row(asked, row)):
                return [remedy(change)]
    return []


def _taken_off(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> PodQuery:
    """Removes the pod from its row in the present trial, and returns the query for a node with at least the amounts
    `wanted`."""
    take_off(explain_input.snapshot, running_pod.kind, row, running_pod.pod.uid)
    pod = running_pod.pod
    bigger = structs.replace(pod, kind=replace(pod.kind, requests=pod.kind.requests.at_least(wanted)))
    return PodQuery(explain_input.edited(pod.uid, None), bigger, at=row)


_MOST_NODES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingPod:
    """A vertical pod on its node, as the state machine counts it. `denied` is what its agent asked for and was refused
    (CapacityPressure).

    `held` is the part of `reserved` that is reserved only because the pod's agent has not asked yet. `writing`: a permit is
    being persisted. `fenced`: no write of a former process can change the persisted permit any more.
    """

    pod: Pod
    node: NodeName
    reserved: Amounts
    denied: Amounts = NOTHING
    held: Amounts = NOTHING
    writing: bool = False
    fenced: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratingPod:
    """A pod that is to migrate or is migrating. `phase`: that of the migration; None: it has not begun. `before`: the number of
    pods before it in the queue. `backing_off`: seconds until the next attempt; None: no back-off."""

    grower: GrowingPod
    phase: str | None = None
    target_node: NodeName | None = None
    before: int = 0
    backing_off: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedPreemptor:
    """A preemptor whose gate is or was shut. `phase` is that of its preemption; `waiting` are the victims that still exist."""

    pod: Pod
    node: NodeName
    phase: str
    shut: bool
    waiting: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def explain_permit(explain_input: ExplainInput, known: GrowingPod) -> Explanation:
    """Explains why the pod's agent has not been permitted more. Remedies are given if something was refused."""
    codes = (Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY)
    reasons = [
        of_reason(code, nodes=1, resource=resource, short={unit_of(resource): amount}, objects=(f"node {known.node}",))
        for code, resource, amount in zip(codes, RESOURCES, known.denied, strict=True)
        if amount
    ]
    if any(known.held):
        reasons.append(of_reason(WaitReason.NOT_HEARD, objects=(f"pod {known.pod.key}",), short=_amounts(known.held)))
    if known.writing:
        reasons.append(of_reason(WaitReason.NOT_ON_RECORD, objects=(f"pod {known.pod.key}",)))
    if not known.fenced:
        reasons.append(of_reason(WaitReason.FENCED, objects=(f"pod {known.pod.key}",)))
    found = _running_pod(explain_input, known)
    remedies: list[Remedy] = []
    facts = dict(known.facts)
    if any(known.denied) and found is not None:
        wanted = known.reserved.plus(known.denied)
        remedies = room_remedies(explain_input, *found, wanted)
        if known.pod.migratable:
            facts["nodesWithRoom"] = places(explain_input, *found, wanted)[0][:_MOST_NODES]
    return Explanation(
        object=f"permit {known.pod.key}",
        state="denied" if any(known.denied) else "granted",
        reasons=tuple(reasons) or (of_reason(WaitReason.GRANTED),),
        remedies=tuple(remedies),
        facts=facts,
    )


def explain_migration(explain_input: ExplainInput, known: MigratingPod) -> Explanation:
    """Explains why a pod migrates, or does not."""
    pod = known.grower.pod
    title = f"migration {pod.key}"
    if known.phase is not None:
        where = () if known.target_node is None else (f"node {known.target_node}",)
        under_way = of_reason(WaitReason.UNDER_WAY, detail=known.phase, objects=where)
        return Explanation(object=title, state="under_way", reasons=(under_way,), facts=known.grower.facts)
    reasons: list[Finding] = []
    if known.backing_off is not None:
        reasons.append(of_reason(WaitReason.BACKING_OFF, detail=f"for {known.backing_off:.0f} s"))
    if known.before:
        reasons.append(of_reason(WaitReason.QUEUED, detail=f"{known.before} before it"))
    found = _running_pod(explain_input, known.grower)
    remedies: list[Remedy] = []
    facts = dict(known.grower.facts)
    if found is not None:
        wanted = known.grower.reserved
        nodes, why = places(explain_input, *found, wanted)
        facts["nodesWithRoom"] = nodes[:_MOST_NODES]
        if not nodes:
            reasons += [of_reason(WaitReason.NO_TARGET_NODE, objects=(f"pod {pod.key}",)), *why]
            remedies = place_remedies(explain_input, *found, wanted)
    return Explanation(object=title, state="waiting", reasons=tuple(reasons), remedies=tuple(remedies), facts=facts)


def explain_gate(known: GatedPreemptor) -> Explanation:
    """Explains what a gate waits for. There are no remedies, because the victims are already being deleted."""
    objects = (*(f"pod {victim}" for victim in known.waiting), f"node {known.node}")
    reason = (
        of_reason(Reason.GATED, nodes=1, objects=objects)
        if known.shut
        else of_reason(WaitReason.VICTIMS_LEAVE, nodes=1, objects=objects, detail=known.phase)
    )
    return Explanation(object=f"gate {known.pod.key}", state=known.phase, reasons=(reason,), facts=known.facts)


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {unit_of(resource): amount for resource, amount in zip(RESOURCES, amounts, strict=True) if amount}


def _running_pod(explain_input: ExplainInput, known: GrowingPod) -> tuple[RunningPod, Row] | None:
    row = explain_input.row_of(known.node)
    running_pod = None if row is None else explain_input.running_pod(row, known.pod.uid)
    return None if row is None or running_pod is None else (running_pod, row)
