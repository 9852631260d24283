"""How many more pods may be disturbed, budget by budget, while several nodes are emptied in thought.

The numbers begin as the API reports them (`status.disruptionsAllowed`) and shrink with every pod that is moved, so that two
nodes never count on the same disruption. They may fall below 0: a node's pods leave one after another, each when its
budget allows it, but the next node with such a pod has to wait.
"""

from collections import Counter
from collections.abc import Iterable

from slackwater.model.objects import DisruptionBudget, Labels, Pod
from slackwater.model.selectors import selects


class Disruptions:
    """What budgets still allow."""

    def __init__(self, budgets: Iterable[DisruptionBudget]) -> None:
        self._of_namespace: dict[str, list[DisruptionBudget]] = {}
        self._left: dict[tuple[str, str], int] = {}
        #: Budgets by what selects: pods of one workload ask the same again and again.
        self._matching: dict[tuple[str, Labels], tuple[tuple[str, str], ...]] = {}
        for budget in budgets:
            self._of_namespace.setdefault(budget.namespace, []).append(budget)
            self._left[budget.namespace, budget.name] = budget.disruptions_allowed

    def left(self, namespace: str, name: str) -> int:
        """What a budget still allows; below 0 where more was spent."""
        return self._left[namespace, name]

    def covers(self, pod: Pod) -> bool:
        """Does any budget select the pod?"""
        return bool(self.of(pod))

    def allows(self, pod: Pod) -> bool:
        """Does every budget of the pod allow one more disruption?"""
        budgets = self.of(pod) if self._left else ()
        return not budgets or all(self._left[budget] >= 1 for budget in budgets)

    def allow_all(self, pods: Iterable[Pod]) -> bool:
        """Could all of them be disturbed at the same time?"""
        if not self._left:
            return True
        wanted = Counter(budget for pod in pods if _costs(pod) for budget in self.of(pod))
        return all(self._left[budget] >= count for budget, count in wanted.items())

    def spend(self, pods: Iterable[Pod]) -> None:
        """The pods are going to be moved."""
        if not self._left:
            return
        for pod in pods:
            for budget in self.of(pod) if _costs(pod) else ():
                self._left[budget] -= 1

    def of(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Namespace and name of the budgets that select the pod."""
        namespace = pod.key.namespace
        budgets = self._of_namespace.get(namespace)
        if budgets is None:
            return ()
        key = (namespace, pod.labels)
        found = self._matching.get(key)
        if found is None:
            labels = dict(pod.labels)
            found = tuple((namespace, budget.name) for budget in budgets if selects(budget.selector, labels))
            self._matching[key] = found
        return found


def _costs(pod: Pod) -> bool:
    """Budgets count neither pods that are not ready nor those that are being deleted: their going changes nothing."""
    return pod.ready and not pod.deleting
