"""Computes the scores that kube-scheduler would give the feasible nodes of each pending pod of a cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.fit.feasible import feasible
from slackwater.fit.scores import ScoreProfile, scores
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.model.selectors import Selector
from slackwater.snapshot.equivalence_groups import KindId


def score_lines(cluster: Mapping[str, Any] | Cluster, profile: ScoreProfile | None = None) -> Iterator[dict[str, Any]]:
    """Yields one line for each pending pod: `{"pod", "scores": {plug-in: {node: 0..100}}}`, feasible nodes only. Without
    `profile` the scores are those of kube-scheduler's default profile.

    Raises `ClusterError`.
    """
    decoded = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    selectors = decoded.spread_by_default
    decoded = replace(decoded, pods=tuple(_spread(pod, selectors.get(pod.uid)) for pod in decoded.pods))
    snapshot = snapshot_of(decoded)
    pending = pending_pods(decoded)
    names = [node.name for node in snapshot.facts.nodes]
    for pod, number in zip(pending, snapshot.number(pending).tolist(), strict=True):
        kind = KindId(number)
        rows = feasible(snapshot, kind).rows
        found = scores(snapshot, kind, rows, profile) if len(rows) else {}
        yield {
            "pod": str(pod.key),
            "scores": {
                plugin: {names[row]: score for row, score in zip(rows.tolist(), column.tolist(), strict=True)}
                for plugin, column in found.items()
            },
        }


def _spread(pod: Pod, selector: Selector) -> Pod:
    if selector is None:
        return pod
    asks = pod.kind.pod_constraints or NO_POD_CONSTRAINTS
    return replace(pod, kind=replace(pod.kind, pod_constraints=replace(asks, spread_by_default=selector)))
