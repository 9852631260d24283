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
from slackwater.explain.situation import Situation
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.snapshot.running_pods import Tenant

#: The number of a new node in its name: real plans count from 0.
_FIRST_OF_OURS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEdit:
    """A pod is changed, pending or standing on `row`."""

    words: str
    pod: Pod
    edit: Callable[[Pod], Pod]
    row: Row | None = None

    def applied(self, situation: Situation) -> Situation:
        uid = self.pod.uid
        if self.row is None:
            changed = self.edit(situation.pending[uid])
            return replace(situation, pending={**situation.pending, uid: changed})
        tenant = _tenant(situation, self.row, uid)
        if tenant is None:  # another change took it away
            return situation
        picture, pod = situation.picture, self.edit(tenant.pod)
        kind = picture.kind_id(pod.kind, pod.labels, deleting=pod.deleting)
        if kind != tenant.kind:
            picture.remove(tenant.kind, self.row)
            picture.place(kind, self.row)
        return situation.edited(uid, Tenant(pod, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLeaves:
    """A pod leaves its row, and is not made anew."""

    words: str
    pod: Pod
    row: Row

    def applied(self, situation: Situation) -> Situation:
        tenant = _tenant(situation, self.row, self.pod.uid)
        if tenant is None:
            return situation
        situation.picture.remove(tenant.kind, self.row)
        return situation.edited(self.pod.uid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEdit:
    """A node is changed."""

    words: str
    node: NodeName
    edit: Callable[[Node], Node]

    def applied(self, situation: Situation) -> Situation:
        picture = situation.picture
        row = picture.facts.row_of[self.node]
        before = picture.facts.nodes[row]
        after = self.edit(before)
        picture.put_node(row, after)
        return situation


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A group gets one node more, like its template."""

    words: str
    group: GroupName

    def applied(self, situation: Situation) -> Situation:
        template = situation.groups[self.group].template
        assert template is not None, self.group
        name = upcoming_name(self.group, _FIRST_OF_OURS)
        add_nodes(situation.picture, template, [name], system=situation.growth.system)
        return situation


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEdit:
    """What a group may have is changed."""

    words: str
    group: GroupName
    edit: Callable[[GrowableGroup], GrowableGroup]

    def applied(self, situation: Situation) -> Situation:
        return replace(situation, groups={**situation.groups, self.group: self.edit(situation.groups[self.group])})


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEdit:
    """A PodDisruptionBudget allows something else."""

    words: str
    namespace: str
    name: str
    edit: Callable[[DisruptionBudget], DisruptionBudget]

    def applied(self, situation: Situation) -> Situation:
        budgets = tuple(
            self.edit(budget) if (budget.namespace, budget.name) == (self.namespace, self.name) else budget
            for budget in situation.budgets or ()
        )
        return replace(situation, budgets=budgets)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetsLeave:
    """PodDisruptionBudgets, by namespace and name, are deleted."""

    words: str
    budgets: frozenset[tuple[str, str]]

    def applied(self, situation: Situation) -> Situation:
        left = (each for each in situation.budgets or () if (each.namespace, each.name) not in self.budgets)
        return replace(situation, budgets=tuple(left))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkEdit:
    """The configuration says something else of removing nodes."""

    words: str
    edit: Callable[[ScaleDownPolicy], ScaleDownPolicy]

    def applied(self, situation: Situation) -> Situation:
        return replace(situation, shrink=self.edit(situation.shrink))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthEdit:
    """The configuration says something else of adding nodes."""

    words: str
    edit: Callable[[ScaleUpPolicy], ScaleUpPolicy]

    def applied(self, situation: Situation) -> Situation:
        return replace(situation, growth=self.edit(situation.growth))


Change = PodEdit | PodLeaves | NodeEdit | NewNode | GroupEdit | BudgetEdit | BudgetsLeave | ShrinkEdit | GrowthEdit


def _tenant(situation: Situation, row: Row, uid: PodUid) -> Tenant | None:
    return next((tenant for tenant in situation.standing.on(row) if tenant.pod.uid == uid), None)
