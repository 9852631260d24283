"""Defines the answer of `/explain/...` and its parts.

- `Explanation`: the answer, made of `Finding`, `Remedy`, `MinimalSet` and `GroupVerdict`.
- `Obstacle`: what keeps a pod off a node, or a node from being removed, with changes that might help.
- `PodQuery`: the pod for which a node is sought, and the cluster.
- `of_reason`: makes the finding for a reason. `remedy`: makes a remedy of changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, structs

from slackwater.explain.explain_input import Change, ExplainInput, PodEdit
from slackwater.model.history import HistoryLine
from slackwater.model.ids import NodeName, Row
from slackwater.model.json_answer import JsonAnswer, written
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind, PodConstraints
from slackwater.model.reasons import Reason, UnremovableReason, WaitReason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup

OURS: Final = "Slackwater"
#: How many objects one finding names.
MOST_OBJECTS: Final = 20


class Finding(JsonAnswer, frozen=True, kw_only=True):
    """One reason, from a closed list."""

    code: Annotated[str, Meta(description="From docs/reasons.md, docs/evacuation.md or docs/explain.md.")]
    plugin: Annotated[str, Meta(description="Whose word it is: a plug-in of kube-scheduler, or Slackwater.")] = written(OURS)
    text: str
    detail: Annotated[str, Meta(description="Figures. Left out where there are none.")] = ""
    nodes: Annotated[int, Meta(description="On how many nodes it holds.")] = written(0)
    resource: Annotated[str | None, Meta(description="What is short.")] = written(None)
    short: Annotated[
        Mapping[str, int], Meta(description="How much is lacking on the closest of these nodes: milliCPU, bytes or count.")
    ] = written({})
    objects: Annotated[tuple[str, ...], Meta(description="What is in the way, as `kind name`.")] = written(())
    closest: Annotated[NodeName | None, Meta(description="The node where least is lacking. Left out where none is meant.")] = (
        None
    )


class Remedy(JsonAnswer, frozen=True, kw_only=True):
    """A change that helps, as the simulator has confirmed."""

    change: str
    checked: Annotated[bool, Meta(description="Always true: a change that was not seen to help is not listed.")] = written(True)
    changes: Annotated[tuple[str, ...], Meta(description="Its parts; all are needed.")]


class MinimalSet(JsonAnswer, frozen=True, kw_only=True):
    """A minimal set of blockers: removing all of them helps, removing fewer does not."""

    where: str
    blockers: tuple[Finding, ...]
    remedy: Remedy


class GroupVerdict(JsonAnswer, frozen=True, kw_only=True):
    """Whether a node group helps a pending pod, and why not."""

    group: GroupName
    helps: bool
    reasons: tuple[Finding, ...]


class OtherNode(JsonAnswer, frozen=True, kw_only=True):
    """Another node that would take the pod now."""

    node: NodeName
    score: int
    difference: Annotated[Mapping[str, int], Meta(description="From the score of the pod's node, by plug-in, weighted.")]


class Instead(JsonAnswer, frozen=True, kw_only=True):
    """What could be chosen instead of a placed pod's node."""

    as_of: Annotated[Literal["now"], Meta(description="Computed when asked; nothing is kept of when the pod was placed.")] = (
        written("now")
    )
    score: Annotated[int, Meta(description="Of the pod's node.")]
    feasible: Annotated[int, Meta(description="Other nodes that would take the pod.")]
    nodes: Annotated[tuple[OtherNode, ...], Meta(description="The best of them, at most five.")]
    reasons: Annotated[tuple[Finding, ...], Meta(description="Why the rest would not.")]


class Explanation(JsonAnswer, frozen=True, kw_only=True):
    """The explanation of an object's state."""

    object: str
    state: str
    reasons: tuple[Finding, ...] = written(())
    remedies: tuple[Remedy, ...] = written(())
    minimal: tuple[MinimalSet, ...] = written(())
    facts: Annotated[Mapping[str, Any], Meta(description="Figures about the object.")] = written({})
    groups: Annotated[tuple[GroupVerdict, ...], Meta(description="Of a pending pod. Left out where there are no groups.")] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where everything was.")] = ()
    remarks: Annotated[
        tuple[str, ...], Meta(description="Pauses, and what is not kept of the pod's slack. Left out if empty.")
    ] = ()
    instead: Annotated[Instead | None, Meta(description="Of a placed pod. Left out otherwise.")] = None
    history: Annotated[tuple[HistoryLine, ...], Meta(description="What happened last, see /history. Left out if empty.")] = ()


def of_reason(reason: Reason | WaitReason | UnremovableReason, **more: Any) -> Finding:
    """The finding for a reason of any of the three closed lists."""
    if isinstance(reason, Reason):
        return Finding(code=reason.label, plugin=reason.plugin, text=reason.text, **more)
    return Finding(code=str(reason), text=reason.text, **more)


def remedy(*changes: Change) -> Remedy:
    """The remedy that consists of these changes, as a trial has shown. None of them can be left out."""
    words = tuple(change.words for change in changes)
    return Remedy(change="; and ".join(words), changes=words)


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
        return PodEdit(words=words, pod=self.pod, row=self.at, edit=lambda pod: structs.replace(pod, kind=edit(pod.kind)))

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
