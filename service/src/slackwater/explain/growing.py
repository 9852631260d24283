"""Explains permits, migrations and gates: why a workload does not have more, why it does not migrate, what a gate waits for.

What the state machine knows comes in as values; remedies are found by trials on the snapshot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slackwater.explain.asked import Asked
from slackwater.explain.changes import Change, PodLeaves
from slackwater.explain.findings import Explanation, Finding, Remedy, of_reason, of_wait_reason
from slackwater.explain.obstacles import on_row
from slackwater.explain.pods import nearest, why_nowhere
from slackwater.explain.room import unit_of
from slackwater.explain.situation import ExplainInput, after
from slackwater.fit.feasible import feasible
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import NOTHING, RESOURCES, Amounts
from slackwater.model.wait_reasons import WaitReason
from slackwater.snapshot.running_pods import RunningPod

_MOST_TRIED: Final = 32


def places(
    explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts
) -> tuple[list[NodeName], list[Finding]]:
    """The nodes that would take the pod with these amounts, and why others would not. Leaves the snapshot as it was."""
    snapshot = explain_input.snapshot
    with snapshot.fork():
        asked = _lifted(explain_input, running_pod, row, wanted)
        snapshot.close(row)
        rows = feasible(snapshot, asked.kind).rows
        return [snapshot.facts.nodes[at].name for at in rows.tolist()], why_nowhere(asked)


def place_remedies(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> list[Remedy]:
    """Single changes after which another node would take the pod."""
    snapshot = explain_input.snapshot
    with snapshot.fork():
        asked = _lifted(explain_input, running_pod, row, wanted)
        tried = [
            change
            for near in nearest(asked, but=row)
            if len(against := on_row(asked, near)) == 1
            for change in against[0].changes
            if not _is_of(change, running_pod.pod)
        ]
    found = []
    for change in tried[:_MOST_TRIED]:
        with after(explain_input, (change,)) as then:
            if places(then, running_pod, row, wanted)[0]:
                found.append(Remedy(changes=(change,)))
    return found


def room_remedies(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> list[Remedy]:
    """The removal of one other pod on the node that makes room for all that is wanted: the smallest such pod."""
    others = sorted(
        (other for other in explain_input.standing.on(row) if other.pod.uid != running_pod.pod.uid),
        key=lambda other: (other.pod.kind.requests.cpu, other.pod.kind.requests.memory, other.pod.key),
    )
    for other in others[:_MOST_TRIED]:
        name = explain_input.snapshot.facts.nodes[row].name
        change = PodLeaves(words=f"move pod {other.pod.key} off node {name}", pod=other.pod, row=row)
        with after(explain_input, (change,)) as then:
            asked = _lifted(then, running_pod, row, wanted)
            if not list(_short(asked, row)):
                return [Remedy(changes=(change,))]
    return []


def _short(asked: Asked, row: Row) -> Iterator[Finding]:
    """What lacks in amounts alone, since the pod is already on the row."""
    yield from (obstacle.finding for obstacle in on_row(asked, row) if obstacle.finding.resource is not None)


def _lifted(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> Asked:
    """The pod as it asks for a node with these amounts, taken off its row in the present trial."""
    explain_input.snapshot.remove(running_pod.kind, row)
    pod = running_pod.pod
    bigger = replace(pod, kind=replace(pod.kind, requests=pod.kind.requests.at_least(wanted)))
    return Asked(explain_input.edited(pod.uid, None), bigger, at=row)


def _is_of(change: Change, pod: Pod) -> bool:
    """Does the change concern the pod itself? Its own requests are what the explanation is about."""
    subject = getattr(change, "pod", None)
    return isinstance(subject, Pod) and subject.uid == pod.uid


_MOST_NODES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Grower:
    """A counted pod that grows in place. `denied` is what it asked for and was refused (CapacityPressure).

    `held` is the part of Reserved that is held only because the pod's agent has not asked yet.
    """

    pod: Pod
    node: NodeName
    reserved: Amounts
    denied: Amounts = NOTHING
    held: Amounts = NOTHING
    writing: bool = False
    fenced: bool = True
    may_migrate: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A pod that is to migrate, or migrates. `phase` None: it has not begun; `before`: how many are ahead in the queue."""

    grower: Grower
    phase: str | None = None
    target_node: NodeName | None = None
    before: int = 0
    backing_off: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A preemptor behind its gate. `waiting` are the victims that still exist."""

    pod: Pod
    node: NodeName
    phase: str
    shut: bool
    waiting: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def explain_permit(explain_input: ExplainInput, told: Grower) -> Explanation:
    """Explains why an agent has not been permitted more."""
    reasons: list[Finding] = [*_denied(told)]
    if any(told.held):
        reasons.append(of_wait_reason(WaitReason.NOT_HEARD, objects=(f"pod {told.pod.key}",), short=_amounts(told.held)))
    if told.writing:
        reasons.append(of_wait_reason(WaitReason.NOT_ON_RECORD, objects=(f"pod {told.pod.key}",)))
    if not told.fenced:
        reasons.append(of_wait_reason(WaitReason.FENCED, objects=(f"pod {told.pod.key}",)))
    found = _standing(explain_input, told)
    remedies: list[Remedy] = []
    facts = dict(told.facts)
    if any(told.denied) and found is not None:
        wanted = told.reserved.plus(told.denied)
        remedies = room_remedies(explain_input, *found, wanted)
        if told.may_migrate:
            facts["nodesWithRoom"] = places(explain_input, *found, wanted)[0][:_MOST_NODES]
    return Explanation(
        object=f"permit {told.pod.key}",
        state="denied" if any(told.denied) else "granted",
        reasons=tuple(reasons) or (of_wait_reason(WaitReason.GRANTED),),
        remedies=tuple(remedies),
        facts=facts,
    )


def explain_migration(explain_input: ExplainInput, told: Moving) -> Explanation:
    """Explains why a pod migrates, or does not."""
    pod = told.grower.pod
    title = f"migration {pod.key}"
    if told.phase is not None:
        where = () if told.target_node is None else (f"node {told.target_node}",)
        under_way = of_wait_reason(WaitReason.UNDER_WAY, detail=told.phase, objects=where)
        return Explanation(object=title, state="under_way", reasons=(under_way,), facts=told.grower.facts)
    reasons: list[Finding] = []
    if told.backing_off is not None:
        reasons.append(of_wait_reason(WaitReason.BACKING_OFF, detail=f"for {told.backing_off:.0f} s"))
    if told.before:
        reasons.append(of_wait_reason(WaitReason.QUEUED, detail=f"{told.before} before it"))
    found = _standing(explain_input, told.grower)
    remedies: list[Remedy] = []
    facts = dict(told.grower.facts)
    if found is not None:
        wanted = told.grower.reserved
        nodes, why = places(explain_input, *found, wanted)
        facts["nodesWithRoom"] = nodes[:_MOST_NODES]
        if not nodes:
            reasons += [of_wait_reason(WaitReason.NO_TARGET_NODE, objects=(f"pod {pod.key}",)), *why]
            remedies = place_remedies(explain_input, *found, wanted)
    return Explanation(object=title, state="waiting", reasons=tuple(reasons), remedies=tuple(remedies), facts=facts)


def explain_gate(told: Gated) -> Explanation:
    """Explains what a gate waits for. There are no remedies: the victims are leaving already."""
    objects = (*(f"pod {victim}" for victim in told.waiting), f"node {told.node}")
    reason = (
        of_reason(Reason.GATED, nodes=1, objects=objects)
        if told.shut
        else of_wait_reason(WaitReason.VICTIMS_LEAVE, nodes=1, objects=objects, detail=told.phase)
    )
    return Explanation(object=f"gate {told.pod.key}", state=told.phase, reasons=(reason,), facts=told.facts)


def _denied(told: Grower) -> list[Finding]:
    codes = (Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY)
    return [
        of_reason(code, nodes=1, resource=resource, short={unit_of(resource): amount}, objects=(f"node {told.node}",))
        for code, resource, amount in zip(codes, RESOURCES, told.denied, strict=True)
        if amount
    ]


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {unit_of(resource): amount for resource, amount in zip(RESOURCES, amounts, strict=True) if amount}


def _standing(explain_input: ExplainInput, told: Grower) -> tuple[RunningPod, Row] | None:
    row = explain_input.row_of(told.node)
    if row is None:
        return None
    running_pod = next((each for each in explain_input.standing.on(row) if each.pod.uid == told.pod.uid), None)
    return None if running_pod is None else (running_pod, row)
