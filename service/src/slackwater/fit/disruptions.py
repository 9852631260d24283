"""How many more disruptions each PodDisruptionBudget allows while a plan empties several nodes.

The rules are those of the Eviction API (pkg/registry/core/pod/storage). It ignores budgets for a pod that is Pending or being
deleted. It always refuses a pod that several budgets select, whatever they allow. It evicts a pod that is not ready whatever
the budget allows, if the budget's policy says so.

The numbers begin as the API reports them (`status.disruptionsAllowed`) and shrink with every pod that is moved, so that two
nodes never count on the same disruption. They may fall below 0: a node's pods leave one after another, each when its budget
allows it, but the next node with such a pod has to wait.
"""

from collections import Counter
from collections.abc import Iterable

from slackwater.model.objects import DisruptionBudget, Labels, Pod
from slackwater.model.selectorindex import SelectorIndex


class Disruptions:
    """The disruptions that budgets still allow."""

    def __init__(self, budgets: Iterable[DisruptionBudget]) -> None:
        #: Positions of a namespace's budgets, by the labels that they select.
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
        """How many disruptions a budget still allows; below 0 where more were spent."""
        return self._left[namespace, name]

    def covers(self, pod: Pod) -> bool:
        """Whether any budget selects the pod."""
        return bool(self.of(pod))

    def never_evicted(self, pod: Pod) -> bool:
        """Whether the Eviction API refuses the pod whatever its budgets allow, because there are several."""
        return bool(self._left) and _is_asked_about(pod) and len(self.of(pod)) > 1

    def allows(self, pod: Pod) -> bool:
        """Whether each budget of the pod, taken alone, allows a disruption now."""
        if not self._left or not _is_asked_about(pod):
            return True
        return not self.against(pod)

    def against(self, pod: Pod) -> list[tuple[str, str]]:
        """Namespace and name of the budgets that do not allow the pod to be disrupted now."""
        refusing = [budget for budget in self.of(pod) if self._left[budget] < 1]
        return refusing if pod.ready else [budget for budget in refusing if budget not in self._unready_may_go]

    def allow_all(self, pods: Iterable[Pod]) -> bool:
        """Whether the budgets allow all the pods to be disrupted at the same time."""
        if not self._left:
            return True
        wanted = Counter(budget for pod in pods if _costs(pod) for budget in self.of(pod))
        return all(self._left[budget] >= count for budget, count in wanted.items())

    def spend(self, pods: Iterable[Pod]) -> None:
        """Takes the disruptions of pods that will move off what budgets allow."""
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
            positions = sorted(budgets.selecting(dict(pod.labels)))
            found = tuple(self._names[position] for position in positions)
            self._matching[key] = found
        return found


def _is_asked_about(pod: Pod) -> bool:
    """Whether the Eviction API looks at budgets for the pod at all."""
    return not pod.starting and not pod.deleting


def _costs(pod: Pod) -> bool:
    """Whether evicting the pod uses up a disruption: budgets count neither unready pods nor those that are being deleted."""
    return pod.ready and not pod.deleting
