"""Defines the input of explanations (the cluster as plans see it, and the policies in force), and applies changes to it.

    with after(explain_input, changes) as then:
        ...                            # then.snapshot is the same snapshot, in a trial that ends with this block

Only one thread may use the snapshot. Deliberately absent: how the snapshot is filled (`snapshot.snapshot_replica`, or a file).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.fit.node_scores import ScoreProfile
from slackwater.fit.scoring import RoomScore
from slackwater.model.auxiliary import Targets
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import PodsByRow, RunningPod


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainInput:
    """The cluster and the policies from which an explanation is made. `pending` are the pods without a node. `budgets` and
    `replicas` (the wanted number of pods of each controller) are None if they are unknown.

    `group_of` is the node group of each node that is in one of `groups`. `now` is the Unix time. `profile` and `own_score`
    define how kube-scheduler's profile and Slackwater score nodes. `schedulers` are the names of known schedulers, which is
    read for pods only; None: not known.
    """

    snapshot: ClusterSnapshot
    running_pods: PodsByRow
    pending: Mapping[PodUid, Pod] = field(default_factory=dict)
    budgets: tuple[DisruptionBudget, ...] | None = None
    replicas: Targets | None = None
    groups: Mapping[GroupName, GrowableGroup] = field(default_factory=dict)
    group_of: Mapping[NodeName, GroupName] = field(default_factory=dict)
    scale_up: ScaleUpPolicy
    scale_down: ScaleDownPolicy
    profile: ScoreProfile = field(default_factory=ScoreProfile)
    own_score: RoomScore | None = None
    schedulers: frozenset[str] | None = None
    now: UnixTime

    def row_of(self, name: NodeName) -> Row | None:
        """The row of a node; None if there is no such node."""
        return self.snapshot.facts.live_row(name)

    def kind_of(self, pod: Pod) -> KindId:
        """The equivalence group of a pod without a node."""
        return self.snapshot.kind_id(pod.kind, pod.labels)

    def edited(self, uid: PodUid, running_pod: RunningPod | None) -> "ExplainInput":
        """The input in which running pod `uid` is replaced by `running_pod`; None: it is removed."""
        known = self.running_pods.edits if isinstance(self.running_pods, EditedRunningPods) else {}
        below = self.running_pods.below if isinstance(self.running_pods, EditedRunningPods) else self.running_pods
        return replace(self, running_pods=EditedRunningPods(below, {**known, uid: running_pod}))


@dataclass(frozen=True, slots=True)
class EditedRunningPods:
    """The running pods of each row: those of `below`, replaced by the values of `edits` (None: removed)."""

    below: PodsByRow
    edits: Mapping[PodUid, RunningPod | None]

    def on(self, row: Row) -> list[RunningPod]:
        found = (self.edits.get(running_pod.pod.uid, running_pod) for running_pod in self.below.on(row))
        return [running_pod for running_pod in found if running_pod is not None]


class Applied(Protocol):
    """A change that can be applied to an explain input. The changes are in `remedies`."""

    def applied(self, explain_input: ExplainInput) -> ExplainInput: ...


@contextmanager
def after(explain_input: ExplainInput, changes: Iterable[Applied]) -> Iterator[ExplainInput]:
    """Applies the changes in a trial and yields the changed input. The trial is undone at the end of the context."""
    with explain_input.snapshot.fork():
        for change in changes:
            explain_input = change.applied(explain_input)
        yield explain_input
