"""The scores that kube-scheduler would give to nodes, by our plug-ins, of a cluster as kubectl prints it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from slackwater.app.offline import Cluster, read_cluster
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.node_scores import ScoreProfile, scores
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import SpreadSources
from slackwater.snapshot.equivalence_groups import KindId


def score_lines(cluster: Mapping[str, Any] | Cluster, profile: ScoreProfile | None = None) -> Iterator[dict[str, Any]]:
    """Yields one line for each pending pod: `{"pod", "scores": {plug-in: {node: 0..100}}}`, feasible nodes only. Without
    `profile` the scores are those of kube-scheduler's default profile.

    Raises `ClusterError`.
    """
    decoded = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    decoded = replace(decoded, pods=tuple(_spread(pod, decoded.spread_sources) for pod in decoded.pods))
    snapshot = snapshot_of(decoded)
    pending = pending_pods(decoded)
    names = [node.name for node in snapshot.facts.nodes]
    for pod, number in zip(pending, snapshot.number(pending).tolist(), strict=True):
        kind = KindId(number)
        verdicts = feasible(snapshot, kind)
        rows = verdicts.rows
        found = scores(snapshot, kind, rows, profile) if len(rows) else {}
        refusal = verdicts.refusal
        failed = {"failed": refusal.text} if refusal is not None and refusal.reason is Reason.DEVICES_FAILED else {}
        yield {
            **failed,
            "pod": str(pod.key),
            "scores": {
                plugin: {names[row]: score for row, score in zip(rows.tolist(), column.tolist(), strict=True)}
                for plugin, column in found.items()
            },
        }


def _spread(pod: Pod, sources: SpreadSources) -> Pod:
    """The pod with the selector by which default constraints score, if it states no constraints."""
    asks = pod.kind.pod_constraints or NO_POD_CONSTRAINTS
    selector = None if pod.node is not None or asks.spread else sources.selector_of(pod)
    if selector is None:
        return pod
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=replace(asks, spread_by_default=selector)))
