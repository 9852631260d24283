"""Scores of feasible rows: each score plug-in of kube-scheduler's default profile, 0..100.

Scores compare the given rows with one another, so callers pass all feasible rows together.
"""

from collections.abc import Callable, Mapping
from typing import Final

from slackwater.fit.score.balanced_allocation import score_balanced_allocation
from slackwater.fit.score.image_locality import score_image_locality, tells_images_apart
from slackwater.fit.score.inter_pod_affinity import score_inter_pod_affinity, tells_company_apart
from slackwater.fit.score.node_affinity import score_node_affinity, tells_nodes_apart
from slackwater.fit.score.node_resources_fit import score_node_resources_fit
from slackwater.fit.score.pod_topology_spread import score_pod_topology_spread, tells_domains_apart
from slackwater.fit.score.taint_toleration import score_taint_toleration, tells_taints_apart
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, Numbered

_Score = Callable[[ClusterSnapshot, Numbered, Rows], Int64]

#: Each plug-in with its weight in the default profile.
PREFERENCES: Final[Mapping[str, tuple[_Score, int]]] = {
    "TaintToleration": (score_taint_toleration, 3),
    "NodeAffinity": (score_node_affinity, 2),
    "NodeResourcesFit": (score_node_resources_fit, 1),
    "PodTopologySpread": (score_pod_topology_spread, 2),
    "InterPodAffinity": (score_inter_pod_affinity, 2),
    "NodeResourcesBalancedAllocation": (score_balanced_allocation, 1),
    "ImageLocality": (score_image_locality, 1),
}
#: Whether a plug-in that compares rows may score them differently at all. Where not, that holds while nodes and equivalence
#: groups stay the same, wherever pods are.
TELLS_APART: Final[Mapping[str, Callable[[ClusterSnapshot, Numbered], bool]]] = {
    "TaintToleration": tells_taints_apart,
    "NodeAffinity": tells_nodes_apart,
    "PodTopologySpread": tells_domains_apart,
    "InterPodAffinity": tells_company_apart,
    "ImageLocality": tells_images_apart,
}


def scores(snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> dict[str, Int64]:
    """The scores of each plug-in for `rows`, which are the feasible ones; shape (len(rows),)."""
    numbered = snapshot.of(kind)
    return {name: score(snapshot, numbered, rows) for name, (score, _) in PREFERENCES.items()}
