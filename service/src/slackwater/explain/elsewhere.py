"""Explains where else a running pod could go, or why nowhere; and whether it could have more where it is.

This is for machines that migrate and permits that grow. The pod is judged with all amounts that it is to have.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from slackwater.explain.asked import Asked
from slackwater.explain.changes import Change, PodLeaves
from slackwater.explain.findings import Finding, Remedy
from slackwater.explain.obstacles import on_row
from slackwater.explain.pods import nearest, why_nowhere
from slackwater.explain.situation import ExplainInput, after
from slackwater.fit.feasible import feasible
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts
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
