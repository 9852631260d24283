"""What PodDisruptionBudgets would allow on our side.

A budget's status says what it allows in the real cluster. It wants the same number of healthy pods on both sides, so here it
allows more or less by as many pods as are healthy here and not there.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import structs

from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.objects import DisruptionBudget, Labels, Pod

_BudgetKey = tuple[str, str]


def allowed_here(budgets: Sequence[DisruptionBudget], here: Iterable[Pod], real: Iterable[Pod]) -> list[DisruptionBudget]:
    """The budgets with the disruptions that they allow with the pods `here`."""
    if not budgets:
        return []
    selecting = Disruptions(budgets)
    more = _healthy(selecting, here)
    more.subtract(_healthy(selecting, real))
    return [
        structs.replace(each, disruptions_allowed=max(each.disruptions_allowed + more[each.namespace, each.name], 0))
        for each in budgets
    ]


def _healthy(selecting: Disruptions, pods: Iterable[Pod]) -> Counter[_BudgetKey]:
    """How many healthy pods each budget selects. Pods with the same labels are looked up once."""
    alike: dict[tuple[str, Labels], tuple[Pod, int]] = {}
    for pod in pods:
        if pod.ready and pod.node is not None and not pod.deleting:
            key = pod.key.namespace, pod.labels
            alike[key] = pod, alike.get(key, (pod, 0))[1] + 1
    found = Counter[_BudgetKey]()
    for pod, count in alike.values():
        found.update(dict.fromkeys(selecting.of(pod), count))
    return found
