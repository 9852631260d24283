"""PodDisruptionBudgets: which evictions would violate one?"""

from collections.abc import Iterator, Sequence

from slackwater.model.objects import DisruptionBudget, Pod
from slackwater.model.selectors import holds


class Budgets:
    """Budgets by namespace."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}
        #: Moves with every change.
        self.version = 0

    def put(self, budget: DisruptionBudget) -> None:
        self.version += 1
        self._budgets.setdefault(budget.namespace, {})[budget.name] = budget

    def drop(self, namespace: str, name: str) -> None:
        self.version += 1
        budgets = self._budgets.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._budgets.pop(namespace, None)

    def violations(self, pods: Sequence[Pod]) -> list[bool]:
        """For each pod, whether evicting it after those before it takes more than some budget allows.

        As kube-scheduler's preemption has it: a budget without a selector, or with an empty one, selects nothing; pods that are
        already leaving are not counted against any.
        """
        left: dict[tuple[str, str], int] = {}
        return [not pod.deleting and self._spend(pod, left) for pod in pods]

    def _spend(self, pod: Pod, left: dict[tuple[str, str], int]) -> bool:
        violated = False
        labels = dict(pod.labels)
        for budget in self._budgets.get(pod.key.namespace, {}).values():
            if not budget.selector or not all(holds(requirement, labels) for requirement in budget.selector):
                continue
            key = (budget.namespace, budget.name)
            left[key] = left.get(key, budget.disruptions_allowed) - 1
            violated |= left[key] < 0
        return violated

    def __iter__(self) -> Iterator[DisruptionBudget]:
        return (budget for of_namespace in self._budgets.values() for budget in of_namespace.values())

    def __len__(self) -> int:
        return sum(len(budgets) for budgets in self._budgets.values())
