"""The requests of the pods on each row, which slack rules need and a snapshot has only as sums.

Slack is sized for pods like those that may come again soon. Excluded are DaemonSet pods, which come with their nodes;
StatefulSet pods, because a database is no reason to keep a node warm; and pods with the slack annotation `0`.
"""

from collections.abc import Iterable, Sequence

from slackwater.model.ids import Row
from slackwater.model.objects import Pod, is_daemon
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.running_pods import Standing


class RunningPodRequests:
    """Implements `controllers.slack.planning_input.PodRequests` by reading the pods of each row; keeps no state."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def asks(self, rows: Sequence[Row]) -> list[Amounts]:
        # Replicas share their equivalence group and eviction facts, so most pods are skipped by two comparisons.
        seen: set[tuple[int, int]] = set()
        found: dict[Amounts, None] = {}
        for row in rows:
            for pod, kind in self._standing.on(row):
                key = (kind, id(pod.eviction_facts))
                if key not in seen:
                    seen.add(key)
                    if comes_again(pod):
                        found[pod.kind.requests] = None
        return list(found)

    def of(self, pods: Iterable[Pod]) -> list[Amounts]:
        """The requests of those pods that may come again, each once; for pods without a node."""
        return list(dict.fromkeys(pod.kind.requests for pod in pods if comes_again(pod)))

    def daemons(self, row: Row) -> Amounts:
        taken = NOTHING
        for pod, _ in self._standing.on(row):
            if is_daemon(pod):
                taken = taken.plus(pod.kind.requests)
        return taken

    def in_use(self, row: Row) -> bool:
        """Does the row have a pod other than DaemonSet pods?"""
        return any(not is_daemon(pod) for pod, _ in self._standing.on(row))


def comes_again(pod: Pod) -> bool:
    """May pods like this one come again, so that slack is sized for them?"""
    owner = pod.eviction_facts.owner
    return not is_daemon(pod) and pod.eviction_facts.slack != "0" and not (owner is not None and owner.kind == "StatefulSet")
