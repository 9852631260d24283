"""Every known trap of a KubeSchedulerConfiguration: a clean file with one thing changed is found out, at its place."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.app.scheduler_config.check import unfollowed
from slackwater.app.scheduler_config.config_tree import load_scheduler_file
from slackwater.app.scheduler_config.generate import generate
from slackwater.app.settings import Settings, UnreadableSettings, loads
from tests.support.configuration import HEADER
from tests.unit.app.scheduler_config.files import BINDS, CLEAN, REMOVED, X, binding, changed, found, traps


def test_a_clean_file_has_no_findings() -> None:
    assert found(CLEAN) == []
    assert found(CLEAN, Settings()) == []


def test_ignorable_with_bind_runs_pods_without_reservation() -> None:
    assert traps(binding(x_ignorable=True), BINDS) == [(f"{X}.ignorable", "ignorable-with-bind", "error")]


def test_ignorable_without_bind_places_past_us() -> None:
    assert traps(changed(x_ignorable=True)) == [(f"{X}.ignorable", "ignorable", "warning")]


def test_ignorable_is_what_the_configuration_says() -> None:
    wanted = loads(HEADER + "extender: {ignorable: true}")
    assert yaml.safe_load(generate(wanted, kubeconfig=None, extender_url=None))["extenders"][0]["ignorable"] is True
    assert found(changed(x_ignorable=True), wanted) == []
    assert traps(changed(x_ignorable=False), wanted) == [(f"{X}.ignorable", "differs-from-config", "warning")]


def test_a_weight_above_one_overrides_what_users_asked_for() -> None:
    (finding,) = found(changed(x_weight=3))
    assert (finding.path, finding.trap, finding.severity) == (f"{X}.weight", "weight", "warning")
    assert finding.why == (
        "scores of 0 to 10 times 10 times 3 make up to 300 points: that overrides preferred node affinity (200), "
        "ScheduleAnyway spread (200), preferred pod affinity (200), image locality (100), and equals PreferNoSchedule "
        "taints"
    )
    assert finding.fix == "want 1: as much as one more in-tree plug-in"


def test_a_weight_of_two_is_already_too_much() -> None:
    (finding,) = found(changed(x_weight=2))
    assert "that overrides image locality (100), and equals preferred node affinity" in finding.why


def test_a_weight_that_our_configuration_asks_for_is_advice() -> None:
    settings = loads(HEADER + "extender: {weight: 3}")
    assert traps(changed(x_weight=3), settings) == [(f"{X}.weight", "weight", "advice")]
    assert traps(changed(x_weight=1), settings) == [(f"{X}.weight", "differs-from-config", "warning")]


def scores(*enabled: tuple[str, int | None], point: str = "score", disabled: tuple[str, ...] = ()) -> dict[str, Any]:
    plugins = [{"name": name} if weight is None else {"name": name, "weight": weight} for name, weight in enabled]
    return {point: {"enabled": plugins, "disabled": [{"name": name} for name in disabled]}}


PREFERENCES = ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "ImageLocality")


@pytest.mark.parametrize(
    ("plugins", "want_overridden"),
    [
        pytest.param(scores(*((name, 20) for name in PREFERENCES)), "", id="all-weights-raised"),
        pytest.param(scores(*((name, 20) for name in PREFERENCES), point="multiPoint"), "", id="raised-everywhere"),
        pytest.param(scores(("ImageLocality", 9)), "", id="the-lightest-raised"),
        pytest.param(scores(disabled=("ImageLocality",)), "", id="the-lightest-disabled"),
        pytest.param(scores(("NodeAffinity", None), ("ImageLocality", 9)), "preferred node affinity (100)", id="no-weight"),
        pytest.param(
            scores(("InterPodAffinity", 1), point="multiPoint", disabled=("*",)), "preferred pod affinity (100)", id="star"
        ),
        pytest.param(scores(disabled=("*",)), "", id="nothing-scores"),
    ],
)
def test_a_weight_is_compared_with_the_profiles_own(plugins: dict[str, Any], want_overridden: str) -> None:
    file = changed(x_weight=2, profiles=[{"schedulerName": "slackwater", "plugins": plugins}])
    whys = [finding.why for finding in found(file) if finding.trap == "weight"]
    if not want_overridden:
        assert whys == []
    else:
        assert f"overrides {want_overridden}" in whys[0]


@pytest.mark.parametrize("value", [REMOVED, 0, -1])
def test_a_weight_that_is_not_positive_ends_the_start(value: object) -> None:
    assert traps(changed(x_weight=value)) == [(f"{X}.weight", "weight", "error")]


def test_whole_nodes_on_the_wire() -> None:
    assert traps(changed(x_nodeCacheCapable=REMOVED)) == [(f"{X}.nodeCacheCapable", "node-cache", "warning")]


def test_managed_resources_hide_pods_from_us() -> None:
    file = changed(x_managedResources=[{"name": "example.com/gpu"}])
    assert traps(file) == [(f"{X}.managedResources", "managed-resources", "error")]


@pytest.mark.parametrize(
    ("verb", "want_severity"),
    [("filterVerb", "error"), ("prioritizeVerb", "warning"), ("preemptVerb", "warning"), ("bindVerb", "warning")],
)
def test_a_missing_verb(verb: str, want_severity: str) -> None:
    assert traps(binding(**{f"x_{verb}": REMOVED}), BINDS) == [(f"{X}.{verb}", "verb", want_severity)]


def test_a_bind_verb_that_our_configuration_does_not_want() -> None:
    """Without our configuration it is advice: the default one is assumed."""
    file = changed(x_bindVerb="bind")
    assert traps(file, Settings()) == [(f"{X}.bindVerb", "differs-from-config", "warning")]
    assert traps(file) == [(f"{X}.bindVerb", "differs-from-config", "advice")]
    assert found(binding(), BINDS) == []


def test_an_extender_that_is_called_after_the_choice() -> None:
    file = changed(extenders=[*CLEAN["extenders"], OTHER_EXTENDER])
    assert traps(file) == [("extenders[1]", "extender-after-choice", "warning"), UNFOLLOWED]
    several = loads(HEADER + "extender: {bind: true}\n")
    left_out = binding()
    left_out["extenders"].append(OTHER_EXTENDER)
    assert traps(left_out, several) == [UNFOLLOWED]


def test_a_plug_in_of_others_whose_scores_are_unknown() -> None:
    profile = {**CLEAN["profiles"][0], "plugins": {"score": {"enabled": [{"name": "Trimaran", "weight": 5}]}}}
    (finding,) = found(changed(profiles=[profile]), Settings())
    assert (finding.path, finding.trap) == ("profiles[0].plugins", "choice-by-default-scores")
    assert finding.why.startswith("Trimaran is not in-tree")
    assert "extender.bind: true" in finding.fix


def test_a_verb_that_is_not_served() -> None:
    assert traps(changed(x_filterVerb="predicates")) == [(f"{X}.filterVerb", "verb", "error")]


def test_no_extender_at_all() -> None:
    assert traps(changed(extenders=[])) == [("extenders", "no-extender", "error")]
    assert traps(changed(extenders=REMOVED)) == [("extenders", "no-extender", "error")]


OTHER_EXTENDER = {"urlPrefix": "http://127.0.0.1:9999/other", "filterVerb": "check", "ignorable": True}
UNFOLLOWED = ("extenders[1].filterVerb", "not-followed", "advice")


def test_an_extender_of_others_may_be_what_ours_must_not() -> None:
    """But plans do not know what it refuses, which is advice."""
    file = changed(extenders=[OTHER_EXTENDER, *CLEAN["extenders"]])
    assert traps(file, Settings()) == [("extenders[0].filterVerb", "not-followed", "advice")]


def test_only_extenders_of_others() -> None:
    want = [("extenders", "no-extender", "error"), ("extenders[0].filterVerb", "not-followed", "advice"), UNFOLLOWED]
    assert traps(changed(extenders=[OTHER_EXTENDER, OTHER_EXTENDER])) == want


def test_two_extenders_that_bind() -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "bindVerb": "bind"}
    file = binding()
    file["extenders"].append(other)
    assert traps(file, BINDS) == [("extenders[1].bindVerb", "two-binders", "error")]


def test_our_extender_twice() -> None:
    file = changed(extenders=2 * CLEAN["extenders"])
    assert ("extenders[1]", "extender-twice", "error") in traps(file)


def test_all_nodes_scored_costs_throughput() -> None:
    assert traps(changed(percentageOfNodesToScore=100)) == [("percentageOfNodesToScore", "percentage", "warning")]
    file = changed(profiles=[{"schedulerName": "slackwater", "percentageOfNodesToScore": 100}])
    assert traps(file) == [("profiles[0].percentageOfNodesToScore", "percentage", "warning")]


def test_a_fixed_share_of_nodes_is_advised_against() -> None:
    assert traps(changed(percentageOfNodesToScore=30)) == [("percentageOfNodesToScore", "percentage", "advice")]
    assert traps(changed(percentageOfNodesToScore=101)) == [("percentageOfNodesToScore", "percentage", "error")]
    assert found(changed(percentageOfNodesToScore=0)) == []


def test_an_old_version() -> None:
    file = changed(apiVersion="kubescheduler.config.k8s.io/v1beta3")
    assert traps(file) == [("apiVersion", "api-version", "error")]


def test_a_profile_of_another_name() -> None:
    assert traps(changed(profiles=[{"schedulerName": "other"}]), Settings()) == [
        ("profiles[0].schedulerName", "profile-name", "error")
    ]
    assert traps(changed(profiles=REMOVED), Settings()) == [("profiles", "profile-name", "error")]


def test_two_profiles_of_one_name() -> None:
    file = changed(profiles=[{"schedulerName": "slackwater"}] * 2)
    assert traps(file) == [("profiles[1].schedulerName", "profile-name", "error")]


def test_several_profiles_of_which_one_has_no_name() -> None:
    file = changed(profiles=[{"schedulerName": "slackwater"}, {}])
    assert traps(file) == [("profiles[1].schedulerName", "profile-name", "error")]


def profile(plugins: dict[str, Any]) -> dict[str, Any]:
    return changed(profiles=[{"schedulerName": "slackwater", "plugins": plugins}])


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
def test_a_disabled_filter_is_not_checked(point: str) -> None:
    file = profile({point: {"disabled": [{"name": "NodePorts"}]}})
    (finding,) = found(file)
    assert (finding.path, finding.trap) == ("profiles[0].plugins", "filters-disabled")
    assert finding.why.startswith("NodePorts disabled")
    followed = loads(HEADER + "extender: {schedulerConfig: /etc/scheduler.yaml}")
    assert "filters-disabled" not in [each.trap for each in found(file, followed)], "plans go by this file then"


_REQUIRED: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
_SPREAD: dict[str, Any] = {"maxSkew": 1, "topologyKey": "zone"}


@pytest.mark.parametrize(
    ("plugin", "args", "differs"),
    [
        ("NodeResourcesFit", {"ignoredResources": ["example.com/a"]}, True),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["nvidia.com"]}, True),
        ("NodeResourcesFit", {"ignoredResources": []}, False),
        ("NodeAffinity", {"addedAffinity": _REQUIRED}, True),
        ("NodeAffinity", {"addedAffinity": {}}, False),
        ("PodTopologySpread", {"defaultConstraints": [{**_SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]}, True),
        ("PodTopologySpread", {"defaultConstraints": [{**_SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]}, False),
        ("NodeAffinity", "none", False),
    ],
)
def test_arguments_that_decide_where_pods_fit_are_named_unless_plans_go_by_the_file(
    plugin: str, args: Any, differs: bool
) -> None:
    file = changed(profiles=[{**CLEAN["profiles"][0], "pluginConfig": [{"name": plugin, "args": args}]}])
    paths = [each.path for each in found(file, Settings()) if each.trap == "filters-differ"]
    at = f"profiles[0].pluginConfig[0].args.{next(iter(args))}" if differs else ""
    assert paths == ([at] if differs else [])
    followed = loads(HEADER + "extender: {schedulerConfig: /etc/scheduler.yaml}")
    assert "filters-differ" not in [each.trap for each in found(file, followed)]


def test_resources_that_another_extender_lets_kube_scheduler_ignore_are_named_unless_plans_go_by_the_file() -> None:
    hami = {**OTHER_EXTENDER, "managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": True}]}
    file = changed(extenders=[hami, *CLEAN["extenders"]])
    advice = ("extenders[0].filterVerb", "not-followed", "advice")
    assert traps(file, Settings()) == [advice, ("extenders[0].managedResources", "filters-differ", "warning")]
    assert traps(file, loads(HEADER + "extender: {schedulerConfig: /etc/scheduler.yaml}")) == [advice]


@pytest.mark.parametrize("ours_at", [0, 1])
def test_scores_of_another_extender_have_no_effect_where_filter_names_one_node(ours_at: int) -> None:
    other = {"urlPrefix": "http://127.0.0.1:9999/other", "prioritizeVerb": "score", "weight": 5}
    extenders = [other]
    extenders.insert(ours_at, *CLEAN["extenders"])
    place = f"extenders[{1 - ours_at}].prioritizeVerb"
    assert traps(changed(extenders=extenders), Settings()) == [(place, "choice-by-default-scores", "warning")]
    assert traps(binding(extenders=[other, *binding()["extenders"]]), BINDS) == []


@pytest.mark.parametrize("version", ["v1beta3", "v1beta2", "v2"])
def test_a_file_of_another_version_is_not_followed(version: str, tmp_path: Path) -> None:
    """kube-scheduler does not start with it, so plans by it would be for another scheduler."""
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(changed(apiVersion=f"kubescheduler.config.k8s.io/{version}")))
    with pytest.raises(UnreadableSettings) as refused:
        load_scheduler_file(str(tmp_path / "s.yaml"))
    (problem,) = refused.value.problems
    assert f"apiVersion: got kubescheduler.config.k8s.io/{version}, which kube-scheduler does not read" in str(problem)


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
def test_filters_that_plans_do_not_know_are_named(point: str) -> None:
    findings = found(
        profile({point: {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}), loads(HEADER + "extender: {bind: true}")
    )
    (finding,) = (each for each in findings if each.trap == "not-followed")
    assert (finding.path, finding.severity) == ("profiles[0].plugins", "advice")
    assert "NodeResourceTopologyMatch" in finding.why


def test_what_of_its_file_a_service_does_not_follow_is_known_at_start(tmp_path: Path) -> None:
    args = {"scoringStrategy": {"type": "Best"}}
    other = {"schedulerName": "other", "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}
    file = tmp_path / "scheduler.yaml"
    scoring = {"urlPrefix": "http://127.0.0.1:9999/other", "prioritizeVerb": "score", "weight": 1}
    extenders = [*CLEAN["extenders"], OTHER_EXTENDER, scoring]
    file.write_text(yaml.safe_dump(changed(profiles=[*CLEAN["profiles"], other], extenders=extenders)))
    unheeded = unfollowed(loads(HEADER + f"extender: {{schedulerConfig: {file}}}"))
    place = "profiles[1].pluginConfig[0].args.scoringStrategy.type"
    scores = ("extenders[2].prioritizeVerb", "choice-by-default-scores")
    assert [(each.path, each.trap) for each in unheeded] == [(place, "scores-not-supported"), UNFOLLOWED[:2], scores]
    assert unfollowed(Settings()) == []


def test_a_filter_that_is_enabled_again_is_there() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "NodePorts"}]}, "filter": {"enabled": [{"name": "NodePorts"}]}}
    assert found(profile(plugins)) == []


@pytest.mark.parametrize("point", ["postFilter", "multiPoint"])
def test_disabled_preemption_is_never_asked(point: str) -> None:
    file = profile({point: {"disabled": [{"name": "DefaultPreemption"}]}})
    assert traps(file) == [("profiles[0].plugins", "preemption-disabled", "warning")]


def test_the_lease_of_the_clusters_own_scheduler_is_advised_against() -> None:
    want = [("leaderElection.resourceName", "shared-lease", "advice")]
    assert traps(changed(leaderElection=REMOVED)) == want
    assert traps(changed(leaderElection={"leaderElect": True})) == want
    assert found(changed(leaderElection={"leaderElect": True, "resourceName": "slackwater"})) == []
    assert found(changed(leaderElection=REMOVED, profiles=[{"schedulerName": "default-scheduler"}])) == []


def test_the_default_request_rate_is_advised_against() -> None:
    assert traps(changed(clientConnection=REMOVED)) == [("clientConnection.qps", "client-qps", "advice")]


def test_unknown_fields_end_the_start() -> None:
    file = changed(x_nodecachecapable=True, x_foo=1, bar={})
    assert traps(file) == [
        (f"{X}.nodecachecapable", "unknown-field", "error"),
        (f"{X}.foo", "unknown-field", "error"),
        ("bar", "unknown-field", "error"),
    ]
    assert found(file)[0].fix == "did you mean nodeCacheCapable?"


def test_values_of_another_type_end_the_start_and_are_reported_once() -> None:
    assert traps(changed(x_weight="1", profiles={}, x_tlsConfig=[])) == [
        ("profiles", "refused-at-start", "error"),
        (f"{X}.weight", "refused-at-start", "error"),
        (f"{X}.tlsConfig", "refused-at-start", "error"),
    ]


def test_null_counts_as_absent() -> None:
    assert found(changed(x_tlsConfig=None, percentageOfNodesToScore=None)) == []


@pytest.mark.parametrize(
    "other",
    [
        # HAMi
        {
            "urlPrefix": "https://127.0.0.1:443",
            "filterVerb": "filter",
            "bindVerb": "bind",
            "managedResources": [{"name": "g/a"}],
        },
        # HAMi with our path: its verbs and its certificate are its own
        {
            "urlPrefix": "https://127.0.0.1:443/scheduler",
            "filterVerb": "filter",
            "bindVerb": "bind",
            "enableHTTPS": True,
            "tlsConfig": {"insecure": True},
            "managedResources": [{"name": "g/a", "ignoredByScheduler": True}],
        },
        # a GPU share's, TopoLVM's, Stork's
        {"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter", "bindVerb": "bind"},
        {"urlPrefix": "http://127.0.0.1:9251", "filterVerb": "predicate", "prioritizeVerb": "prioritize", "weight": 1},
        {"urlPrefix": "http://stork-service.kube-system:8099", "filterVerb": "filter", "prioritizeVerb": "prioritize"},
    ],
)
@pytest.mark.parametrize("settings", [None, Settings()])
def test_the_only_extender_is_not_ours_unless_it_has_our_port_or_our_path_and_verbs(
    other: dict[str, Any], settings: Settings | None
) -> None:
    """What is right for us (no managedResources, our verbs) would break it."""
    reported = found(changed(extenders=[other]), settings)
    assert ("extenders", "no-extender") in [(finding.path, finding.trap) for finding in reported]
    ours = {
        "managed-resources",
        "verb",
        "url-prefix",
        "node-cache",
        "http-timeout",
        "differs-from-config",
        "https-not-verified",
    }
    assert [finding for finding in reported if finding.trap in ours] == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:10297", "http://127.0.0.1:9/scheduler", "ftp://here"])
def test_a_wrong_url_of_ours_is_reported_as_such(url: str) -> None:
    assert "no-extender" not in [finding.trap for finding in found(changed(x_urlPrefix=url), Settings())]
    assert (f"{X}.urlPrefix", "url-prefix") in [(each.path, each.trap) for each in found(changed(x_urlPrefix=url), Settings())]


def test_scores_that_the_choice_does_not_follow_are_reported_without_our_configuration_too() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    packing = changed(profiles=[{"schedulerName": "any", "pluginConfig": [fit]}])
    assert traps(packing) == [("profiles[0]", "choice-by-default-scores", "warning")]
    packing["extenders"][0]["bindVerb"] = "bind"  # kube-scheduler then chooses by its own scores
    assert "choice-by-default-scores" not in [trap for _, trap, _ in traps(packing)]
    del packing["extenders"]
    assert "choice-by-default-scores" not in [trap for _, trap, _ in traps(packing)]
