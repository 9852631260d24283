"""Whose pods stand on a node: what slack has to know of them and the snapshot does not tell.

Pods that may come again, and soon, are those that slack is for. Not those of DaemonSets, which come with their nodes; not
those of StatefulSets (a database is no reason to keep a node warm for it); not those that somebody marked with `0`.
"""

from collections.abc import Iterable, Sequence

from slackwater.model.ids import Row
from slackwater.model.objects import Pod, is_daemon
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.running_pods import Standing


class RunningPodRequests:
    """Implements `controllers.slack.planning_input.PodRequests`. Reads who stands where; remembers nothing."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing

    def asks(self, rows: Sequence[Row]) -> list[Amounts]:
        # Replicas share their kind and their ties, so most pods are told by two comparisons.
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
        """The same of pods without a node."""
        return list(dict.fromkeys(pod.kind.requests for pod in pods if comes_again(pod)))

    def daemons(self, row: Row) -> Amounts:
        taken = NOTHING
        for pod, _ in self._standing.on(row):
            if is_daemon(pod):
                taken = taken.plus(pod.kind.requests)
        return taken

    def in_use(self, row: Row) -> bool:
        """Does a pod stand there that did not come with the node?"""
        return any(not is_daemon(pod) for pod, _ in self._standing.on(row))


def comes_again(pod: Pod) -> bool:
    """Is room kept for pods as large as this one?"""
    owner = pod.eviction_facts.owner
    return not is_daemon(pod) and pod.eviction_facts.slack != "0" and not (owner is not None and owner.kind == "StatefulSet")
