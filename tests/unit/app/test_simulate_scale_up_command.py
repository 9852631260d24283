"""`slackwater simulate scale-up`: the JSON that docs/simulate.md describes, groups from files, exit codes."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.main import main
from tests.support.configuration import HEAD
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest

READY = [{"type": "Ready", "status": "True"}]


def a_node(name: str, group: str | None = "pool-a", *, cpu: str = "4", **has: str) -> Obj:
    return node_manifest(name, cpu=cpu, labels=node_labels(name, group), has=has, status={"conditions": READY})


def a_pod(name: str, cpu: str = "1", *, asks: Obj | None = None, **spec: Any) -> Obj:
    return pod_manifest(name, cpu=cpu, asks=asks, meta={"labels": {"app": "web"}}, **spec)


def a_group(name: str, cpu: str = "4", *, labels: Obj | None = None, gpus: int = 0, **more: Any) -> Obj:
    capacity = {"cpu": cpu, "memory": "16Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {"name": name, "template": {"metadata": {"labels": labels or {}}, "status": {"capacity": capacity}}, **more}


class Files:
    """A cluster and a configuration, and what the command answers on them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster, self.config, self.capsys = folder / "cluster.json", folder / "config.yaml", capsys

    def write(self, *items: Obj, groups: list[Obj] | None = None, **autoscaler: Any) -> None:
        self.cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        self.config.write_text(yaml.safe_dump({**HEAD, "autoscaler": {**autoscaler, "nodeGroups": groups or []}}))

    def run(self, *more: str, code: int = 0) -> tuple[str, str]:
        argv = ["simulate", "scale-up", "--cluster", str(self.cluster), "--config", str(self.config), *more]
        assert main(argv) == code
        out, err = self.capsys.readouterr()
        return out, err

    def answer(self, *items: Obj, groups: list[Obj] | None = None, options: tuple[str, ...] = (), **autoscaler: Any) -> Obj:
        self.write(*items, groups=groups, **autoscaler)
        out, err = self.run("-o", "json", *options)
        assert err == ""
        found: Obj = json.loads(out)
        assert found["seconds"] > 0
        return found


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def new_nodes(answer: Obj) -> Obj:
    return {group["name"]: group["newNodes"] for group in answer["groups"]}


def test_the_answer_has_the_documented_shape(files: Files) -> None:
    gpu = a_pod("gpu", nodeSelector={"gpu": "yes"})
    pods = [a_pod(f"p{number}", "2") for number in range(5)]
    found = files.answer(a_node("n"), *pods, gpu, groups=[a_group("pool-a")])
    assert found["groups"] == [{"name": "pool-a", "newNodes": 2, "pods": ["shop/p2", "shop/p3", "shop/p4"]}]
    assert found["schedulable"] == [{"pod": "shop/p0", "node": "n"}, {"pod": "shop/p1", "node": "n"}]
    why = {
        "plugin": "NodeAffinity",
        "reasons": ["node(s) didn't match Pod's node affinity/selector"],
        "code": "UnschedulableAndUnresolvable",
    }
    assert found["unhelpable"] == [{"pod": "shop/gpu", "groups": {"pool-a": why}}]


def test_a_group_scales_from_zero_by_its_template(files: Files) -> None:
    assert new_nodes(files.answer(*(a_pod(f"p{n}") for n in range(9)), groups=[a_group("pool-a", "3")])) == {"pool-a": 3}


def test_a_template_that_does_not_count_pods_takes_as_many_as_a_kubelet(files: Files) -> None:
    group = {"name": "pool-a", "template": {"status": {"capacity": {"cpu": "64", "memory": "256Gi"}}}}
    assert new_nodes(files.answer(*(a_pod(f"p{n}", "1m", asks={"memory": "1Mi"}) for n in range(111)), groups=[group])) == {
        "pool-a": 2
    }


def test_real_nodes_say_what_the_kubelet_keeps_and_which_daemon_sets_run(files: Files) -> None:
    running_pods = {**a_pod("daemon", "1", nodeName="n"), "metadata": {"name": "daemon", "namespace": "shop"}}
    running_pods["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    ]
    found = files.answer(
        a_node("n", cpu="3900m"), running_pods, *(a_pod(f"p{n}") for n in range(6)), groups=[a_group("pool-a", "4")]
    )
    assert new_nodes(found) == {"pool-a": 2}


def test_daemon_sets_of_the_file_take_room_on_new_nodes(files: Files) -> None:
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "logs", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}},
    }
    pods = [a_pod(f"p{n}") for n in range(4)]
    assert new_nodes(files.answer(*pods, groups=[a_group("pool-a")])) == {"pool-a": 1}
    found = files.answer(*pods, daemon_set, groups=[a_group("pool-a")])
    assert new_nodes(found) == {"pool-a": 2}
    assert "skipped" not in found


def test_without_groups_in_the_configuration_labels_name_them(files: Files) -> None:
    assert new_nodes(files.answer(a_node("n"), *(a_pod(f"p{n}", "4") for n in range(3)))) == {"pool-a": 2}
    files.write(a_node("n", None), a_pod("p", "8"))
    assert "got no node group" in files.run("-o", "json", code=2)[1]


def test_nodes_of_a_group_count_for_its_maximum(files: Files) -> None:
    found = files.answer(
        a_node("n", cpu="1"), *(a_pod(f"p{n}", "1") for n in range(9)), groups=[a_group("pool-a", "1", maxSize=3)]
    )
    assert new_nodes(found) == {"pool-a": 2}
    why = found["unhelpable"][0]["groups"]["pool-a"]
    assert why == {"plugin": "Slackwater", "reasons": ["max node group size reached"], "code": "Unschedulable"}


def test_a_node_that_waits_for_its_gpu_is_upcoming(files: Files) -> None:
    pods = [a_pod(f"p{n}", asks={"nvidia.com/gpu": "1"}) for n in range(3)]
    found = files.answer(a_node("n"), *pods, groups=[a_group("pool-a", gpus=2)])
    assert (new_nodes(found), len(found["schedulable"])) == ({"pool-a": 1}, 2)


def test_a_group_that_is_switched_off_says_so(files: Files) -> None:
    found = files.answer(a_pod("p"), groups=[a_group("pool-a", enabled=False)])
    assert found["unhelpable"][0]["groups"]["pool-a"]["reasons"] == ["the group is switched off"]


def test_the_whole_plan_is_shown_before_the_cap_on_nodes_in_creation(files: Files) -> None:
    groups = [a_group("pool-a", maxNodesInCreation=1)]
    found = files.answer(*(a_pod(f"p{n}", "4") for n in range(7)), groups=groups, maxNodesInCreation=2)
    assert new_nodes(found) == {"pool-a": 7}


def test_the_cap_on_one_scale_up_holds_and_zero_lifts_it(files: Files) -> None:
    pods = [a_pod(f"p{n}", "4") for n in range(7)]
    assert new_nodes(files.answer(*pods, groups=[a_group("pool-a")], maxNodesPerScaleUp=5)) == {"pool-a": 5}
    free = files.answer(*pods, groups=[a_group("pool-a")], maxNodesPerScaleUp=0, maxPlanningTime="0s")
    assert new_nodes(free) == {"pool-a": 7}


def test_pods_that_do_not_count_are_named_with_the_reason(files: Files) -> None:
    gated = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    found = files.answer(gated, a_pod("cheap", priority=-100), a_pod("p"), groups=[a_group("pool-a")])
    assert found["notCounted"] == [
        {"pod": "shop/gated", "reason": "gated: example.com/wait"},
        {"pod": "shop/cheap", "reason": "expendable: its priority -100 is below -10"},
    ]
    assert found["groups"][0]["pods"] == ["shop/p"]


def test_expendable_pods_that_run_give_way(files: Files) -> None:
    running = a_pod("cheap", "4", nodeName="n", priority=-100)
    found = files.answer(a_node("n"), running, a_pod("p", "4"), groups=[a_group("pool-a")])
    assert found["schedulable"] == [{"pod": "shop/p", "node": "n"}]


def test_pods_beyond_the_cap_are_named(files: Files) -> None:
    pods = [a_pod("low"), a_pod("high", priority=5)]
    found = files.answer(*pods, groups=[a_group("pool-a")], scaleUp={"maxPods": 1})
    assert (found["groups"][0]["pods"], found["notLookedAt"]) == (["shop/high"], ["shop/low"])


def test_quotas_and_limits_of_the_configuration_hold(files: Files) -> None:
    pods = [a_pod(f"p{n}", "4") for n in range(5)]
    found = files.answer(*pods, groups=[a_group("pool-a")], scaleUp={"limits": {"cpu": "10"}})
    assert new_nodes(found) == {"pool-a": 2}
    quota = {"name": "q", "nodeLabels": {"slackwater.dev/node-group": "pool-a"}, "limits": {"nodes": 3}}
    assert new_nodes(files.answer(*pods, groups=[a_group("pool-a")], scaleUp={"quotas": [quota]})) == {"pool-a": 3}


def a_config_map(text: str) -> Obj:
    meta = {"name": "cluster-autoscaler-priority-expander", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"priorities": text}}


def test_the_priority_expander_reads_cluster_autoscalers_config_map(files: Files) -> None:
    groups = [a_group("on-demand"), a_group("spot")]
    found = files.answer(a_pod("p"), a_config_map("1: [.*]\n10: [spot]"), groups=groups, expanders=["priority"])
    assert new_nodes(found) == {"on-demand": 0, "spot": 1}
    for text, want in (("{", "is no YAML"), (None, "no ConfigMap")):
        maps = [] if text is None else [a_config_map(text)]
        assert want in files.answer(a_pod("p"), *maps, groups=groups, expanders=["priority"])["skipped"][-1]


def test_our_own_rules_are_added_on_request(files: Files) -> None:
    bare = a_pod("bare")
    bare["spec"]["containers"][0]["resources"] = {}
    assert new_nodes(files.answer(bare, groups=[a_group("pool-a")])) == {"pool-a": 1}
    found = files.answer(bare, groups=[a_group("pool-a")], options=("--accounting",))
    assert found["unhelpable"][0]["groups"]["pool-a"]["plugin"] == "Slackwater"


def test_the_table_is_for_people(files: Files) -> None:
    files.write(a_pod("p", "4"), a_pod("large", "9"), a_pod("cheap", priority=-100), groups=[a_group("pool-a")])
    out, _ = files.run("-o", "table")
    assert out.splitlines() == [
        "GROUP   NEW NODES  PODS",
        "pool-a          1     1",
        "nodes: 1 new; pods: 1 get a new node, 0 fit already, 1 cannot be helped",
        "",
        "CANNOT BE HELPED  GROUP   WHY NOT",
        "shop/large        pool-a  Insufficient cpu",
        "not counted: 1 pod: expendable",
        "not judged: the room that DaemonSets take on new nodes of groups without a node: no DaemonSet in the file",
    ]


def test_bad_input_ends_with_2_and_says_what(files: Files) -> None:
    files.write(a_pod("p"), groups=[a_group("pool-a", minSize=9, maxSize=1)])
    out, err = files.run(code=2)
    assert (out, "autoscaler.nodeGroups[0].minSize" in err) == ("", True)
    files.write(a_pod("p"), groups=[])
    files.cluster.write_text('{"kind": "List", "items": [{"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": 7}]}')
    out, err = files.run(code=2)
    assert (out, "items[0].spec (DaemonSet default/d)" in err) == ("", True)
    assert main(["simulate", "scale-up", "--cluster", "-", "--config", "-"]) == 2
    assert main(["simulate", "scale-up", "--cluster", "/nowhere/cluster.json"]) == 2


def test_a_file_may_come_from_stdin(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"kind": "List", "items": [a_node("n"), a_pod("p")]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["simulate", "scale-up", "--cluster", "-", "-o", "json"]) == 0
    assert json.loads(files.capsys.readouterr().out)["schedulable"] == [{"pod": "shop/p", "node": "n"}]


SLACK: Obj = {"extraCapacity": {"minRate": 0.5, "sizing": "v1", "granularity": 2}}


def test_placeholders_are_shown_as_pods_where_they_fit_and_where_nodes_would_be_added(files: Files) -> None:
    nodes = [a_node("n0"), a_node("n1")]
    pods = [a_pod("p0", "3", nodeName="n0"), a_pod("p1", "1", nodeName="n1")]
    answer = files.answer(*nodes, *pods, groups=[a_group("pool-a")], slack=SLACK)
    assert answer["schedulable"] == [{"pod": "slack/0", "node": "n1"}]
    assert [(group["name"], group["newNodes"], group["pods"]) for group in answer["groups"]] == [("pool-a", 1, ["slack/1"])]


def test_a_marked_pod_of_the_file_gets_placeholders_like_it(files: Files) -> None:
    marked = a_pod("p0", "3", nodeName="n0")
    marked["metadata"]["annotations"] = {"slackwater.dev/slack": "2"}
    answer = files.answer(a_node("n0"), marked, groups=[a_group("pool-a")])
    assert answer["groups"] == [{"name": "pool-a", "newNodes": 2, "pods": ["slack/0", "slack/1"]}]


def test_pods_come_before_placeholders_and_without_the_gate_there_are_none(files: Files) -> None:
    group = a_group("pool-a", maxSize=2)
    answer = files.answer(a_node("n0"), a_pod("p0", "4"), a_pod("p1", "4"), groups=[group], slack=SLACK)
    assert [entry["pod"] for entry in answer["schedulable"]] == ["shop/p0"]
    assert (answer["groups"][0]["newNodes"], answer["groups"][0]["pods"]) == (1, ["shop/p1"])
    assert [entry["pod"] for entry in answer["unhelpable"]] == ["slack/0"]
    config = yaml.safe_load(files.config.read_text())
    files.config.write_text(yaml.safe_dump({**config, "featureGates": {"ResourceSlack": False}}))
    assert "slack/" not in files.run("-o", "json")[0]


def test_one_odd_node_changes_nothing_for_its_group(files: Files) -> None:
    """It has another label value and a device that somebody installed: no other node waits for that, and no new one has it."""
    nodes = [a_node(f"n{number:02}", **({"x.io/fpga": "1"} if not number else {})) for number in range(20)]
    nodes[0]["metadata"]["labels"]["tier"] = "old"
    for node in nodes[1:]:
        node["metadata"]["labels"]["tier"] = "new"
    full = [a_pod(f"on-{number}", "4", nodeName=f"n{number:02}") for number in range(20)]
    pending = [a_pod(f"p{number}", "4", nodeSelector={"tier": "new"}) for number in range(5)]
    found = files.answer(*nodes, *full, *pending, a_pod("old", nodeSelector={"tier": "old"}), groups=[a_group("pool-a")])
    assert [group["newNodes"] for group in found["groups"]] == [5]
    assert [left["pod"] for left in found["unhelpable"]] == ["shop/old"]


def test_a_node_in_use_is_not_upcoming_though_it_lacks_a_device_of_its_group(files: Files) -> None:
    nodes = [a_node(f"n{number}", **({"x.io/fpga": "1"} if number > 1 else {})) for number in range(5)]
    full = [a_pod(f"on-{number}", "4", nodeName=f"n{number}") for number in range(5)]
    found = files.answer(*nodes, *full, a_pod("p0", "4"), groups=[{"name": "pool-a"}])
    assert [group["newNodes"] for group in found["groups"]] == [1]


def test_a_new_node_has_the_labels_that_every_kubelet_sets(files: Files) -> None:
    wanted = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    found = files.answer(a_pod("p0", nodeSelector=wanted), groups=[a_group("pool-a")])
    assert [group["newNodes"] for group in found["groups"]] == [1]


def test_the_storage_of_a_node_to_come_is_what_is_published_for_template_nodes(files: Files) -> None:
    """As for Cluster Autoscaler: by the label cluster-autoscaler.kubernetes.io/template-node, which no present node has."""

    def storage(kind: str, name: str, **more: Any) -> Obj:
        meta = (
            {"name": name, "namespace": "shop"} if kind in {"PersistentVolumeClaim", "CSIStorageCapacity"} else {"name": name}
        )
        return {"kind": kind, "metadata": meta, **more}

    def capacity(name: str, amount: str, **labels: str) -> Obj:
        return storage(
            "CSIStorageCapacity", name, storageClassName="local", nodeTopology={"matchLabels": labels}, capacity=amount
        )

    claim = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Gi"}}}
    items = [
        a_node("n0"),
        storage("StorageClass", "local", provisioner="csi.x", volumeBindingMode="WaitForFirstConsumer"),
        storage("CSIDriver", "csi.x", spec={"storageCapacity": True}),
        storage("PersistentVolumeClaim", "data", spec=claim, status={"phase": "Pending"}),
        capacity("n0", "1Gi", **{"kubernetes.io/hostname": "n0"}),
        a_pod("p0", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]
    template = {"cluster-autoscaler.kubernetes.io/template-node": "true"}
    for more, nodes in ((), 0), ((capacity("t", "10Gi", **template),), 0), ((capacity("t", "99Gi", **template),), 1):
        found = files.answer(*items, *more, groups=[a_group("pool-a")])
        assert [group["newNodes"] for group in found["groups"]] == [nodes], more


def test_the_answer_says_its_steps_and_which_limit_cut_it_off(files: Files) -> None:
    pods, groups = [a_pod(f"p{number}", "2") for number in range(5)], [a_group("pool-a")]
    whole = files.answer(a_node("n"), *pods, groups=groups)["planning"]
    assert whole == {"steps": whole["steps"], "cutBy": None}
    assert 0 < whole["steps"] < 100
    assert "cut off" not in files.run("-o", "table")[0]
    found = files.answer(a_node("n"), *pods, groups=groups, maxPlanningTime="1ns")
    assert found["planning"]["cutBy"] == "maxPlanningTime"
    assert {reason for pod in found["unhelpable"] for why in pod["groups"].values() for reason in why["reasons"]} == {
        "planning took too long: the next one goes on"
    }
    assert "cut off by the limit maxPlanningTime after" in files.run("-o", "table")[0]
