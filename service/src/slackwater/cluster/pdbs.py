"""PodDisruptionBudgets, and which evictions would violate one."""

from collections.abc import Iterator, Sequence
from typing import Final

from slackwater.model.objects import DisruptionBudget, Labels, Pod
from slackwater.model.selectors import SelectorIndex

#: The most cached sets of labels.
_MOST_MATCHING: Final = 4096


class Budgets:
    """PodDisruptionBudgets by namespace, and by the labels that they select."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, DisruptionBudget]] = {}
        #: The names of budgets whose selector is not empty: kube-scheduler's preemption ignores all others.
        self._selecting: dict[str, SelectorIndex[str]] = {}
        #: Cache: the names of the budgets that select a namespace's pods with these labels. Pods of one workload have the same.
        self._matching: dict[tuple[str, Labels], tuple[str, ...]] = {}
        #: Increases with every change.
        self.version = 0

    def put(self, budget: DisruptionBudget) -> None:
        self._changed()
        self._budgets.setdefault(budget.namespace, {})[budget.name] = budget
        index = self._selecting.setdefault(budget.namespace, SelectorIndex())
        if budget.selector:
            index.put(budget.name, budget.selector)
        else:
            index.drop(budget.name)

    def drop(self, namespace: str, name: str) -> None:
        self._changed()
        budgets = self._budgets.get(namespace, {})
        if budgets.pop(name, None) is not None:
            self._selecting[namespace].drop(name)
        if not budgets:
            self._budgets.pop(namespace, None)
            self._selecting.pop(namespace, None)

    def _changed(self) -> None:
        self.version += 1
        self._matching.clear()

    def violations(self, pods: Sequence[Pod]) -> list[bool]:
        """For each pod, whether evicting it after the pods before it exceeds what some budget allows.

        The rules are those of kube-scheduler's preemption. A budget without a selector, or with an empty one, selects nothing,
        and no budget selects a pod without labels. A budget that already counts the pod's eviction (`status.disruptedPods`)
        ignores the pod. Pods that are being deleted violate no budget.
        """
        left: dict[tuple[str, str], int] = {}
        return [not pod.deleting and self._spend(pod, left) for pod in pods]

    def _spend(self, pod: Pod, left: dict[tuple[str, str], int]) -> bool:
        namespace, violated = pod.key.namespace, False
        for name in self._selecting_of(pod):
            budget = self._budgets[namespace][name]
            if pod.key.name in budget.disrupted:
                continue
            key = (namespace, name)
            left[key] = left.get(key, budget.disruptions_allowed) - 1
            violated |= left[key] < 0
        return violated

    def _selecting_of(self, pod: Pod) -> tuple[str, ...]:
        index = self._selecting.get(pod.key.namespace)
        if index is None or not pod.labels:
            return ()
        key = (pod.key.namespace, pod.labels)
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _MOST_MATCHING:
                self._matching.clear()
            found = self._matching[key] = tuple(index.selecting(dict(pod.labels)))
        return found

    def __iter__(self) -> Iterator[DisruptionBudget]:
        return (budget for of_namespace in self._budgets.values() for budget in of_namespace.values())

    def __len__(self) -> int:
        return sum(len(budgets) for budgets in self._budgets.values())
