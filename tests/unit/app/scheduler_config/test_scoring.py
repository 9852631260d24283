"""The scores of a kube-scheduler profile, read from its configuration file, and what node choice cannot follow."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.scheduler_config.filters_and_scores import profile_scores, read_score_profile, score_profile_of
from slackwater.app.settings import Settings, UnreadableSettings
from slackwater.cli.main import main
from slackwater.fit.node_scores import DEFAULT_WEIGHTS, ScoreProfile
from slackwater.fit.plugins.inter_pod_affinity import PodAffinityScoring
from slackwater.fit.plugins.node_resources import ResourceScoring
from slackwater.fit.plugins.pod_topology_spread import DefaultSpread
from slackwater.model.kubernetes_rules import DEFAULT_VERSION
from tests.support.configuration import HEADER


def a_file(folder: Path, **profile: Any) -> str:
    file = folder / "scheduler.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**kind, "profiles": [{"schedulerName": "slackwater", **profile}]}))
    return str(file)


def arguments(name: str, **args: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": name, "args": args}]}


def test_a_profile_that_says_nothing_scores_by_default(tmp_path: Path) -> None:
    assert read_score_profile(a_file(tmp_path), "slackwater") == ScoreProfile() == score_profile_of(Settings())


def test_weights_and_arguments_are_those_of_the_profile(tmp_path: Path) -> None:
    points = [{"utilization": 0, "score": 0}, {"utilization": 80, "score": 10}]
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "memory", "weight": 3}],
        "requestedToCapacityRatio": {"shape": points},
    }
    soft = {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
    hard = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    config = [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy, "ignoredResources": ["example.com/foo"]}},
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 9, "ignorePreferredTermsOfExistingPods": True}},
        {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [soft, hard]}},
        {"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 5}},
        {"name": "VolumeBinding", "args": {"shape": [{"utilization": 0, "score": 2}, {"utilization": 100, "score": 8}]}},
    ]
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": 8}], "disabled": [{"name": "NodeAffinity"}]}}
    found = read_score_profile(a_file(tmp_path, pluginConfig=config, plugins=plugins), "slackwater")
    weights = {name: weight for name, weight in DEFAULT_WEIGHTS.items() if name != "NodeAffinity"} | {"ImageLocality": 8}
    shape = ((0, 0), (80, 10))
    assert found == ScoreProfile(
        weights=weights,
        resources=ResourceScoring(strategy="RequestedToCapacityRatio", cpu=0, memory=3, shape=shape),
        pod_affinity=PodAffinityScoring(hard_weight=9, ignores_existing=True),
        spread=DefaultSpread((("rack", 2),)),
        volumes=((0, 2), (100, 8)),
    )
    assert "NodeAffinity" not in found.plugins(DEFAULT_VERSION)


@pytest.mark.parametrize(
    ("profile", "path"),
    [
        (arguments("NodeResourcesFit", scoringStrategy={"type": "Random"}), "scoringStrategy.type"),
        (arguments("NodeResourcesFit", scoringStrategy=[]), "scoringStrategy"),
        (
            arguments("NodeResourcesFit", scoringStrategy={"resources": [{"name": "nvidia.com/gpu"}]}),
            "scoringStrategy.resources[0].name",
        ),
        (
            arguments("NodeResourcesFit", scoringStrategy={"resources": [{"name": "cpu", "weight": 101}]}),
            "scoringStrategy.resources[0].weight",
        ),
        (
            arguments("NodeResourcesFit", scoringStrategy={"type": "RequestedToCapacityRatio"}),
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (arguments("NodeResourcesBalancedAllocation", resources=[{"name": "nvidia.com/gpu"}]), "resources"),
        (
            arguments("NodeAffinity", addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}),
            "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution",
        ),
        (arguments("InterPodAffinity", hardPodAffinityWeight=True), "hardPodAffinityWeight"),
        (arguments("PodTopologySpread", defaultingType="List", defaultConstraints=["zone"]), "defaultConstraints[0]"),
    ],
)
def test_what_node_choice_cannot_follow_is_refused_at_its_place(tmp_path: Path, profile: dict[str, Any], path: str) -> None:
    _, (finding, *_) = profile_scores(profile, ("profiles", 0))
    assert (finding.path, finding.trap) == (f"profiles[0].pluginConfig[0].args.{path}", "scores-not-supported")
    with pytest.raises(UnreadableSettings, match=r"extender\.bind: true"):
        read_score_profile(a_file(tmp_path, **profile), "slackwater")


def test_a_file_without_the_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSettings, match="a profile of schedulerName other"):
        read_score_profile(a_file(tmp_path), "other")


def test_serve_names_a_file_that_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "slackwater.yaml"
    missing = tmp_path / "missing.yaml"
    config.write_text(f"{HEADER}extender: {{schedulerConfig: {missing}}}\n")
    assert main(["serve", "--config", str(config)]) != 0
    assert "extender.schedulerConfig" in (error := capsys.readouterr().err)
    assert "missing.yaml" in error
