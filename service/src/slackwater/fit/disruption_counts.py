"""What a PodDisruptionBudget without a status would allow, as Kubernetes' disruption controller counts it.

The algorithm is that of pkg/controller/disruption. A percentage applies to the sum of what the controllers of the selected pods
want, each controller counted once. Healthy pods are the selected ones that are ready and not being deleted. Where the
controller of a pod has no scale, or does not exist, the count fails and nothing is allowed. Pods without a controller count for
no percentage.

The scale of a controller is unknown where its objects are not read. Such a controller counts with as many pods as it has.
Deliberately absent: budgets that have a status, which is used as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from slackwater.model.controllers import ControllerKey, Targets
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import BudgetRule, DisruptionBudget, Labels, Pod
from slackwater.model.selectors import selects

DEPLOYMENT: Final = ("apps", "Deployment")
#: Built-in owners of pods that have no scale.
_WITHOUT_SCALE: Final = frozenset({("batch", "Job"), ("apps", "DaemonSet"), ("", "Node")})
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """How many pods controllers want. For each (API group, kind) in `known`, `replicas` has all controllers.

    `deployments` names the Deployment of each ReplicaSet that has one: its scale counts instead of the ReplicaSet's.
    """

    replicas: Targets = field(default_factory=dict)
    deployments: Mapping[ControllerKey, ControllerKey] = field(default_factory=dict)
    known: frozenset[tuple[str, str]] = frozenset()


NO_SCALES: Final = Scales()


@dataclass(frozen=True, slots=True)
class Counted:
    """All budgets, each with what it allows; and the controller kinds whose scale had to be assumed."""

    budgets: tuple[DisruptionBudget, ...]
    assumed: tuple[str, ...]


def counted(budgets: Sequence[DisruptionBudget], pods: Iterable[Pod], scales: Scales) -> Counted:
    """The budgets, with the allowed disruptions filled in where a budget has no status."""
    if all(budget.uncounted is None for budget in budgets):
        return Counted(tuple(budgets), ())
    counting = _Counting(pods, scales)
    return Counted(tuple(map(counting.count, budgets)), tuple(sorted(counting.assumed)))


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
        if budget.uncounted is None:
            return budget
        of_namespace = self._pods.get(budget.namespace, {})
        pods = [pod for labels, some in of_namespace.items() if selects(budget.selector, dict(labels)) for pod in some]
        wanted = self._wanted(budget.uncounted, pods)
        if wanted is None:
            return replace(budget, uncounted=None)
        expected, desired = wanted
        healthy = sum(_is_healthy(pod) for pod in pods)
        return replace(
            budget,
            disruptions_allowed=max(healthy - desired, 0) if expected > 0 else 0,
            unready_may_go=budget.unready_may_go or healthy >= desired > 0,
            uncounted=None,
        )

    def _wanted(self, rule: BudgetRule, pods: Sequence[Pod]) -> tuple[int, int] | None:
        """How many pods are expected, and how many of them have to be healthy; None where that cannot be counted."""
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
        """The controller that counts for an owner, and how many pods it wants; None where it has no scale or does not exist."""
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
