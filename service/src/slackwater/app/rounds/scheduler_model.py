"""A model of kube-scheduler: puts a pod on the best of its feasible nodes, by the service's own filters and scores.

A pod of Slackwater's scheduler is scored with Slackwater's own score, others by kube-scheduler's profile alone. Of nodes with
equal scores the emptiest is taken, where kube-scheduler draws lots. As kube-scheduler does, it looks at only as many feasible
nodes as `percentageOfNodesToScore` says, beginning behind the last pod's: as in Slackwater's configuration for its own
scheduler's pods, the default for others. No node is nominated, and no pod is preempted. Pods for which a node was bought get
that node first (`place_on`), evicted ones the planned node if it is among those looked at.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from slackwater.app.policies import own_score_of
from slackwater.app.rounds.happened import Bound, Observer, nobody
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.app.scheduler_config.filters_and_scores import score_profiles_of, scores_of_pod
from slackwater.app.scheduler_config.profile import wanted_percentage
from slackwater.app.settings import Settings
from slackwater.fit.best_node import Samples, Scoring
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.scoring import Room, Value
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.objects import Pod
from slackwater.snapshot.equivalence_groups import NumberedGroup

_FEW: Final = 100


def _no_own_score(_room: Room, _kind: NumberedGroup) -> Value:
    return 0


def sampled_of(nodes: int, percent: int = 0) -> int:
    """How many feasible nodes of so many kube-scheduler looks for (numFeasibleNodesToFind in pkg/scheduler/schedule_one.go).
    `percent`: `percentageOfNodesToScore`; 0: it is not set."""
    percent = percent or max(50 - nodes // 125, 5)
    return nodes if nodes < _FEW else max(nodes * percent // 100, _FEW)


class SchedulerModel:
    """The schedulers of a cluster. Raises `UnreadableSettings` if kube-scheduler's file cannot be read."""

    def __init__(self, settings: Settings, version: KubernetesVersion, observer: Observer = nobody) -> None:
        self._settings, self._version, self._observer = settings, version, observer
        self._percent = wanted_percentage(settings)
        #: The row with which the next search begins.
        self._begin = 0
        own = own_score_of(settings)
        self._samples: dict[str, Samples] = {
            settings.scheduler_name: Samples(Scoring(own, score_profiles_of(settings)[settings.scheduler_name], version))
        }

    def node_for(self, cluster: VirtualCluster, pod: Pod, planned: NodeName | None = None) -> NodeName | None:
        """The node for a pod without one; None if none is feasible. `planned`: it is named if it is among those that
        kube-scheduler asks about."""
        snapshot = cluster.replica.snapshot
        kind = snapshot.kind_id(pod.kind, pod.labels)
        rows = feasible(snapshot, kind).rows
        if not len(rows):
            return None
        ours = pod.kind.scheduler_name == self._settings.scheduler_name
        rows = self._sample(rows, snapshot.n_rows, self._percent if ours else 0)
        row = None if planned is None else snapshot.facts.row_of.get(planned)
        if row is not None and row in rows:
            return planned
        best = self._of(pod.kind.scheduler_name).best_of(snapshot, kind, rows)
        return snapshot.facts.nodes[int(rows[0 if best is None else best.at])].name

    def _sample(self, rows: Rows, n_rows: int, percent: int) -> Rows:
        """The feasible rows that are scored, and the next search begins behind them."""
        most = sampled_of(n_rows, percent)
        if len(rows) <= most:
            return rows
        first = int(np.searchsorted(rows, self._begin))
        found: Rows = np.concatenate([rows[first:], rows[:first]])[:most]
        self._begin = (int(found[-1]) + 1) % n_rows
        return found

    def may_run_on(self, cluster: VirtualCluster, pod: Pod, node: NodeName) -> bool:
        """Whether the node is there and feasible for the pod."""
        snapshot = cluster.replica.snapshot
        row = snapshot.facts.row_of.get(node)
        return row is not None and row in feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows

    def place_on(self, cluster: VirtualCluster, node: NodeName, uids: Iterable[PodUid], now: UnixTime) -> None:
        """Binds those of the pods that still wait to the node that was bought for them, as far as they fit there."""
        for uid in uids:
            pod = cluster.find(uid)
            if pod is not None and pod.node is None and self.may_run_on(cluster, pod, node):
                cluster.bind(pod, node)
                self._observer(Bound(now, pod))

    def place_pending(self, cluster: VirtualCluster, now: UnixTime) -> None:
        """Binds the pods that fit somewhere, one after another."""
        refused = set[tuple[object, ...]]()
        for pod in cluster.queue():
            if pod.group in refused:
                continue
            node = self.node_for(cluster, pod)
            if node is None:
                refused.add(pod.group)
            else:
                cluster.bind(pod, node)
                self._observer(Bound(now, pod))

    def _of(self, name: str) -> Samples:
        if name not in self._samples:
            profile, _ = scores_of_pod(self._settings, name)
            self._samples[name] = Samples(Scoring(_no_own_score, profile, self._version))
        return self._samples[name]
