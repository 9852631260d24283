"""Defines the input of explanations (the cluster as plans see it, and the policies in force), and the changes that might help.

    with after(explain_input, changes) as then:
        ...                            # then.snapshot is the same snapshot, in a trial that ends with this block

Each change has a text (`words`) and can be applied to an input. `edit` takes the present object (a `Pod`, a `Node`, ...) and
returns the changed one; tests use it to change the objects themselves and to verify the effect. Only one thread may use the
snapshot. Deliberately absent: how the snapshot is filled (`snapshot.snapshot_replica`, or a file), and which change helps
(`search`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes, upcoming_name
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.fit.assumed_claims import take_off
from slackwater.fit.node_scores import ScoreProfile
from slackwater.fit.scoring import RoomScore
from slackwater.model.auxiliary import Targets
from slackwater.model.ids import NodeName, PodUid, Row, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.running_pods import NotedPods, RunningPod

#: The number in the name of a node that `NewNode` adds. Plans number upcoming nodes from 0, so the names differ.
_FIRST_OF_OURS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainInput:
    """The cluster and the policies from which an explanation is made. `pending` are the pods without a node. `budgets` and
    `replicas` (the wanted number of pods of each controller) are None if they are unknown.

    `group_of` is the node group of each node that is in one of `groups`. `now` is the Unix time. `profile` and `own_score`
    define how kube-scheduler's profile and Slackwater score nodes. `schedulers` are the names of known schedulers, which is
    read for pods only; None: not known.
    """

    snapshot: ClusterSnapshot
    running_pods: NotedPods
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

    def running_pod(self, row: Row, uid: PodUid) -> RunningPod | None:
        """The pod with this UID on a row; None if it is not there."""
        return next((running_pod for running_pod in self.running_pods.on(row) if running_pod.pod.uid == uid), None)

    def edited(self, uid: PodUid, running_pod: RunningPod | None) -> "ExplainInput":
        """The input in which running pod `uid` is replaced by `running_pod`; None: it is removed."""
        known = self.running_pods.edits if isinstance(self.running_pods, EditedRunningPods) else {}
        below = self.running_pods.below if isinstance(self.running_pods, EditedRunningPods) else self.running_pods
        return replace(self, running_pods=EditedRunningPods(below, {**known, uid: running_pod}))


@dataclass(frozen=True, slots=True)
class EditedRunningPods:
    """The running pods of each row: those of `below`, replaced by the values of `edits` (None: removed)."""

    below: NotedPods
    edits: Mapping[PodUid, RunningPod | None]

    def notes(self, _key: Hashable) -> dict[NodeName, Any]:
        """As of `NotedPods`; nothing is noted for longer than one reader."""
        return {}

    def on(self, row: Row) -> list[RunningPod]:
        found = (self.edits.get(running_pod.pod.uid, running_pod) for running_pod in self.below.on(row))
        return [running_pod for running_pod in found if running_pod is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEdit:
    """Changes a pod, which runs on `row`; None: it is pending."""

    words: str
    pod: Pod
    edit: Callable[[Pod], Pod]
    row: Row | None = None

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        uid = self.pod.uid
        if self.row is None:
            changed = self.edit(explain_input.pending[uid])
            return replace(explain_input, pending={**explain_input.pending, uid: changed})
        running_pod = explain_input.running_pod(self.row, uid)
        if running_pod is None:  # another change has removed it
            return explain_input
        snapshot, pod = explain_input.snapshot, self.edit(running_pod.pod)
        kind = snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting)
        if kind != running_pod.kind:
            _yield(explain_input, running_pod, self.row, -1)
            snapshot.remove(running_pod.kind, self.row)
            snapshot.place(kind, self.row)
            _yield(explain_input, RunningPod(pod, kind), self.row, 1)
        return explain_input.edited(uid, RunningPod(pod, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLeaves:
    """Removes a pod from its row, without a replacement."""

    words: str
    pod: Pod
    row: Row

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        running_pod = explain_input.running_pod(self.row, self.pod.uid)
        if running_pod is None:
            return explain_input
        _yield(explain_input, running_pod, self.row, -1)
        take_off(explain_input.snapshot, running_pod.kind, self.row, self.pod.uid)
        return explain_input.edited(self.pod.uid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEdit:
    """Changes a node."""

    words: str
    node: NodeName
    edit: Callable[[Node], Node]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        snapshot = explain_input.snapshot
        row = snapshot.facts.row_of[self.node]
        snapshot.put_node(row, self.edit(snapshot.facts.nodes[row]))
        return explain_input


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """Adds one node to the group, a copy of its template node."""

    words: str
    group: GroupName

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        template = explain_input.groups[self.group].template
        assert template is not None, self.group
        name = upcoming_name(self.group, _FIRST_OF_OURS)
        add_nodes(explain_input.snapshot, template, [name], system=explain_input.scale_up.system)
        return explain_input


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEdit:
    """Changes a node group."""

    words: str
    group: GroupName
    edit: Callable[[GrowableGroup], GrowableGroup]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, groups={**explain_input.groups, self.group: self.edit(explain_input.groups[self.group])})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsEdit:
    """Changes the PodDisruptionBudgets: `edit` returns the budget in its new form, or None if it is deleted."""

    words: str
    edit: Callable[[DisruptionBudget], DisruptionBudget | None]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        edited = map(self.edit, explain_input.budgets or ())
        return replace(explain_input, budgets=tuple(budget for budget in edited if budget is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEdit:
    """Changes the policy of scale-up or of scale-down."""

    words: str
    scale_up: Callable[[ScaleUpPolicy], ScaleUpPolicy] = lambda policy: policy
    scale_down: Callable[[ScaleDownPolicy], ScaleDownPolicy] = lambda policy: policy

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        scale_up, scale_down = self.scale_up(explain_input.scale_up), self.scale_down(explain_input.scale_down)
        return replace(explain_input, scale_up=scale_up, scale_down=scale_down)


Change = PodEdit | PodLeaves | NodeEdit | NewNode | GroupEdit | BudgetsEdit | PolicyEdit


@contextmanager
def after(explain_input: ExplainInput, changes: Iterable[Change]) -> Iterator[ExplainInput]:
    """Applies the changes in a trial and yields the changed input. The trial is undone at the end of the context."""
    with explain_input.snapshot.fork():
        for change in changes:
            explain_input = change.applied(explain_input)
        yield explain_input


def _yield(explain_input: ExplainInput, running_pod: RunningPod, row: Row, copies: int) -> None:
    """Keeps the room that expendable pods yield up to date when a pod comes to a row (1) or leaves it (-1)."""
    snapshot, cutoff = explain_input.snapshot, explain_input.scale_up.pending.expendable_pods_priority_cutoff
    if snapshot.yielding is not None and running_pod.pod.expendable(cutoff):
        snapshot.let_yield(running_pod.kind, np.array([row], np.intp), np.array([copies], np.int64))
