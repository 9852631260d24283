"""Defines the parts of an explanation, and converts them to JSON values.

- `Explanation`: the answer, made of `Finding`, `Remedy`, `MinimalSet` and `GroupVerdict`.
- `Obstacle`: what keeps a pod off a node, or a node from being removed, with changes that might help.
- `PodQuery`: the pod for which a node is sought, and the cluster.
- `of_reason`, `of_wait_reason`, `of_unremovable_reason`: make the finding for a code. `document`: makes the JSON value.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slackwater.explain.explain_input import ExplainInput
from slackwater.explain.remedies import Change, PodEdit
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind, PodConstraints
from slackwater.model.reasons import MEANINGS, UNREMOVABLE_TEXTS, WAIT_TEXTS, Reason, UnremovableReason, WaitReason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup

OURS: Final = "Slackwater"
#: How many objects one finding names.
MOST_OBJECTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason. `code` is from one of the closed lists of `model.reasons`; `plugin` is kube-scheduler's plug-in, or `OURS`.

    The reason applies to `nodes` nodes. `short` is the lacking amount of `resource` on the node `closest`, which lacks least,
    by unit (milliCPU, bytes, count). `objects` are the objects that cause the reason, as "kind name".
    """

    code: str
    plugin: str = OURS
    text: str
    detail: str = ""
    nodes: int = 0
    resource: str | None = None
    short: Mapping[str, int] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    closest: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Changes that together solve the problem, as a trial has shown. None of them can be left out."""

    changes: tuple[Change, ...]

    @property
    def words(self) -> str:
        return "; and ".join(change.words for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalSet:
    """Obstacles at one node (`where`) that have to be removed together. Entry i of `changes` removes entry i of `blockers`.
    Removing only some of them does not help."""

    where: str
    blockers: tuple[Finding, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """Why a node group does not help a pod. Without findings: a new node of the group would take the pod."""

    group: GroupName
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNode:
    """Another node that would take a placed pod now. `score` is its weighted score; `difference` is that score minus the score
    of the pod's own node, by plug-in, without plug-ins of equal score."""

    node: NodeName
    score: int
    difference: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """The comparison of a placed pod's node with the other nodes. `score` is the score of the pod's node. `feasible` is the
    number of other nodes that would take the pod, `nodes` the best of these. `findings` say why the remaining nodes would
    not."""

    score: int
    feasible: int
    nodes: tuple[OtherNode, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer about one object. `facts` are figures about the object. `notes` say what could not be judged. `remarks` apply
    to every answer at present, such as a pause, or say what is not kept of the slack that a pod asks for. `history` is what
    happened to the object last. `instead` is set only for a placed pod."""

    object: str
    state: str
    reasons: tuple[Finding, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    minimal: tuple[MinimalSet, ...] = ()
    groups: tuple[GroupVerdict, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    history: tuple[Mapping[str, Any], ...] = ()
    instead: Instead | None = None


def of_reason(reason: Reason, **more: Any) -> Finding:
    """The finding for a verdict."""
    meaning = MEANINGS[reason]
    return Finding(code=meaning.label, plugin=meaning.plugin, text=meaning.text, **more)


def of_unremovable_reason(unremovable_reason: UnremovableReason, **more: Any) -> Finding:
    return Finding(code=str(unremovable_reason), text=UNREMOVABLE_TEXTS[unremovable_reason], **more)


def of_wait_reason(wait_reason: WaitReason, **more: Any) -> Finding:
    return Finding(code=str(wait_reason), text=WAIT_TEXTS[wait_reason], **more)


def document(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON values: the answer of `/explain/...`. Empty optional parts are left out."""
    answer: dict[str, Any] = {
        "object": explanation.object,
        "state": explanation.state,
        "reasons": [_finding(finding) for finding in explanation.reasons],
        "remedies": [_remedy(remedy.changes) for remedy in explanation.remedies],
        "minimal": [_minimal(each) for each in explanation.minimal],
        "facts": dict(explanation.facts),
    }
    if explanation.groups:
        answer["groups"] = [_group(word) for word in explanation.groups]
    if explanation.notes:
        answer["notes"] = list(explanation.notes)
    if explanation.remarks:
        answer["remarks"] = list(explanation.remarks)
    if explanation.history:
        answer["history"] = [dict(entry) for entry in explanation.history]
    if explanation.instead is not None:
        answer["instead"] = _instead(explanation.instead)
    return answer


def _finding(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "code": finding.code,
        "plugin": finding.plugin,
        "text": finding.text,
        "nodes": finding.nodes,
        "resource": finding.resource,
        "short": dict(finding.short),
        "objects": list(finding.objects),
    }
    if finding.detail:
        found["detail"] = finding.detail
    if finding.closest is not None:
        found["closest"] = finding.closest
    return found


def _remedy(changes: Iterable[Change]) -> dict[str, Any]:
    listed = tuple(changes)
    return {"change": Remedy(changes=listed).words, "checked": True, "changes": [change.words for change in listed]}


def _minimal(found: MinimalSet) -> dict[str, Any]:
    return {
        "where": found.where,
        "blockers": [_finding(blocker) for blocker in found.blockers],
        "remedy": _remedy(found.changes),
    }


def _instead(instead: Instead) -> dict[str, Any]:
    return {
        "asOf": "now",
        "score": instead.score,
        "feasible": instead.feasible,
        "nodes": [{"node": each.node, "score": each.score, "difference": dict(each.difference)} for each in instead.nodes],
        "reasons": [_finding(finding) for finding in instead.findings],
    }


def _group(word: GroupVerdict) -> dict[str, Any]:
    return {"group": word.group, "helps": not word.findings, "reasons": [_finding(finding) for finding in word.findings]}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a pod off a node, or a node from being removed. Each of `changes`, the mildest first, might remove the
    obstacle. Without changes, only time helps, or something that is not a change of an object."""

    finding: Finding
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class PodQuery:
    """The pod for which a node is sought. `at` is the row that a running pod would leave; None for a pending pod."""

    explain_input: ExplainInput
    pod: Pod
    at: Row | None = None

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.explain_input.snapshot

    @property
    def kind(self) -> KindId:
        return self.explain_input.kind_of(self.pod)

    @property
    def numbered(self) -> NumberedGroup:
        return self.snapshot.of(self.kind)

    @property
    def asks(self) -> PodConstraints:
        return self.pod.kind.pod_constraints or NO_POD_CONSTRAINTS

    def name_of(self, row: Row) -> NodeName:
        return self.snapshot.facts.nodes[row].name

    def edit_kind(self, words: str, edit: Callable[[Kind], Kind]) -> PodEdit:
        """Makes a change to try: the pod gets `edit(kind)` in place of its `kind` (requests and constraints). `words`: the text
        that describes the change to people."""
        return PodEdit(words=words, pod=self.pod, row=self.at, edit=lambda pod: replace(pod, kind=edit(pod.kind)))

    def edit_asks(self, words: str, edit: Callable[[PodConstraints], PodConstraints]) -> PodEdit:
        """Makes a change to try: the pod gets `edit(pod_constraints)` in place of its `pod_constraints`. `words`: the text that
        describes the change to people."""
        return self.edit_kind(
            words, lambda kind: replace(kind, pod_constraints=edit(kind.pod_constraints or NO_POD_CONSTRAINTS))
        )

    def without_node_affinity(self) -> PodEdit:
        """Makes a change to try: the pod loses its required node affinity."""
        words = f"let pod {self.pod.key} require no node affinity"
        return self.edit_kind(words, lambda kind: replace(kind, node_affinity=None))
