"""How good are the rows where a pod fits? Each score plug-in of kube-scheduler's default profile, 0..100, and their sum.

Scores compare the rows that are asked about with one another, so they are asked for the feasible rows together.
"""

from collections.abc import Callable, Mapping
from typing import Final

from slackwater.model.columns import Int64, Rows
from slackwater.simulate.kindtable import KindId, Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.preferences.balanced_allocation import score_balanced_allocation
from slackwater.simulate.preferences.image_locality import score_image_locality
from slackwater.simulate.preferences.inter_pod_affinity import score_inter_pod_affinity
from slackwater.simulate.preferences.node_affinity import score_node_affinity
from slackwater.simulate.preferences.node_resources_fit import score_node_resources_fit
from slackwater.simulate.preferences.pod_topology_spread import score_pod_topology_spread
from slackwater.simulate.preferences.taint_toleration import score_taint_toleration

_Score = Callable[[Picture, Numbered, Rows], Int64]

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


def scores(picture: Picture, kind: KindId, rows: Rows) -> dict[str, Int64]:
    """Of each plug-in, for the rows asked about, which are those that are feasible; shape (len(rows),)."""
    numbered = picture.of(kind)
    return {name: score(picture, numbered, rows) for name, (score, _) in PREFERENCES.items()}
