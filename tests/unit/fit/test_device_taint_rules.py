"""DeviceTaintRules: which devices they taint, in which versions they count, and what plans and explanations say of them."""

from typing import Any

import pytest

from slackwater.app.offline import placement_lines
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.growth import planned_growth
from slackwater.app.offline.objects import ClusterError
from slackwater.app.settings import Settings
from slackwater.app.whatif.suppose import suppose
from slackwater.ports.protocols import WhatIfRefused
from tests.support.answers import json_of
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    cluster_of,
    device,
    devices_of,
    gpus,
    node_body,
    pod_body,
    slice_body,
    taint_rule_body,
    template_body,
)


def cluster(*items: Obj, version: str = "1.37", **gates: bool) -> Cluster:
    return cluster_of(*items, version=version, **gates)


def line_of(found: Cluster) -> Obj:
    (line,) = placement_lines(found)
    answer: Obj = json_of(line)
    return answer


def two_nodes(*rules: Obj, claim: Obj | None = None) -> tuple[Obj, ...]:
    """Nodes a and b with two GPUs each, and a pod that asks for one."""
    there = (node_body("a"), node_body("b"), gpus("a", 2), gpus("b", 2), class_body())
    return (*there, claim_body("mine", devices_of(claim or ask(1))), pod_body("p", "mine"), *rules)


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ({}, []),
        ({"driver": DRIVER}, []),
        ({"driver": "other.example.com"}, ["a", "b"]),
        ({"pool": "a"}, ["b"]),
        ({"pool": "a", "driver": "other.example.com"}, ["a", "b"]),
        ({"device": "gpu-0"}, ["a", "b"]),
        ({"device": "gpu-0", "pool": "a"}, ["a", "b"]),
        ({"pool": "no-such-pool"}, ["a", "b"]),
    ],
)
def test_a_rule_taints_the_devices_that_all_its_names_select(selector: dict[str, str], want: list[str]) -> None:
    assert line_of(cluster(*two_nodes(taint_rule_body("r", **selector))))["feasible"] == want


def test_rules_that_select_each_a_device_of_a_pool_leave_none() -> None:
    rules = [taint_rule_body(f"r{at}", pool="b", device=f"gpu-{at}") for at in range(2)]
    assert line_of(cluster(*two_nodes(*rules)))["feasible"] == ["a"]


@pytest.mark.parametrize(("effect", "want"), [("NoSchedule", ["b"]), ("NoExecute", ["b"]), ("None", ["a", "b"])])
def test_a_rule_without_an_effect_keeps_nobody_away(effect: str, want: list[str]) -> None:
    assert line_of(cluster(*two_nodes(taint_rule_body("r", effect, pool="a"))))["feasible"] == want


def test_a_request_may_tolerate_a_rule_and_not_the_other() -> None:
    claim = ask(1, tolerations=[{"key": "sick", "operator": "Exists"}])
    assert line_of(cluster(*two_nodes(taint_rule_body("r"), claim=claim)))["feasible"] == ["a", "b"]
    rules = (taint_rule_body("r"), taint_rule_body("s", key="old", pool="b"))
    assert line_of(cluster(*two_nodes(*rules, claim=claim)))["feasible"] == ["a"]


def test_a_device_has_its_own_taints_beside_those_of_rules() -> None:
    own = slice_body("a", device("gpu-0", taints=[{"key": "old", "effect": "NoSchedule"}]))
    claim = claim_body("mine", devices_of(ask(1, tolerations=[{"key": "sick", "operator": "Exists"}])))
    there = (node_body("a"), own, class_body(), claim, pod_body("p", "mine"), taint_rule_body("r"))
    assert line_of(cluster(*there))["feasible"] == []


@pytest.mark.parametrize(
    ("version", "gates", "counts", "named"),
    [
        ("1.34", {}, False, "DRADeviceTaints"),
        ("1.34", {"DRADeviceTaints": True}, True, ""),
        ("1.35", {"DRADeviceTaints": True}, False, "DRADeviceTaintRules"),
        ("1.35", {"DRADeviceTaints": True, "DRADeviceTaintRules": True}, True, ""),
        ("1.36", {}, False, "DRADeviceTaintRules"),
        ("1.36", {"DRADeviceTaintRules": True}, True, ""),
        ("1.37", {}, True, ""),
        ("1.37", {"DRADeviceTaintRules": False}, False, "DRADeviceTaintRules"),
        ("1.37", {"DRADeviceTaints": False}, False, "DRADeviceTaints"),
    ],
)
def test_rules_count_where_kube_scheduler_reads_them_and_elsewhere_an_answer_says_why_not(
    version: str, gates: dict[str, bool], counts: bool, named: str
) -> None:
    line = line_of(cluster(*two_nodes(taint_rule_body("r", pool="a")), version=version, **gates))
    assert line["feasible"] == (["b"] if counts else ["a", "b"])
    said = [each for each in line.get("skipped", ()) if "taints by rule" in each]
    start = f"DynamicResources (taints by rule): the DeviceTaintRules in the file do not count: in Kubernetes {version}.0 the "
    assert said == ([f"{start}feature gate {named} is off"] if named else [])


@pytest.mark.parametrize(("version", "noted"), [("1.36", False), ("1.37", True)])
def test_a_file_without_rules_is_noted_where_they_would_count(version: str, noted: bool) -> None:
    skipped = line_of(cluster(*two_nodes(), version=version)).get("skipped", ())
    assert ("DynamicResources (taints by rule): no DeviceTaintRule in the file" in skipped) == noted


def test_a_rule_without_a_selector_taints_every_device_before_1_37_and_none_since() -> None:
    rule = taint_rule_body("r")
    del rule["spec"]["deviceSelector"]
    assert line_of(cluster(*two_nodes(rule)))["feasible"] == ["a", "b"]
    assert line_of(cluster(*two_nodes(rule), version="1.36", DRADeviceTaintRules=True))["feasible"] == []


def test_a_rule_that_cannot_be_read_is_named_with_its_place_where_it_counts() -> None:
    broken = taint_rule_body("r") | {"spec": {"taint": {"key": 7}}}
    with pytest.raises(ClusterError, match=r"items\[0\].spec.taint.key \(DeviceTaintRule r\): got int, want str"):
        cluster(broken)
    assert line_of(cluster(*two_nodes(broken), version="1.36"))["feasible"] == ["a", "b"]
    with pytest.raises(ClusterError, match="is there twice"):
        cluster(taint_rule_body("r"), taint_rule_body("r"))


# --- plans ------------------------------------------------------------------------------------------------------------------


def grown(*rules: Obj) -> list[int]:
    """The numbers of nodes to add for two pods that need a GPU each, where the only node has two."""
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    group: dict[str, Any] = {"name": "gpu", "max_size": 20, "template": {"status": {"capacity": capacity}}}
    configured = Settings.model_validate({"autoscaler": {"enabled": True, "node_groups": [group]}})
    pods = [pod_body(f"p{at}", template="template") for at in range(2)]
    there = (node_body("n0", group="gpu"), gpus("n0", 2), class_body(), template_body(devices_of(ask(1))))
    plan = planned_growth(cluster(*there, *pods, *rules), configured, accounting=False).found.plan
    return [found.count for found in plan.scale_ups]


def test_a_node_comes_for_pods_that_a_rule_keeps_off_the_nodes_there_are() -> None:
    assert grown() == []
    assert grown(taint_rule_body("r", pool="n0")) == [1]
    assert grown(taint_rule_body("r", pool="n0", device="gpu-1")) == [1]


def test_no_node_comes_where_the_rule_taints_the_devices_of_new_nodes_too() -> None:
    assert grown(taint_rule_body("r", driver=DRIVER)) == []


def test_of_a_new_node_the_rule_taints_only_the_devices_of_that_name() -> None:
    assert grown(taint_rule_body("r", pool="n0"), taint_rule_body("s", device="gpu-0")) == [2]


def test_an_explanation_names_the_rule() -> None:
    rules = (taint_rule_body("broken-a", pool="a"), taint_rule_body("broken"))
    reported = json_of(explain_offline(cluster(*two_nodes(*rules)), Settings(), "pod", "default", "p"))
    lines = reported["reasons"][0]["objects"]
    why = "a taint is not tolerated by request r0; it is tainted by DeviceTaintRule"
    assert f"device {DRIVER}/a/gpu-0: {why} broken-a, broken" in lines
    assert f"device {DRIVER}/b/gpu-1: {why} broken" in lines


def test_a_question_may_suppose_a_rule_and_learns_whether_it_counts() -> None:
    rule = taint_rule_body("r", pool="a")
    assert line_of(suppose(cluster(*two_nodes()), objects=[rule], remove=[]))["feasible"] == ["b"]
    line = line_of(suppose(cluster(*two_nodes(), version="1.36"), objects=[rule], remove=[]))
    assert line["feasible"] == ["a", "b"]
    assert any("do not count" in each for each in line["skipped"])
    with pytest.raises(WhatIfRefused, match=r"objects\[0\].spec.taint"):
        suppose(cluster(*two_nodes()), objects=[rule | {"spec": {"taint": 1}}], remove=[])
