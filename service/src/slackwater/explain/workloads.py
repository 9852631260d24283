"""Explains permits, migrations and gates: why a workload does not have more, why it does not migrate, what a gate waits for.

What the state machine knows comes in as values; remedies are found by trials on the snapshot.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slackwater.explain.explain_input import ExplainInput, after
from slackwater.explain.findings import Explanation, Finding, PodQuery, Remedy, of_reason, of_wait_reason
from slackwater.explain.obstacles import on_row
from slackwater.explain.pods import nearest
from slackwater.explain.remedies import Change, PodLeaves
from slackwater.explain.resource_findings import unit_of
from slackwater.explain.why_nowhere import why_nowhere
from slackwater.fit.assumed_bindings import take_off
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
        (other for other in explain_input.running_pods.on(row) if other.pod.uid != running_pod.pod.uid),
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


def _short(asked: PodQuery, row: Row) -> Iterator[Finding]:
    """What lacks in amounts alone, since the pod is already on the row."""
    yield from (obstacle.finding for obstacle in on_row(asked, row) if obstacle.finding.resource is not None)


def _lifted(explain_input: ExplainInput, running_pod: RunningPod, row: Row, wanted: Amounts) -> PodQuery:
    """The pod as it asks for a node with these amounts, taken off its row in the present trial."""
    take_off(explain_input.snapshot, running_pod.kind, row, running_pod.pod.uid)
    pod = running_pod.pod
    bigger = replace(pod, kind=replace(pod.kind, requests=pod.kind.requests.at_least(wanted)))
    return PodQuery(explain_input.edited(pod.uid, None), bigger, at=row)


def _is_of(change: Change, pod: Pod) -> bool:
    """Does the change concern the pod itself? Its own requests are what the explanation is about."""
    subject = getattr(change, "pod", None)
    return isinstance(subject, Pod) and subject.uid == pod.uid


_MOST_NODES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingPod:
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
class MigratingPod:
    """A pod that is to migrate, or migrates. `phase` None: it has not begun; `before`: how many are ahead in the queue."""

    grower: GrowingPod
    phase: str | None = None
    target_node: NodeName | None = None
    before: int = 0
    backing_off: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedPreemptor:
    """A preemptor behind its gate. `waiting` are the victims that still exist."""

    pod: Pod
    node: NodeName
    phase: str
    shut: bool
    waiting: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def explain_permit(explain_input: ExplainInput, known: GrowingPod) -> Explanation:
    """Explains why an agent has not been permitted more."""
    reasons: list[Finding] = [*_denied(known)]
    if any(known.held):
        reasons.append(of_wait_reason(WaitReason.NOT_HEARD, objects=(f"pod {known.pod.key}",), short=_amounts(known.held)))
    if known.writing:
        reasons.append(of_wait_reason(WaitReason.NOT_ON_RECORD, objects=(f"pod {known.pod.key}",)))
    if not known.fenced:
        reasons.append(of_wait_reason(WaitReason.FENCED, objects=(f"pod {known.pod.key}",)))
    found = _running_pods(explain_input, known)
    remedies: list[Remedy] = []
    facts = dict(known.facts)
    if any(known.denied) and found is not None:
        wanted = known.reserved.plus(known.denied)
        remedies = room_remedies(explain_input, *found, wanted)
        if known.may_migrate:
            facts["nodesWithRoom"] = places(explain_input, *found, wanted)[0][:_MOST_NODES]
    return Explanation(
        object=f"permit {known.pod.key}",
        state="denied" if any(known.denied) else "granted",
        reasons=tuple(reasons) or (of_wait_reason(WaitReason.GRANTED),),
        remedies=tuple(remedies),
        facts=facts,
    )


def explain_migration(explain_input: ExplainInput, known: MigratingPod) -> Explanation:
    """Explains why a pod migrates, or does not."""
    pod = known.grower.pod
    title = f"migration {pod.key}"
    if known.phase is not None:
        where = () if known.target_node is None else (f"node {known.target_node}",)
        under_way = of_wait_reason(WaitReason.UNDER_WAY, detail=known.phase, objects=where)
        return Explanation(object=title, state="under_way", reasons=(under_way,), facts=known.grower.facts)
    reasons: list[Finding] = []
    if known.backing_off is not None:
        reasons.append(of_wait_reason(WaitReason.BACKING_OFF, detail=f"for {known.backing_off:.0f} s"))
    if known.before:
        reasons.append(of_wait_reason(WaitReason.QUEUED, detail=f"{known.before} before it"))
    found = _running_pods(explain_input, known.grower)
    remedies: list[Remedy] = []
    facts = dict(known.grower.facts)
    if found is not None:
        wanted = known.grower.reserved
        nodes, why = places(explain_input, *found, wanted)
        facts["nodesWithRoom"] = nodes[:_MOST_NODES]
        if not nodes:
            reasons += [of_wait_reason(WaitReason.NO_TARGET_NODE, objects=(f"pod {pod.key}",)), *why]
            remedies = place_remedies(explain_input, *found, wanted)
    return Explanation(object=title, state="waiting", reasons=tuple(reasons), remedies=tuple(remedies), facts=facts)


def explain_gate(known: GatedPreemptor) -> Explanation:
    """Explains what a gate waits for. There are no remedies: the victims are leaving already."""
    objects = (*(f"pod {victim}" for victim in known.waiting), f"node {known.node}")
    reason = (
        of_reason(Reason.GATED, nodes=1, objects=objects)
        if known.shut
        else of_wait_reason(WaitReason.VICTIMS_LEAVE, nodes=1, objects=objects, detail=known.phase)
    )
    return Explanation(object=f"gate {known.pod.key}", state=known.phase, reasons=(reason,), facts=known.facts)


def _denied(known: GrowingPod) -> list[Finding]:
    codes = (Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY)
    return [
        of_reason(code, nodes=1, resource=resource, short={unit_of(resource): amount}, objects=(f"node {known.node}",))
        for code, resource, amount in zip(codes, RESOURCES, known.denied, strict=True)
        if amount
    ]


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {unit_of(resource): amount for resource, amount in zip(RESOURCES, amounts, strict=True) if amount}


def _running_pods(explain_input: ExplainInput, known: GrowingPod) -> tuple[RunningPod, Row] | None:
    row = explain_input.row_of(known.node)
    if row is None:
        return None
    running_pod = next((each for each in explain_input.running_pods.on(row) if each.pod.uid == known.pod.uid), None)
    return None if running_pod is None else (running_pod, row)
