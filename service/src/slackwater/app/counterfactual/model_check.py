"""Measures the model's own error: the model of scheduler and controllers on the real nodes, beside what really happens.

Every hour the model begins with the real cluster again. Nodes then come and go as they really do, and a node that somebody is
about to remove loses its pods at once. What the model says about waits, evictions and empty nodes is compared at the end of the
hour. It has no error in the number of nodes: those are the real ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slackwater.app.counterfactual.demand import DemandEvent, made_at
from slackwater.app.counterfactual.durations import bucket_of
from slackwater.app.counterfactual.lines import ModelCheck
from slackwater.app.counterfactual.node_owners import remover_of
from slackwater.app.counterfactual.pods_here import PodsHere, apply, daemons
from slackwater.app.offline.cluster import Cluster
from slackwater.app.rounds.happened import Bound, Happened
from slackwater.app.rounds.scheduler_model import SchedulerModel
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.settings import Settings
from slackwater.model.changes import Changes, PodChange
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.objects import Pod, is_daemon


@dataclass(slots=True)
class RealHour:
    """What really happened since the check began: the buckets of waits, evictions, and the nodes without pods now."""

    waits: Counter[int] = field(default_factory=Counter)
    evictions: int = 0


class CheckedModel:
    """The model of one hour. `real`: what happens beside it, which the caller adds up."""

    def __init__(self, began: Cluster, settings: Settings, at: UnixTime) -> None:
        self.real = RealHour()
        self.began_at = at
        self._cluster = VirtualCluster(began)
        self._waits = Counter[int]()
        # The observer knows the counter, not this object: so the hour's model goes with its last user, and not only with the
        # next collection of garbage, of which there may be one a day.
        self._scheduler = SchedulerModel(settings, began.kubernetes.version, partial(_count_wait, self._waits))
        self._evictions = 0
        self._emptied: set[NodeName] = set()
        self._scheduler.place_pending(self._cluster, at)
        self._waits.clear()  # what was pending before the hour, and fits at once by the model, says nothing about the hour

    def take(self, changes: Changes, events: Iterable[DemandEvent], read: Cluster, at: UnixTime) -> None:
        """Applies what happened in the real cluster."""
        pods = PodsHere()
        for event in events:
            apply(event, self._cluster, pods)
        nodes = [change for change in changes.nodes if change.node is not None]
        there = {*self._cluster.replica.nodes, *(name for name, _, _ in nodes)}
        pods |= daemons(changes.pods, self._cluster, there)
        changed = [PodChange(uid, pod) for uid, pod in pods.items()]
        self._cluster.follow(replace(changes, nodes=nodes, pods=changed), read)
        for name, node, _ in changes.nodes:
            if node is None:
                self._remove(name, at)
            elif remover_of(node) is not None:
                self._empty(name, at)
        self._scheduler.place_pending(self._cluster, at)

    def result(self, at: UnixTime, real_empty_nodes: int) -> ModelCheck:
        """The comparison at the end."""
        return ModelCheck(
            at=at,
            seconds=at - self.began_at,
            modelled_waits=dict(self._waits),
            real_waits=dict(self.real.waits),
            modelled_evictions=self._evictions,
            real_evictions=self.real.evictions,
            modelled_empty_nodes=sum(is_empty(self._cluster.pods_on(name)) for name in self._cluster.replica.nodes),
            real_empty_nodes=real_empty_nodes,
        )

    def _empty(self, name: NodeName, at: UnixTime) -> None:
        """The pods leave a node that somebody is about to remove."""
        if name in self._emptied:
            return
        self._emptied.add(name)
        for pod in self._cluster.pods_on(name):
            if not is_daemon(pod):
                self._evictions += 1
                self._cluster.evict(pod, at)

    def _remove(self, name: NodeName, at: UnixTime) -> None:
        self._emptied.discard(name)
        if name in self._cluster.replica.nodes:
            self._cluster.lose_node(name, at)


def _count_wait(waits: Counter[int], event: Happened) -> None:
    if isinstance(event, Bound):
        waits[bucket_of(max(event.at - made_at(event.pod), 0.0))] += 1


def is_empty(pods: Sequence[Pod]) -> bool:
    """True if only pods of the node itself run on it."""
    return all(map(is_daemon, pods))
