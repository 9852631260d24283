"""Scores by profiles with weights and arguments of their own equal kube-scheduler's, as read from its configuration file."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.offline import score_lines
from slackwater.app.scheduler_config.scoring import read_score_profile
from tests.oracle.campaign import run
from tests.oracle.real import Line

pytestmark = pytest.mark.timeout(1200)

_CLUSTERS = 150
_FIT = "NodeResourcesFit"


def _strategy(kind: str, cpu: int, memory: int, **more: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "weight": cpu}, {"name": "memory", "weight": memory}]
    return {"name": _FIT, "args": {"scoringStrategy": {"type": kind, "resources": resources, **more}}}


def _ratio(*points: tuple[int, int]) -> dict[str, Any]:
    return {"requestedToCapacityRatio": {"shape": [{"utilization": used, "score": score} for used, score in points]}}


_BY_ZONE = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
_PROFILES: dict[str, dict[str, Any]] = {
    "packing": {"pluginConfig": [_strategy("MostAllocated", 5, 2)]},
    "memory first": {"pluginConfig": [_strategy("LeastAllocated", 1, 9)]},
    "half full": {"pluginConfig": [_strategy("RequestedToCapacityRatio", 3, 1, **_ratio((0, 0), (50, 10), (73, 3), (100, 0)))]},
    "pods together": {
        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 40}}],
        "plugins": {"multiPoint": {"enabled": [{"name": "InterPodAffinity", "weight": 7}]}},
    },
    "existing pods ignored": {
        "pluginConfig": [
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True}}
        ]
    },
    "spread by zone": {
        "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [_BY_ZONE]}}],
        "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}},
    },
}


def _ours(cluster: Any, config: Path) -> Iterable[Line]:
    return score_lines(cluster, read_score_profile(str(config), "slackwater"))


@pytest.mark.parametrize("name", _PROFILES)
def test_scores_of_a_profile_equal_kube_schedulers(program: Path, tmp_path: Path, name: str) -> None:
    config = tmp_path / "scheduler.yaml"
    profile = {"schedulerName": "slackwater", **_PROFILES[name]}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
    ours = partial(_ours, config=config)
    outcome = run(program, mode="scores", seed=3, indices=range(_CLUSTERS), ours=ours, config=config)
    assert [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()] == []
    assert outcome.scores.pods > _CLUSTERS
