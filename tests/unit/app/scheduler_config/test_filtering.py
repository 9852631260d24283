"""What the file of kube-scheduler says about filters, read as kube-scheduler reads it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.scheduler_config.filters_and_scores import filter_profiles_of
from slackwater.app.settings import Settings
from slackwater.configuration.problems import UnreadableSettings
from slackwater.model.scheduler_profile import FilterProfile, Profiles

_ZONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def read(tmp_path: Path, *profiles: dict[str, Any], **more: Any) -> Profiles:
    file = tmp_path / "scheduler.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**kind, "profiles": list(profiles), **more}))
    return filter_profiles_of(Settings.model_validate({"extender": {"scheduler_config": str(file)}}))


def a_profile(name: str, **arguments: dict[str, Any]) -> dict[str, Any]:
    return {"schedulerName": name, "pluginConfig": [{"name": plugin, "args": args} for plugin, args in arguments.items()]}


def an_extender(*names: str, ignored: bool = True) -> dict[str, Any]:
    managed = [{"name": name, "ignoredByScheduler": ignored} for name in names]
    return {"urlPrefix": "http://127.0.0.1:9398", "filterVerb": "filter", "managedResources": managed}


def test_without_a_file_every_pod_is_judged_by_the_default_profile() -> None:
    assert filter_profiles_of(Settings()) == {}


def test_each_profile_has_its_own_arguments(tmp_path: Path) -> None:
    one = a_profile("one", NodeResourcesFit={"ignoredResources": ["x.io/a"], "ignoredResourceGroups": ["y.io"]})
    found = read(tmp_path, one, {"schedulerName": "two"})
    assert found == {
        "one": FilterProfile(ignored_resources=frozenset({"x.io/a"}), ignored_groups=frozenset({"y.io"})),
        "two": FilterProfile(),
    }


def test_what_extenders_ignore_replaces_the_arguments_of_every_profile(tmp_path: Path) -> None:
    """`buildExtenders` of kube-scheduler overwrites `ignoredResources`, and leaves the groups."""
    one = a_profile("one", NodeResourcesFit={"ignoredResources": ["x.io/a"], "ignoredResourceGroups": ["y.io"]})
    extenders = [an_extender("nvidia.com/gpu"), an_extender("x.io/c"), an_extender("x.io/seen", ignored=False)]
    found = read(tmp_path, one, {"schedulerName": "two"}, extenders=extenders)
    assert {name: profile.ignored_resources for name, profile in found.items()} == dict.fromkeys(
        ("one", "two"), frozenset({"nvidia.com/gpu", "x.io/c"})
    )
    assert found["one"].ignored_groups == {"y.io"}
    kept = read(tmp_path, one, extenders=[an_extender("x.io/seen", ignored=False)])
    assert kept["one"].ignored_resources == {"x.io/a"}


def test_a_file_without_profiles_has_kube_schedulers_own(tmp_path: Path) -> None:
    found = read(tmp_path, extenders=[an_extender("x.io/a")])
    assert found == {"default-scheduler": FilterProfile(ignored_resources=frozenset({"x.io/a"}))}


def test_only_extended_resources_are_ignored() -> None:
    profile = FilterProfile(ignored_resources=frozenset({"cpu", "hugepages-2Mi", "x.io/a", "requests.x.io/a"}))
    assert [name for name in sorted(profile.ignored_resources) if profile.ignores(name)] == ["x.io/a"]
    groups = FilterProfile(ignored_groups=frozenset({"x.io", "kubernetes.io"}))
    assert [groups.ignores(name) for name in ("x.io/a", "y.io/a", "kubernetes.io/a", "x.io")] == [True, False, False, False]


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"defaultingType": "List", "defaultConstraints": [_ZONE]}, [("zone", True)]),
        (
            {"defaultingType": "List", "defaultConstraints": [_ZONE, {**_ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]},
            [("zone", True), ("zone", False)],
        ),
        # Soft ones alone only score; the type System has no constraints of the user's.
        ({"defaultingType": "List", "defaultConstraints": [{**_ZONE, "whenUnsatisfiable": "ScheduleAnyway"}]}, []),
        ({"defaultingType": "System", "defaultConstraints": [_ZONE]}, []),
        ({"defaultConstraints": [_ZONE]}, []),
        ({"defaultingType": "List"}, []),
    ],
)
def test_hard_default_constraints(tmp_path: Path, args: dict[str, Any], want: list[tuple[str, bool]]) -> None:
    spread = read(tmp_path, a_profile("one", PodTopologySpread=args))["one"].spread
    assert [(each.topology_key, each.hard) for each in spread] == want
    assert all(each.by_default and each.selector is None for each in spread)


def test_default_constraints_keep_their_policies(tmp_path: Path) -> None:
    given = {**_ZONE, "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["a"]}
    (found,) = read(tmp_path, a_profile("one", PodTopologySpread={"defaultingType": "List", "defaultConstraints": [given]}))[
        "one"
    ].spread
    assert (found.min_domains, found.honor_affinity, found.honor_taints, found.selector) == (3, False, True, None)


def test_the_required_part_of_the_added_affinity(tmp_path: Path) -> None:
    terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = read(tmp_path, a_profile("one", NodeAffinity={"addedAffinity": required}), a_profile("two", NodeAffinity={}))
    assert found["one"].added_affinity is not None
    assert [requirement.key for term in found["one"].added_affinity for requirement in term.labels] == ["pool"]
    assert found["two"].added_affinity is None


def test_disabled_filters(tmp_path: Path) -> None:
    plugins = {"filter": {"disabled": [{"name": "NodeAffinity"}]}, "multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}}
    assert read(tmp_path, {"schedulerName": "one", "plugins": plugins})["one"].disabled == {"NodeAffinity", "PodTopologySpread"}


@pytest.mark.parametrize(
    ("plugin", "args", "wanted"),
    [
        ("NodeResourcesFit", {"ignoredResources": "x.io/a"}, "a list of names"),
        ("NodeResourcesFit", {"ignoredResourceGroups": [1]}, "a list of names"),
        ("NodeAffinity", {"addedAffinity": ["pool"]}, "a node affinity"),
        ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": ["zone"]}, "topology spread constraints"),
    ],
)
def test_arguments_that_kube_scheduler_refuses_are_named(
    tmp_path: Path, plugin: str, args: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(UnreadableSettings) as refused:
        read(tmp_path, a_profile("one", **{plugin: args}))
    (problem,) = refused.value.problems
    assert (problem.wanted, f"profiles[0].pluginConfig[0].args.{list(args)[-1]}" in problem.path) == (wanted, True)
