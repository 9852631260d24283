"""The pod that an explanation is about, with its input; and what an obstacle is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from slackwater.explain.changes import Change, PodEdit
from slackwater.explain.findings import Finding
from slackwater.explain.situation import ExplainInput
from slackwater.model.equivalence import Kind
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, Numbered


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An obstacle, and changes each of which might remove it, the mildest first. No changes: only time helps, or something that
    is no change of an object."""

    finding: Finding
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod that a node is sought for. `at` is the row that a running pod is on and is to leave; None for a pending pod."""

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
    def numbered(self) -> Numbered:
        return self.snapshot.of(self.kind)

    @property
    def asks(self) -> PodConstraints:
        return self.pod.kind.pod_constraints or NO_POD_CONSTRAINTS

    def name_of(self, row: Row) -> NodeName:
        return self.snapshot.facts.nodes[row].name

    def edit_kind(self, words: str, edit: Callable[[Kind], Kind]) -> PodEdit:
        """The change that gives the pod another equivalence group."""
        return PodEdit(words=words, pod=self.pod, row=self.at, edit=lambda pod: replace(pod, kind=edit(pod.kind)))

    def edit_asks(self, words: str, edit: Callable[[PodConstraints], PodConstraints]) -> PodEdit:
        """The change that gives the pod other pod constraints."""
        return self.edit_kind(
            words, lambda kind: replace(kind, pod_constraints=edit(kind.pod_constraints or NO_POD_CONSTRAINTS))
        )

    def without_node_affinity(self) -> PodEdit:
        """The change that removes the pod's required node affinity."""
        words = f"let pod {self.pod.key} require no node affinity"
        return self.edit_kind(words, lambda kind: replace(kind, node_affinity=None))
