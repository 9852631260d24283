"""Scores and verdicts by profiles with arguments of their own equal kube-scheduler's, as read from its configuration file."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.offline import placement_lines, read_cluster
from slackwater.app.offline.cluster import with_profiles
from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of, read_score_profile
from slackwater.app.settings import Settings
from tests.oracle.campaign import run
from tests.oracle.real import Line
from tests.support.answers import json_of
from tests.support.scores import score_lines
from tests.support.seeds import examples

pytestmark = pytest.mark.timeout(1200)

_CLUSTERS = examples(150)
#: Enough for each profile of `_FILTERS` to differ from the default one several times.
_JUDGED = 40
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


def _written(to: Path, profile: dict[str, Any]) -> Path:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    to.write_text(yaml.safe_dump({**kind, "profiles": [{"schedulerName": "slackwater", **profile}]}))
    return to


@pytest.mark.parametrize("name", _PROFILES)
def test_scores_of_a_profile_equal_kube_schedulers(program: Path, tmp_path: Path, name: str) -> None:
    config = _written(tmp_path / "scheduler.yaml", _PROFILES[name])
    ours = partial(_ours, config=config)
    outcome = run(program, mode="scores", seed=3, indices=range(_CLUSTERS), ours=ours, config=config)
    assert [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()] == []
    assert outcome.scores.pods > _CLUSTERS


def _hard(key: str, **more: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **more}


_ZONES = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}]
_FILTERS: dict[str, dict[str, Any]] = {
    "resources ignored": {"pluginConfig": [{"name": _FIT, "args": {"ignoredResources": ["example.com/gpu", "cpu"]}}]},
    "groups ignored": {"pluginConfig": [{"name": _FIT, "args": {"ignoredResourceGroups": ["example.com"]}}]},
    "affinity added": {
        "pluginConfig": [
            {
                "name": "NodeAffinity",
                "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _ZONES}}},
            }
        ]
    },
    "hard spread by default": {
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [_hard("topology.kubernetes.io/zone", minDomains=2), _hard("kubernetes.io/hostname")],
                },
            }
        ]
    },
    "filters disabled": {"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}, {"name": "NodePorts"}]}}},
}


def _judged(cluster: Any, config: Path) -> Iterable[Line]:
    """The real side judges every pod by the one profile, whatever the pod's schedulerName is."""
    settings = Settings.model_validate({"extender": {"scheduler_config": str(config)}})
    (profile,) = filter_profiles_of(settings).values()
    read = read_cluster(cluster)
    return map(json_of, placement_lines(with_profiles(read, {pod.kind.scheduler_name: profile for pod in read.pods})))


@pytest.mark.parametrize("name", _FILTERS)
def test_verdicts_of_a_profile_equal_kube_schedulers(program: Path, tmp_path: Path, name: str) -> None:
    config = _written(tmp_path / "scheduler.yaml", _FILTERS[name])
    ours = partial(_judged, config=config)
    outcome = run(program, mode="placement", seed=5, indices=range(_JUDGED), ours=ours, config=config)
    assert [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()] == []
