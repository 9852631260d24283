"""Tracks how many more disruptions each PodDisruptionBudget allows while a plan empties several nodes.

- `Disruptions`: the remaining disruptions, by the rules of the Eviction API.
- `counted`, `Scales`: what a budget without a status allows, by the algorithm of Kubernetes' disruption controller.

In: budgets, pods and the number of pods that controllers want. Out: whether a pod's eviction is allowed. Invariant: a plan uses
no allowed disruption for two nodes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from slackwater.model.auxiliary import ControllerKey, Targets
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import BudgetRule, DisruptionBudget, Labels, Pod
from slackwater.model.selectors import SelectorIndex, selects


class Disruptions:
    """The disruptions that budgets still allow, by the rules of the Eviction API (pkg/registry/core/pod/storage).

    The API ignores budgets for a pod that is Pending or being deleted. It always refuses a pod that several budgets select,
    whatever they allow. It evicts a pod that is not ready whatever the budget allows, if the budget's policy says so.

    The numbers begin as the API reports them (`status.disruptionsAllowed`) and shrink with every pod that is moved. They may
    fall below 0, since the pods of one node leave one after another, each when its budget allows it; but then the next node
    with such a pod has to wait.
    """

    def __init__(self, budgets: Iterable[DisruptionBudget]) -> None:
        #: The positions in `_names` of a namespace's budgets, by the labels that the budgets select.
        self._of_namespace: dict[str, SelectorIndex[int]] = {}
        self._names: list[tuple[str, str]] = []
        self._left: dict[tuple[str, str], int] = {}
        self._unready_may_go: set[tuple[str, str]] = set()
        #: Budgets by namespace and labels: pods of one workload have the same.
        self._matching: dict[tuple[str, Labels], tuple[tuple[str, str], ...]] = {}
        for budget in budgets:
            self._of_namespace.setdefault(budget.namespace, SelectorIndex()).put(len(self._names), budget.selector)
            self._names.append((budget.namespace, budget.name))
            self._left[budget.namespace, budget.name] = budget.disruptions_allowed
            if budget.unready_may_go:
                self._unready_may_go.add((budget.namespace, budget.name))

    def left(self, namespace: str, name: str) -> int:
        """How many disruptions a budget still allows; below 0 if more were used up."""
        return self._left[namespace, name]

    def least(self, pod: Pod) -> int | None:
        """How many disruptions the tightest budget of the pod still allows; None if it has no budget."""
        return min((self._left[budget] for budget in self.of(pod)), default=None)

    def covers(self, pod: Pod) -> bool:
        """Whether any budget selects the pod."""
        return bool(self.of(pod))

    def never_evicted(self, pod: Pod) -> bool:
        """Whether the Eviction API refuses the pod whatever its budgets allow, because several budgets select it."""
        return bool(self._left) and _is_asked_about(pod) and len(self.of(pod)) > 1

    def allows(self, pod: Pod) -> bool:
        """Whether each budget of the pod, judged alone, allows a disruption now."""
        return not self._left or not _is_asked_about(pod) or not self.against(pod)

    def against(self, pod: Pod) -> list[tuple[str, str]]:
        """The budgets that do not allow the pod to be disrupted now, as (namespace, name)."""
        refusing = [budget for budget in self.of(pod) if self._left[budget] < 1]
        return refusing if pod.ready else [budget for budget in refusing if budget not in self._unready_may_go]

    def allow_each(self, pods: Iterable[Pod]) -> bool:
        """Does each pod, judged alone, have at most one budget, and does that allow a disruption now, whatever the state of the
        pod? Pods of one workload have the same budgets."""
        left = self._left
        return not left or all(not (of := self.of(pod)) or (len(of) == 1 and left[of[0]] > 0) for pod in pods)

    def allow_all(self, pods: Iterable[Pod]) -> bool:
        """Whether the budgets allow all the pods to be disrupted at the same time."""
        if not self._left:
            return True
        wanted = Counter(budget for pod in pods if _costs(pod) for budget in self.of(pod))
        return all(self._left[budget] >= count for budget, count in wanted.items())

    def spend(self, pods: Iterable[Pod]) -> None:
        """Subtracts the disruptions of pods that will move from what their budgets allow."""
        self._change(pods, -1)

    def give_back(self, pods: Iterable[Pod]) -> None:
        """Undoes `spend`."""
        self._change(pods, 1)

    def _change(self, pods: Iterable[Pod], by: int) -> None:
        if not self._left:
            return
        for pod in pods:
            for budget in self.of(pod) if _costs(pod) else ():
                self._left[budget] += by

    def of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """The budgets that select the pod, as (namespace, name)."""
        namespace = pod.key.namespace
        budgets = self._of_namespace.get(namespace)
        if budgets is None:
            return ()
        key = (namespace, pod.labels)
        found = self._matching.get(key)
        if found is None:
            positions = sorted(budgets.selecting(dict(pod.labels)))
            found = tuple(self._names[position] for position in positions)
            self._matching[key] = found
        return found


def _is_asked_about(pod: Pod) -> bool:
    """Whether the Eviction API checks budgets for the pod at all."""
    return not pod.starting and not pod.deleting


def _costs(pod: Pod) -> bool:
    """Whether evicting the pod uses up a disruption. Budgets count neither pods that are not ready nor those that are being
    deleted."""
    return pod.ready and not pod.deleting


DEPLOYMENT: Final = ("apps", "Deployment")
#: Built-in kinds of owners without a scale subresource.
_WITHOUT_SCALE: Final = frozenset({("batch", "Job"), ("apps", "DaemonSet"), ("", "Node")})
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """How many pods controllers want. For each (API group, kind) in `known`, `replicas` is complete.

    `deployments` maps a ReplicaSet to its Deployment, if it has one: the Deployment's scale then replaces the ReplicaSet's.
    """

    replicas: Targets = field(default_factory=dict)
    deployments: Mapping[ControllerKey, ControllerKey] = field(default_factory=dict)
    known: frozenset[tuple[str, str]] = frozenset()


NO_SCALES: Final = Scales()


@dataclass(frozen=True, slots=True)
class CountedBudgets:
    """All budgets with the disruptions that they allow. `assumed` are the kinds of controllers whose scale had to be
    assumed."""

    budgets: tuple[DisruptionBudget, ...]
    assumed: tuple[str, ...]


def counted(budgets: Sequence[DisruptionBudget], pods: Iterable[Pod], scales: Scales) -> CountedBudgets:
    """Fills in the allowed disruptions of budgets without a status.

    The algorithm is that of pkg/controller/disruption. A percentage applies to the sum of what the controllers of the selected
    pods want, each controller counted once. Healthy pods are the selected ones that are ready and not being deleted. If the
    controller of a pod has no scale, or does not exist, the count fails and nothing is allowed. Pods without a controller add
    nothing to that sum. If the objects of a controller's kind are not read, its scale is unknown, and the number of its pods is
    assumed.
    """
    if all(budget.is_counted for budget in budgets):
        return CountedBudgets(tuple(budgets), ())
    counting = _Counting(pods, scales)
    return CountedBudgets(tuple(map(counting.count, budgets)), tuple(sorted(counting.assumed)))


class _Counting:
    def __init__(self, pods: Iterable[Pod], scales: Scales) -> None:
        self._scales = scales
        self._pods: dict[str, dict[Labels, list[Pod]]] = {}
        self._own: dict[ControllerKey, int] = {}
        self.assumed: set[str] = set()
        for pod in pods:
            self._pods.setdefault(pod.key.namespace, {}).setdefault(pod.labels, []).append(pod)
            if pod.eviction_facts.owner is not None and not pod.ended and not pod.deleting:
                key = (pod.key.namespace, pod.eviction_facts.owner)
                self._own[key] = self._own.get(key, 0) + 1

    def count(self, budget: DisruptionBudget) -> DisruptionBudget:
        if budget.is_counted or budget.rule is None:
            return budget
        of_namespace = self._pods.get(budget.namespace, {})
        pods = [pod for labels, some in of_namespace.items() if selects(budget.selector, dict(labels)) for pod in some]
        wanted = self._wanted(budget.rule, pods)
        if wanted is None:
            return structs.replace(budget, is_counted=True)
        expected, desired = wanted
        healthy = sum(_is_healthy(pod) for pod in pods)
        return structs.replace(
            budget,
            disruptions_allowed=max(healthy - desired, 0) if expected > 0 else 0,
            unready_may_go=budget.unready_may_go or healthy >= desired > 0,
            lacking=max(desired - healthy, 0),
            is_counted=True,
        )

    def _wanted(self, rule: BudgetRule, pods: Sequence[Pod]) -> tuple[int, int] | None:
        """How many pods are expected, and how many of them have to be healthy; None if that cannot be counted."""
        if not rule.percent and not rule.unavailable:
            return len(pods), rule.amount
        expected = self._expected(pods)
        if expected is None:
            return None
        amount = -(-rule.amount * expected // _WHOLE) if rule.percent else rule.amount  # rounded up, for both rules
        return expected, max(expected - amount, 0) if rule.unavailable else amount

    def _expected(self, pods: Sequence[Pod]) -> int | None:
        scales: dict[ControllerKey, int] = {}
        for key in {(pod.key.namespace, pod.eviction_facts.owner) for pod in pods if pod.eviction_facts.owner is not None}:
            found = self._scale(*key)
            if found is None:
                return None
            controller, scale = found
            scales[controller] = scale
        return sum(scales.values())

    def _scale(self, namespace: str, owner: Owner) -> tuple[ControllerKey, int] | None:
        """The controller that counts for an owner, and how many pods it wants; None if it has no scale or does not exist."""
        key, kind, scales = (namespace, owner), (owner.group, owner.kind), self._scales
        deployment = scales.deployments.get(key)
        if deployment is not None:
            if DEPLOYMENT in scales.known:
                wanted = scales.replicas.get(deployment)
                return None if wanted is None else (deployment, wanted)
            self.assumed.add(DEPLOYMENT[1])
        if kind in _WITHOUT_SCALE:
            return None
        if kind in scales.known:
            wanted = scales.replicas.get(key)
            return None if wanted is None else (key, wanted)
        self.assumed.add(owner.kind)
        return key, self._own.get(key, 0)


def _is_healthy(pod: Pod) -> bool:
    return pod.ready and pod.node is not None and not pod.ended and not pod.deleting
