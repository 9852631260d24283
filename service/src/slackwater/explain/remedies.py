"""Defines the changes that might help: each has a text (`words`) and can be applied to an explain input.

`edit` takes the present object (a `Pod`, a `Node`, ...) and returns the changed one. Tests use it to change the objects
themselves and to verify the effect. Deliberately absent: which change helps (`search`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaleup.groups import GrowableGroup, add_nodes, upcoming_name
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.explain.explain_input import ExplainInput
from slackwater.fit.assumed_claims import take_off
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.snapshot.running_pods import RunningPod

#: The number in the name of a node that `NewNode` adds. Plans number upcoming nodes from 0, so the names differ.
_FIRST_OF_OURS: Final = 1_000_000


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
        running_pod = _running_pod(explain_input, self.row, uid)
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
        running_pod = _running_pod(explain_input, self.row, self.pod.uid)
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
        before = snapshot.facts.nodes[row]
        after = self.edit(before)
        snapshot.put_node(row, after)
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
class BudgetEdit:
    """Changes what a PodDisruptionBudget allows."""

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
    """Deletes PodDisruptionBudgets, given by namespace and name."""

    words: str
    budgets: frozenset[tuple[str, str]]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        left = (each for each in explain_input.budgets or () if (each.namespace, each.name) not in self.budgets)
        return replace(explain_input, budgets=tuple(left))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownEdit:
    """Changes the policy of scale-down."""

    words: str
    edit: Callable[[ScaleDownPolicy], ScaleDownPolicy]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, scale_down=self.edit(explain_input.scale_down))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpEdit:
    """Changes the policy of scale-up."""

    words: str
    edit: Callable[[ScaleUpPolicy], ScaleUpPolicy]

    def applied(self, explain_input: ExplainInput) -> ExplainInput:
        return replace(explain_input, scale_up=self.edit(explain_input.scale_up))


Change = PodEdit | PodLeaves | NodeEdit | NewNode | GroupEdit | BudgetEdit | BudgetsLeave | ScaleDownEdit | ScaleUpEdit


def _yield(explain_input: ExplainInput, running_pod: RunningPod, row: Row, copies: int) -> None:
    """Keeps the room that expendable pods yield up to date when a pod comes to a row (1) or leaves it (-1)."""
    snapshot, cutoff = explain_input.snapshot, explain_input.scale_up.pending.expendable_pods_priority_cutoff
    if snapshot.yielding is not None and running_pod.pod.expendable(cutoff):
        snapshot.let_yield(running_pod.kind, np.array([row], np.intp), np.array([copies], np.int64))


def _running_pod(explain_input: ExplainInput, row: Row, uid: PodUid) -> RunningPod | None:
    return next((running_pod for running_pod in explain_input.running_pods.on(row) if running_pod.pod.uid == uid), None)
