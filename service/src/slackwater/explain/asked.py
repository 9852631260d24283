"""The pod that is asked about, in its situation; and what an obstacle is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from slackwater.explain.changes import Change, PodEdit
from slackwater.explain.findings import Finding
from slackwater.explain.situation import Situation
from slackwater.model.equivalence import Kind
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_PARTICULARS, Particulars
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.equivalence_groups import KindId, Numbered


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something in the way, and changes each of which might lift it, the mildest first. None: only time, or something
    that cannot be said as a change."""

    finding: Finding
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod whose place is asked for. `at` is the row it stands on where it does (and is to leave), None for a pending pod."""

    situation: Situation
    pod: Pod
    at: Row | None = None

    @property
    def picture(self) -> Picture:
        return self.situation.picture

    @property
    def kind(self) -> KindId:
        return self.situation.kind_of(self.pod)

    @property
    def numbered(self) -> Numbered:
        return self.picture.of(self.kind)

    @property
    def asks(self) -> Particulars:
        return self.pod.kind.particulars or NO_PARTICULARS

    def name_of(self, row: Row) -> NodeName:
        return self.picture.facts.nodes[row].name

    def edit_kind(self, words: str, edit: Callable[[Kind], Kind]) -> PodEdit:
        """The pod with another kind."""
        return PodEdit(words=words, pod=self.pod, row=self.at, edit=lambda pod: replace(pod, kind=edit(pod.kind)))

    def edit_asks(self, words: str, edit: Callable[[Particulars], Particulars]) -> PodEdit:
        """The pod with other particulars."""
        return self.edit_kind(words, lambda kind: replace(kind, particulars=edit(kind.particulars or NO_PARTICULARS)))

    def without_node_affinity(self) -> PodEdit:
        """The pod as it may go to any node."""
        words = f"let pod {self.pod.key} require no node affinity"
        return self.edit_kind(words, lambda kind: replace(kind, node_affinity=None))
