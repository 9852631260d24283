"""The requests of the pods on a row, one by one: slack rules need them, and a snapshot has only their sums."""

from collections.abc import Iterable, Sequence
from functools import reduce

from slackwater.model.ids import Row
from slackwater.model.objects import Pod, is_daemon
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.running_pods import PodsByRow


class RunningPodRequests:
    """Reads the requests of the pods on rows, and keeps no state. Implements `planning_input.PodRequests`."""

    def __init__(self, running_pods: PodsByRow) -> None:
        self._running_pods = running_pods

    def asks(self, rows: Sequence[Row]) -> list[Amounts]:
        # Replicas share their equivalence group and eviction facts, so most pods are skipped by two comparisons.
        seen: set[tuple[int, int]] = set()
        found: dict[Amounts, None] = {}
        for row in rows:
            for pod, kind in self._running_pods.on(row):
                key = (kind, id(pod.eviction_facts))
                if key not in seen:
                    seen.add(key)
                    if may_recur(pod):
                        found[pod.kind.requests] = None
        return list(found)

    def of(self, pods: Iterable[Pod]) -> list[Amounts]:
        """The distinct requests of those pods that may come again (`may_recur`); for pending pods."""
        return list(dict.fromkeys(pod.kind.requests for pod in pods if may_recur(pod)))

    def daemons(self, row: Row) -> Amounts:
        return reduce(Amounts.plus, (pod.kind.requests for pod, _ in self._running_pods.on(row) if is_daemon(pod)), NOTHING)

    def in_use(self, row: Row) -> bool:
        """Does the row have a pod other than DaemonSet pods?"""
        return any(not is_daemon(pod) for pod, _ in self._running_pods.on(row))


def may_recur(pod: Pod) -> bool:
    """May pods like this one come again, so that slack is sized for them?

    Excluded are DaemonSet pods, which come with their nodes; StatefulSet pods, because a database is no reason to keep a node
    warm; and pods with the slack annotation `0`.
    """
    owner = pod.eviction_facts.owner
    return not is_daemon(pod) and pod.eviction_facts.slack != "0" and not (owner is not None and owner.kind == "StatefulSet")
