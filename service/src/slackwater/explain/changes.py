"""Changes that might help. Each says itself in words, edits one object, and can be applied to a situation.

`edit` takes the object as it is (a `Pod`, a `Node`, ...) and answers it as it would be, so that whoever doubts may make the
changed objects himself and look. Deliberately absent: which change helps (`search`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes, upcoming_name
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.explain.situation import ExplainInput
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.snapshot.running_pods import RunningPod

#: The number of a new node in its name: real plans count from 0.
_FIRST_OF_OURS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEdit:
    """A pod is changed, pending or standing on `row`."""

    words: str
    pod: Pod
    edit: Callable[[Pod], Pod]
    row: Row | None = None

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        uid = self.pod.uid
        if self.row is None:
            changed = self.edit(explain_input.pending[uid])
            return replace(explain_input, pending={**explain_input.pending, uid: changed})
        running_pod = _running_pod(explain_input, self.row, uid)
        if running_pod is None:  # another change took it away
            return explain_input
        snapshot, pod = explain_input.snapshot, self.edit(running_pod.pod)
        kind = snapshot.kind_id(pod.kind, pod.labels, deleting=pod.deleting)
        if kind != running_pod.kind:
            snapshot.remove(running_pod.kind, self.row)
            snapshot.place(kind, self.row)
        return explain_input.edited(uid, RunningPod(pod, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLeaves:
    """A pod leaves its row, and is not made again."""

    words: str
    pod: Pod
    row: Row

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        running_pod = _running_pod(explain_input, self.row, self.pod.uid)
        if running_pod is None:
            return explain_input
        explain_input.snapshot.remove(running_pod.kind, self.row)
        return explain_input.edited(self.pod.uid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEdit:
    """A node is changed."""

    words: str
    node: NodeName
    edit: Callable[[Node], Node]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        snapshot = explain_input.snapshot
        row = snapshot.facts.row_of[self.node]
        before = snapshot.facts.nodes[row]
        after = self.edit(before)
        snapshot.put_node(row, after)
        return explain_input


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A group gets one node more, like its template."""

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
    """What a group may have is changed."""

    words: str
    group: GroupName
    edit: Callable[[GrowableGroup], GrowableGroup]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, groups={**explain_input.groups, self.group: self.edit(explain_input.groups[self.group])})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEdit:
    """A PodDisruptionBudget allows something else."""

    words: str
    namespace: str
    name: str
    edit: Callable[[DisruptionBudget], DisruptionBudget]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        budgets = tuple(
            self.edit(budget) if (budget.namespace, budget.name) == (self.namespace, self.name) else budget
            for budget in explain_input.budgets or ()
        )
        return replace(explain_input, budgets=budgets)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsLeave:
    """PodDisruptionBudgets, by namespace and name, are deleted."""

    words: str
    budgets: frozenset[tuple[str, str]]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        left = (each for each in explain_input.budgets or () if (each.namespace, each.name) not in self.budgets)
        return replace(explain_input, budgets=tuple(left))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownEdit:
    """The configuration says something else of removing nodes."""

    words: str
    edit: Callable[[ScaleDownPolicy], ScaleDownPolicy]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, scale_down=self.edit(explain_input.scale_down))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpEdit:
    """The configuration says something else of adding nodes."""

    words: str
    edit: Callable[[ScaleUpPolicy], ScaleUpPolicy]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, scale_up=self.edit(explain_input.scale_up))


Change = PodEdit | PodLeaves | NodeEdit | NewNode | GroupEdit | BudgetEdit | BudgetsLeave | ScaleDownEdit | ScaleUpEdit


def _running_pod(explain_input: ExplainInput, row: Row, uid: PodUid) -> RunningPod | None:
    return next((running_pod for running_pod in explain_input.standing.on(row) if running_pod.pod.uid == uid), None)
