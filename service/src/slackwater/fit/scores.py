"""Scores of feasible rows: each score plug-in of a kube-scheduler profile, 0..100, with its weight.

    ScoreProfile()                                   # kube-scheduler's default profile
    ScoreProfile(weights={"NodeResourcesFit": 5})    # one that scores by free room only
    scores(snapshot, kind, rows)                     # of the default profile

Scores compare the given rows with one another, so callers pass all feasible rows together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from slackwater.fit.score.balanced_allocation import score_balanced_allocation
from slackwater.fit.score.image_locality import score_image_locality, tells_images_apart
from slackwater.fit.score.inter_pod_affinity import (
    BY_DEFAULT,
    PodAffinityScoring,
    score_inter_pod_affinity,
    tells_company_apart,
)
from slackwater.fit.score.node_affinity import score_node_affinity, tells_nodes_apart
from slackwater.fit.score.node_resources_fit import LEAST_ALLOCATED, ResourceScoring, score_node_resources_fit
from slackwater.fit.score.pod_topology_spread import (
    SYSTEM_DEFAULT,
    DefaultSpread,
    score_pod_topology_spread,
    tells_domains_apart,
)
from slackwater.fit.score.taint_toleration import score_taint_toleration, tells_taints_apart
from slackwater.model.columns import Int64, Rows
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, Numbered

#: Scores rows for pods of an equivalence group; shape (len(rows),).
Score = Callable[[ClusterSnapshot, Numbered, Rows], Int64]
#: Whether a plug-in may score rows differently at all.
TellsApart = Callable[[ClusterSnapshot, Numbered], bool]

#: The score plug-ins of kube-scheduler's default profile with their weights, as in k8s.io/kubernetes v1.36.3,
#: pkg/scheduler/apis/config/v1/default_plugins.go.
DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


class ScorePlugin(NamedTuple):
    """A score plug-in of a profile. `tells_apart` is None for those that do not compare rows with one another; of the others it
    says whether rows can differ for a group, which holds while nodes and groups stay the same, wherever pods are."""

    score: Score
    weight: int
    tells_apart: TellsApart | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreProfile:
    """What a profile of kube-scheduler says about scores. Plug-ins that are not in `weights` do not score."""

    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    resources: ResourceScoring = LEAST_ALLOCATED
    pod_affinity: PodAffinityScoring = BY_DEFAULT
    spread: DefaultSpread = SYSTEM_DEFAULT

    def plugins(self) -> dict[str, ScorePlugin]:
        """The plug-ins that score, by name."""
        found: dict[str, tuple[Score, TellsApart | None]] = {
            "TaintToleration": (score_taint_toleration, tells_taints_apart),
            "NodeAffinity": (score_node_affinity, tells_nodes_apart),
            "NodeResourcesFit": (partial(score_node_resources_fit, scoring=self.resources), None),
            "PodTopologySpread": (
                partial(score_pod_topology_spread, default=self.spread),
                partial(tells_domains_apart, default=self.spread),
            ),
            "InterPodAffinity": (partial(score_inter_pod_affinity, scoring=self.pod_affinity), tells_company_apart),
            "NodeResourcesBalancedAllocation": (score_balanced_allocation, None),
            "ImageLocality": (score_image_locality, tells_images_apart),
        }
        return {
            name: ScorePlugin(score, self.weights[name], tells)
            for name, (score, tells) in found.items()
            if self.weights.get(name)
        }


def scores(snapshot: ClusterSnapshot, kind: KindId, rows: Rows, profile: ScoreProfile | None = None) -> dict[str, Int64]:
    """The scores of each plug-in for `rows`, which are the feasible ones; shape (len(rows),). Without `profile` those of
    kube-scheduler's default one."""
    numbered = snapshot.of(kind)
    plugins = (profile or ScoreProfile()).plugins()
    return {name: plugin.score(snapshot, numbered, rows) for name, plugin in plugins.items()}
