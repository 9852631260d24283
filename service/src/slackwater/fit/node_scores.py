"""Scores of feasible rows: each score plug-in of a kube-scheduler profile, 0..100, with its weight.

    ScoreProfile()                                   # kube-scheduler's default profile, whatever the version
    ScoreProfile(weights={"NodeResourcesFit": 5})    # one that scores by free room only
    scores(snapshot, kind, rows)                     # by the default profile

Scores compare the given rows with one another, so callers pass all feasible rows together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from slackwater.fit.plugins.dynamic_resources import alternatives_differ, score_dynamic_resources
from slackwater.fit.plugins.inter_pod_affinity import (
    BY_DEFAULT,
    PodAffinityScoring,
    affinities_differ,
    score_inter_pod_affinity,
)
from slackwater.fit.plugins.node_affinity import preferences_differ, score_node_affinity
from slackwater.fit.plugins.node_resources import (
    LEAST_ALLOCATED,
    ResourceScoring,
    score_balanced_allocation,
    score_node_resources_fit,
)
from slackwater.fit.plugins.pod_topology_spread import SYSTEM_DEFAULT, DefaultSpread, domains_differ, score_pod_topology_spread
from slackwater.fit.plugins.single_facts import images_differ, score_image_locality
from slackwater.fit.plugins.taint_toleration import score_taint_toleration, taints_differ
from slackwater.fit.plugins.volume_binding import EMPTIEST_FIRST, Shape, score_volume_binding, volumes_differ
from slackwater.fit.scoring import RoomScore, room_on
from slackwater.model.columns import Int64, Rows
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup

#: Scores rows for pods of an equivalence group; shape (len(rows),).
Score = Callable[[ClusterSnapshot, NumberedGroup, Rows], Int64]
#: Whether a plug-in may score the rows differently for an equivalence group.
Differs = Callable[[ClusterSnapshot, NumberedGroup], bool]

#: The score plug-ins of kube-scheduler's default profile with their weights, as in k8s.io/kubernetes v1.34.4 to v1.37.2,
#: pkg/scheduler/apis/config/v1/default_plugins.go. VolumeBinding scores only where `Rule.STORAGE_CAPACITY_SCORING` holds.
DEFAULT_WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "VolumeBinding": 1,
}


class ScorePlugin(NamedTuple):
    """A score plug-in of a profile.

    `differs` says whether the scores of rows can differ at all for a group. Its answer holds while nodes and groups stay the
    same, wherever pods are. `differs` is None for plug-ins that read only each row's own room; these have `of_room`.
    """

    score: Score
    weight: int
    differs: Differs | None
    of_room: RoomScore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreProfile:
    """The scoring of a kube-scheduler profile. Plug-ins that are not in `weights` do not score."""

    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    resources: ResourceScoring = LEAST_ALLOCATED
    pod_affinity: PodAffinityScoring = BY_DEFAULT
    spread: DefaultSpread = SYSTEM_DEFAULT
    volumes: Shape = EMPTIEST_FIRST

    def plugins(self, version: KubernetesVersion) -> dict[str, ScorePlugin]:
        """The plug-ins that score in a version of kube-scheduler, by name."""
        balanced = partial(score_balanced_allocation, by_improvement=version.follows(Rule.BALANCE_BY_IMPROVEMENT))
        of_room: dict[str, RoomScore] = {
            "NodeResourcesFit": partial(score_node_resources_fit, scoring=self.resources),
            "NodeResourcesBalancedAllocation": balanced,
        }
        compared: dict[str, tuple[Score, Differs]] = {
            "TaintToleration": (score_taint_toleration, taints_differ),
            "NodeAffinity": (score_node_affinity, preferences_differ),
            "PodTopologySpread": (
                partial(score_pod_topology_spread, default=self.spread),
                partial(domains_differ, default=self.spread),
            ),
            "InterPodAffinity": (partial(score_inter_pod_affinity, scoring=self.pod_affinity), affinities_differ),
            "DynamicResources": (score_dynamic_resources, alternatives_differ),
            "ImageLocality": (score_image_locality, images_differ),
        }
        if version.follows(Rule.STORAGE_CAPACITY_SCORING):
            compared["VolumeBinding"] = (partial(score_volume_binding, shape=self.volumes), volumes_differ)
        found = {
            **{name: ScorePlugin(_of_rows(score), self.weights.get(name, 0), None, score) for name, score in of_room.items()},
            **{name: ScorePlugin(score, self.weights.get(name, 0), differs) for name, (score, differs) in compared.items()},
        }
        return {name: plugin for name, plugin in found.items() if plugin.weight}


def _of_rows(score: RoomScore) -> Score:
    def of_rows(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64:
        found: Int64 = score(room_on(snapshot, rows), kind)
        return found

    return of_rows


def scores(snapshot: ClusterSnapshot, kind: KindId, rows: Rows, profile: ScoreProfile | None = None) -> dict[str, Int64]:
    """The scores of each plug-in for `rows`, which must be the feasible ones; shape (len(rows),). Without `profile`,
    kube-scheduler's default profile is used."""
    numbered = snapshot.of(kind)
    plugins = (profile or ScoreProfile()).plugins(snapshot.facts.kubernetes)
    return {name: plugin.score(snapshot, numbered, rows) for name, plugin in plugins.items()}
