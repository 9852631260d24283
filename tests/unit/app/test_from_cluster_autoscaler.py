"""`slackwater config from-cluster-autoscaler`: each flag has a verdict, and the file is valid."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.app.converters.cluster_autoscaler import from_cluster_autoscaler, read_value
from slackwater.app.converters.draft import ConversionError, Converted, Finding
from slackwater.app.converters.flags import BY_NAME, FLAGS
from slackwater.app.converters.workloads import manifests
from slackwater.app.settings import Settings, loads
from slackwater.cli.main import main
from slackwater.configuration.values import Section
from slackwater.runtime.autoscaler import loop_record
from tests.support import installed
from tests.support.odd import ODD, changed, places

EXAMPLE: Final = Path("docs/guides/cluster-autoscaler.yaml").absolute()
LISTED: Final = Path(__file__).with_name("cluster_autoscaler_flags.txt")
NS: Final = {"name": "cluster-autoscaler", "namespace": "kube-system"}


def deployment(*words: str, **container: Any) -> dict[str, Any]:
    inner = {"image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", "args": list(words), **container}
    spec = {"containers": [{"image": "pause:3"}, inner]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": NS, "spec": {"template": {"spec": spec}}}


def priorities(text: str, namespace: str = "kube-system") -> dict[str, Any]:
    meta = {"name": "cluster-autoscaler-priority-expander", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"priorities": text}}


def converted(*words: str, more: tuple[dict[str, Any], ...] = (), provider: str = "", **container: Any) -> Converted:
    objects = [deployment(*words, **container), *more]
    return from_cluster_autoscaler(manifests(map(msgspec.json.encode, objects)), provider=provider)


def at(settings: Section, path: str) -> Any:
    """The value of a key, as the file writes it."""
    found: Any = settings.model_dump(mode="json", by_alias=True)
    for key in path.split("."):
        found = found[key]
    return found


def found(result: Converted, flag: str) -> Finding:
    (finding,) = [each for each in result.findings if each.flag == flag]
    return finding


# --- the list of flags ----------------------------------------------------------------------------------------------------


def test_the_table_has_every_flag_of_today_with_its_type_and_default() -> None:
    lines = [line for line in LISTED.read_text().splitlines() if not line.startswith("#")]
    listed = {name: (kind, default) for name, kind, default in (f"{line} ".split(" ")[:3] for line in lines)}
    types = {"bool": "Bool", "int": "Int", "seconds": "Int", "float": "Float64", "duration": "Duration", "text": "String"}
    types |= {"list": "StringArray", "names": "StringSlice"}
    assert {flag.name: (types[flag.kind], flag.default) for flag in FLAGS if flag.current} == listed
    assert len(listed) == 137
    assert len(BY_NAME) == len(FLAGS)


def test_every_flag_has_a_setting_or_a_reason() -> None:
    assert [flag.name for flag in FLAGS if not flag.key and not flag.why] == []


def test_the_numbers_of_reasons_are_those_of_the_code() -> None:
    assert f"pods with a GPU: always {installed.PENDING.gpu_settle_seconds:g} s" in BY_NAME["pod-injection-limit"].why
    unready = f"more than {100 * loop_record._UNREADY_SHARE:g} % and more than {loop_record._FEW_UNREADY} nodes are unready"
    assert unready in BY_NAME["ok-total-unready-count"].why


def test_an_installation_without_a_flag_has_the_defaults_of_cluster_autoscaler() -> None:
    ours = loads(converted().text)
    odd = {"scaleDown.maxDrainParallelism": 1, "scaleUp.balanceSimilarGroups": False, "scaleDown.choice": "list"}
    odd |= {"scaleDown.blockedBy.customControllers": True, "slack.headroom": False, "maxNodesInCreation": 0}
    odd |= {"scaleUp.bypassedSchedulerNames": [], "enabled": True}
    assert {path: at(ours.autoscaler, path) for path in odd} == odd
    for flag in FLAGS:
        if flag.current and flag.key and flag.kind in ("bool", "int", "float") and "limits" not in flag.key:
            want = read_value(flag, flag.default)
            assert at(ours, flag.key) == want, flag.name


# --- the command line -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--scale-down-utilization-threshold=0.7"],
        ["--scale-down-utilization-threshold", "0.7"],
        ["-scale-down-utilization-threshold=0.7"],
        ["--scale_down_utilization_threshold=0.7"],
        ["--scale-down-utilization-threshold=0.2", "--scale-down-utilization-threshold=0.7"],
        ["--scale-down-utilization-threshold=$(SHARE)"],
        ["--scale-down-utilization-threshold=$(NESTED)"],
        ["--scale-down-utilization-threshold=$(MAPPED)"],
        ["--scale-down-utilization-threshold=$(IN_SHARE)"],
    ],
)
def test_a_value_is_read_however_it_is_written(words: list[str]) -> None:
    key = {"configMapKeyRef": {"name": "own", "key": "SHARE"}}
    env = [
        {"name": "SHARE", "value": "0.7"},
        {"name": "NESTED", "value": "$(SHARE)"},
        {"name": "MAPPED", "valueFrom": key},
    ]
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**NS, "name": "own"}, "data": {"SHARE": "0.7"}}
    odd = {**own, "metadata": {"name": "odd"}, "data": {"a": 5}}
    result = converted(*words, env=env, envFrom=[{"prefix": "IN_", "configMapRef": {"name": "own"}}], more=(own, odd))
    assert loads(result.text).autoscaler.scale_down.utilization_threshold == 0.7


@pytest.mark.parametrize("program", ["./cluster-autoscaler", "exec /usr/bin/cluster-autoscaler"])
def test_a_shells_command_is_looked_into(program: str) -> None:
    script = f"mkdir x && {program} --max-nodes-total=9 \\\n --v=2 2>&1 | tee /log"
    result = converted(command=["/bin/sh", "-c", script])
    assert loads(result.text).autoscaler.scale_up.limits == {"nodes": 9 * 10**9}


@pytest.mark.parametrize("options", [["-c"], ["-lc"], ["-euxc"], ["-o", "pipefail", "-c"]])
def test_a_shell_has_its_variables_from_the_environment(options: list[str]) -> None:
    script = "# --nodes=9:9:z\n/cluster-autoscaler --cloud-provider=aws --nodes=$MIN:${MAX}:'$MIN' --expander=\"$HOW\""
    env = [{"name": "MIN", "value": "1"}, {"name": "MAX", "value": "3"}]
    result = from_cluster_autoscaler(
        manifests([msgspec.json.encode(deployment(script, command=["/bin/bash", *options], env=env))])
    )
    (nodes, expander) = result.refused
    assert (nodes.value, nodes.why) == ("1:3:$MIN", "$MIN is for the shell, which is not run; want the value itself")
    assert expander.why == "$HOW is for the shell, which is not run; want the value itself"


@pytest.mark.parametrize(
    "command",
    [
        ["/tini", "--", "/cluster-autoscaler"],
        ["/tini", "/bin/cluster-autoscaler"],
        ["/x/tini", "-s", "--", "./cluster-autoscaler"],
    ],
)
def test_another_program_may_start_it(command: list[str]) -> None:
    result = converted("--scan-interval=30s", "--", "--expander=random", command=command)
    assert loads(result.text).autoscaler.expanders == ("least-waste",)
    assert [each.flag for each in result.findings if "ignored" in each.why] == ["--expander=random"]


def test_a_reference_that_nothing_explains_is_refused() -> None:
    (finding,) = converted("--nodes=1:3:$(WHERE)", "--cluster-name=$(WHERE)", provider="aws").refused
    assert finding.why == "$(WHERE) is in no object of the input; want the value itself"


def test_the_verbosity_may_stand_beside_its_letter() -> None:
    assert found(converted("-v4"), "--v").value == "4"


def test_a_switch_takes_no_value_after_a_blank() -> None:
    result = converted("--scale-down-enabled", "false")
    assert loads(result.text).autoscaler.scale_down.enabled
    assert found(result, "false").verdict == "no-counterpart"


def test_a_value_of_a_secret_is_refused_where_it_counts() -> None:
    secret = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    assert not converted("--cluster-name=$(X)", env=secret).refused
    (finding,) = converted("--scan-interval=$(X)", env=secret).refused
    assert (finding.flag, finding.verdict) == ("--scan-interval", "refused")
    assert "Secret" in finding.why


@pytest.mark.parametrize(
    ("words", "flag", "said"),
    [
        (["--scale-down-unneded-time=3m"], "--scale-down-unneded-time", "did you mean scale-down-unneeded-time?"),
        (["--scan-interval=10"], "--scan-interval", "want a duration such as 10m"),
        (["--scale-down-enabled=yes"], "--scale-down-enabled", "want true or false"),
        (["--profiling=maybe"], "--profiling", "want true or false"),
        (["--max-nodes-total=many"], "--max-nodes-total", "want a whole number"),
        (["--scale-down-utilization-threshold=1.5"], "--scale-down-utilization-threshold", "got 1.5, want >= 0 and <= 1"),
        (["--cores-total=9:1"], "--cores-total", "want min:max with min <= max"),
        (["--nodes=3:1:a"], "--nodes", "want min:max with min <= max"),
        (["--nodes=a"], "--nodes", "want min:max:name"),
        (["--expander=least-wast"], "--expander", "did you mean least-waste?"),
        (["--max-drain-parallelism=0"], "--max-drain-parallelism", "want a whole number >= 1"),
        (["--scan-interval"], "--scan-interval", "want a value"),
        (["--drain-priority-config=1"], "--drain-priority-config", "want priority:seconds"),
        (["--node-group-auto-discovery=asg"], "--node-group-auto-discovery", "want discoverer:key=value"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(words: list[str], flag: str, said: str) -> None:
    result = converted("--max-scale-down-parallelism=3", *words, provider="kwok")
    (finding,) = result.refused
    assert finding.flag == flag
    assert said in finding.why
    assert result.text == ""


def test_all_that_is_wrong_is_named_at_once() -> None:
    flags = [each.flag for each in converted("--scan-interval=x", "--max-nodes-total=x").refused]
    assert sorted(flags) == ["--max-nodes-total", "--scan-interval"]


# --- what flags mean ------------------------------------------------------------------------------------------------------


def test_groups_keep_their_sizes_and_get_names_that_labels_can_have() -> None:
    url = "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/pool-a"
    result = converted("--cloud-provider=gce", f"--nodes=1:7:{url}", "--nodes=0:3:pool-a", provider="clusterapi")
    groups = loads(result.text).autoscaler.node_groups
    assert [(each.name, each.id, each.min_size, each.max_size) for each in groups] == [
        ("pool-a", url, 1, 7),
        ("pool-a-2", "pool-a", 0, 3),
    ]
    assert {each.max_nodes_in_creation for each in groups} == {0}


def test_without_a_provider_for_the_cloud_the_groups_are_named_with_the_reason() -> None:
    result = converted("--cloud-provider=gce", "--nodes=1:7:a", "--node-group-auto-discovery=mig:namePrefix=x,min=0,max=9")
    verdicts = {each.flag: each.verdict for each in result.findings}
    flags = ("--cloud-provider", "--nodes", "--node-group-auto-discovery")
    assert {verdicts[flag] for flag in flags} == {"no-counterpart"}
    assert "install.md#clouds" in found(result, "--nodes").why


def test_auto_scaling_groups_are_found_as_before() -> None:
    key = "k8s.io/cluster-autoscaler"
    discovery = f"--node-group-auto-discovery=asg:tag={key}/enabled,{key}/prod=owned"
    result = converted("--cloud-provider=aws", discovery, "--nodes=1:7:team/a", f"{discovery},x")
    autoscaler = loads(result.text).autoscaler
    assert autoscaler.providers.aws is not None
    assert autoscaler.providers.aws.tags == {f"{key}/enabled": "", f"{key}/prod": "owned"}
    assert [(each.name, each.id, each.provider, each.max_size) for each in autoscaler.node_groups] == [
        ("a", "team/a", "aws", 7)
    ]
    verdicts = [each.verdict for each in result.findings if each.flag == "--node-group-auto-discovery"]
    assert verdicts == ["taken", "no-counterpart"]
    by_name = loads(converted("--cloud-provider=aws", "--nodes=1:7:a").text).autoscaler
    assert (by_name.providers.aws, by_name.node_groups[0].provider) == (None, "aws")


@pytest.mark.parametrize("text", ["asg:name=a", "asg:tag", "asg:tag=a,,b"])
def test_a_bad_selection_of_auto_scaling_groups_is_refused(text: str) -> None:
    (finding, *_) = converted("--cloud-provider=aws", f"--node-group-auto-discovery={text}").refused
    assert "asg:tag=key" in finding.why


def test_cluster_apis_selection_becomes_that_of_the_provider() -> None:
    discovery = "--node-group-auto-discovery=clusterapi:namespace=fleet,clusterName=prod,tier=web"
    result = converted("--cloud-provider=clusterapi", discovery, "--cloud-config=/etc/kube/management")
    section = loads(result.text).autoscaler.providers.clusterapi
    assert section is not None
    assert (section.namespace, section.cluster_name, section.selector) == ("fleet", "prod", {"tier": "web"})
    assert section.kubeconfig == "/etc/kube/management"


def test_the_address_of_an_external_server_comes_from_its_config_map() -> None:
    mount = {"name": "cloud", "mountPath": "/etc/cloud"}
    body = deployment("--cloud-provider=externalgrpc", "--cloud-config=/etc/cloud/conf", volumeMounts=[mount])
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "cloud", "configMap": {"name": "c"}}]
    text = "address: provider.infra:8086\ncacert: /etc/ca.crt\ngrpc_timeout: 9s\n"
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**NS, "name": "c"}, "data": {"conf": text}}
    items = {"apiVersion": "v1", "kind": "List", "items": [body, held]}
    section = loads(from_cluster_autoscaler(manifests([msgspec.json.encode(items)])).text).autoscaler.providers.externalgrpc
    assert section is not None
    assert (str(section.address), section.timeout) == ("provider.infra:8086", 9 * 10**9)


def test_totals_taints_and_priorities_of_drains() -> None:
    result = converted(
        "--cores-total=4:64",
        "--memory-total=16:256",
        "--gpu-total=nvidia-t4:0:8",
        "--startup-taint=a.example/x",
        "--startup-taint-prefix=b.example/",
        "--drain-priority-config=10000:20,0:60",
        "--max-empty-bulk-delete=12",
        "--max-node-provision-time=8m",
    )
    autoscaler = loads(result.text).autoscaler
    assert autoscaler.scale_up.limits == {"cpu": 64 * 10**9, "memory": 256 * 2**30 * 10**9}
    assert at(autoscaler, "scaleDown.minimum")["cpu"] == "4"
    (quota,) = autoscaler.scale_up.quotas
    assert quota.node_labels == {"cloud.google.com/gke-accelerator": "nvidia-t4"}
    assert autoscaler.scale_up.startup_taints[-2:] == ("a.example/x", "b.example/*")
    assert [(each.priority, each.time) for each in autoscaler.scale_down.drain.priority_groups] == [
        (10000, 20 * 10**9),
        (0, 60 * 10**9),
    ]
    assert autoscaler.scale_down.max_scale_down_parallelism == 12
    assert at(autoscaler, "creation.timeout") == "8m0s"


def test_the_priorities_are_read_and_a_bad_one_is_refused() -> None:
    words = ("--expander=priority", "--nodes=0:3:eks/spot", "--cloud-provider=kwok")
    title = "ConfigMap cluster-autoscaler-priority-expander"
    assert "not in the input" in found(converted(*words), title).why
    moved = converted(*words, more=(priorities("10: ['eks/.*']", "default"),))
    said = [each.why for each in moved.findings if each.flag == title]
    assert "copy it to kube-system" in said[0]
    assert "matches eks/spot" in said[1]
    (finding,) = converted(*words, more=(priorities("high: ['.*']"),)).refused
    assert finding.flag == title


def test_an_expander_of_another_process_is_left_out() -> None:
    result = converted("--expander=grpc,priority", "--grpc-expander-url=x:1")
    assert loads(result.text).autoscaler.expanders == ("priority",)


# --- every subset ---------------------------------------------------------------------------------------------------------

_VALUES: Final = {
    "bool": st.sampled_from(["true", "false", "1", "F"]),
    "int": st.integers(1, 1000).map(str),
    "seconds": st.integers(1, 4000).map(str),
    "float": st.floats(0, 1).map(lambda number: f"{number:.3f}"),
    "duration": st.sampled_from(["1s", "90s", "5m", "1h30m", "2.5h"]),
    "text": st.sampled_from(["x", "a-b", "some.name"]),
    "list": st.sampled_from(["example.com/x", "y"]),
    "names": st.sampled_from(["a", "a,b", "default-scheduler"]),
}
_OWN: Final = {
    "expander": st.sampled_from(["random", "priority,least-waste", "price", "grpc", "least-nodes,most-pods"]),
    "cloud-provider": st.sampled_from(["aws", "gce", "azure", "clusterapi", "externalgrpc", "kwok"]),
    "nodes": st.sampled_from(["0:5:a", "1:1:b/c", "3:9:x@y"]),
    "node-group-auto-discovery": st.sampled_from(["asg:tag=a,b", "mig:namePrefix=p,min=0,max=9", "clusterapi:namespace=n,l=v"]),
    "cores-total": st.sampled_from(["0:10", "4:4000"]),
    "memory-total": st.sampled_from(["0:10", "4:4000"]),
    "gpu-total": st.sampled_from(["nvidia-t4:0:5", "a100:1:2"]),
    "drain-priority-config": st.sampled_from(["0:60", "-5:1,10000:20"]),
    "status-config-map-name": st.just("own-status"),
}


@settings(max_examples=40)
@given(st.data())
def test_every_subset_of_flags_with_valid_values_becomes_a_valid_file(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(FLAGS), unique_by=lambda flag: flag.name, max_size=40))
    words = [f"--{flag.name}={data.draw(_OWN.get(flag.name, _VALUES[flag.kind]))}" for flag in chosen]
    provider = data.draw(st.sampled_from(["", "aws", "kwok", "clusterapi"]))
    result = converted(*words, provider=provider)
    assert result.refused == ()
    ours = loads(result.text)
    named = " ".join(each.flag for each in result.findings)
    assert [flag.name for flag in chosen if f"--{flag.name}" not in named] == []
    for flag, word in zip(chosen, words, strict=True):
        if flag.key and flag.kind in ("bool", "int", "float") and "limits" not in flag.key and flag.current:
            assert at(ours, flag.key) == read_value(flag, word.partition("=")[2]), word


# --- where it is ----------------------------------------------------------------------------------------------------------


def test_exactly_one_cluster_autoscaler_is_wanted() -> None:
    other = deployment(image="registry/cluster-proportional-autoscaler:1")
    with pytest.raises(ConversionError, match="got none among 1 objects"):
        from_cluster_autoscaler(manifests([msgspec.json.encode(other)]))
    body = msgspec.json.encode(deployment())
    with pytest.raises(ConversionError, match="got Deployment kube-system/cluster-autoscaler, Deployment"):
        from_cluster_autoscaler(manifests([body, body]))


@pytest.mark.parametrize("image", ["provider-aws/cloud-controller-manager:v1", "quay.io/x/cluster-autoscaler-operator:4.16"])
def test_other_controllers_are_not_taken_for_it(image: str) -> None:
    """They share flags with it, and come with it where a whole cluster is read."""
    words = ("--cloud-provider=aws", "--v=2", "--leader-elect", "--cluster-name=x", "--kubeconfig=/y")
    other = {**deployment(*words, image=image), "metadata": {"name": "other", "namespace": "kube-system"}}
    odd = {**other, "spec": {"template": 7}}
    result = converted("--scan-interval=30s", more=(other, odd))
    assert loads(result.text).autoscaler.scan_interval == 30 * 10**9
    with pytest.raises(ConversionError, match="got none among 1 objects"):
        from_cluster_autoscaler(manifests([msgspec.json.encode(other)]))


def test_what_an_operator_owns_is_read_and_what_a_deployment_owns_is_not() -> None:
    owned = [
        {**deployment(), "metadata": {**NS, "ownerReferences": [{"kind": kind, "name": "default"}]}}
        for kind in ("ClusterAutoscaler", "Deployment")
    ]
    result = from_cluster_autoscaler(manifests(map(msgspec.json.encode, owned)))
    assert result.refused == ()


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_odd_field_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    env = [{"name": "A", "value": "b"}, {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]
    whole = deployment("--nodes=1:2:$(A)", "--cloud-provider=aws", env=env, envFrom=[{"configMapRef": {"name": "m"}}])
    odd = changed(whole, data.draw(st.sampled_from(list(places(whole)))), data.draw(ODD))
    with suppress(ConversionError):
        from_cluster_autoscaler(manifests(map(msgspec.json.encode, [odd, priorities("{}")])))


def test_another_image_is_known_by_its_flags() -> None:
    result = converted("--nodes=0:1:a", "--cloud-provider=kwok", image="example/own:1")
    assert [each.name for each in loads(result.text).autoscaler.node_groups] == ["a"]


@pytest.mark.parametrize("spec", [7, {"template": []}, {"template": {"spec": {"containers": [{"args": [3]}]}}}])
def test_a_broken_object_is_named(spec: Any) -> None:
    broken = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": NS, "spec": spec}
    with pytest.raises(ConversionError, match="Deployment kube-system/cluster-autoscaler: "):
        from_cluster_autoscaler(manifests([msgspec.json.encode(broken)]))


def test_what_comes_from_a_file_cannot_leave_its_comment() -> None:
    result = converted("--cluster-name=a\nautoscaler: {enabled: false}", "--v=\u2028x: y\x85z")
    assert loads(result.text).autoscaler.enabled


# --- the command ----------------------------------------------------------------------------------------------------------


def test_the_example_of_the_guide_becomes_a_valid_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "slackwater.yaml"
    assert main(["config", "from-cluster-autoscaler", str(EXAMPLE), "--provider", "kwok", "--output", str(target)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "without a counterpart: --v=4: a flag of the log" in err
    assert main(["config", "check", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: valid\n"
    assert EXAMPLE.read_text().count("        - --") >= 25
    assert loads(target.read_text()).autoscaler != Settings().autoscaler


def test_bad_input_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.yaml"
    source.write_text(json.dumps(deployment("--scan-intervall=10s")))
    target.write_text("as it was")
    assert main(["config", "from-cluster-autoscaler", str(source), "--output", str(target)]) == 2
    out, err = capsys.readouterr()
    assert (out, target.read_text()) == ("", "as it was")
    assert err.startswith("slackwater: --scan-intervall=10s: got an unknown flag")


def test_the_verdicts_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.json"
    source.write_text(json.dumps(deployment("--scan-interval=10s", "--max-nodes-total=5", "--profiling")))
    assert main(["config", "from-cluster-autoscaler", str(source), "-o", "json"]) == 0
    rows = {row["flag"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["--max-nodes-total"] == {
        "flag": "--max-nodes-total",
        "value": "5",
        "verdict": "taken",
        "setting": "autoscaler.scaleUp.limits.nodes",
        "why": "",
        "given": True,
    }
    assert (rows["--scan-interval"]["verdict"], rows["--profiling"]["verdict"]) == ("same-as-default", "no-counterpart")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.yaml"], "missing.yaml: "),
        ([str(EXAMPLE), "--provider", "gce"], "--provider: got gce, want one of aws, kwok, clusterapi, externalgrpc"),
        ([str(EXAMPLE), "--provider", "externalgrpc"], "want --address HOST:PORT"),
    ],
)
def test_wrong_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "from-cluster-autoscaler", *arguments]) == 2
    assert said in capsys.readouterr().err
