"""What simulate and explain say of a cluster agrees: with one another, with the plan, and with the configuration of a dump."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.settings import Settings, as_file
from slackwater.cli.main import main
from slackwater.model.events import NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.runtime import dump
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import a_node, a_pod
from tests.support.configuration import HEAD
from tests.support.manifests import GROUP, Obj, node_labels, node_manifest, owned_by, pod_manifest

NOW = Instant(0.0)
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def cluster_of(*items: Obj) -> Cluster:
    return read_cluster({"apiVersion": "v1", "kind": "List", "items": list(items)})


def kept(cluster: Cluster) -> dict[str, str]:
    return {one["node"]: one["detail"] for one in json_of(scale_down_answer(cluster, Settings()))["kept"]}


def state_of(cluster: Cluster, node: str) -> tuple[str, list[str]]:
    document = json_of(explain_offline(cluster, Settings(), "node", "", node))
    return document["state"], [reason["code"] for reason in document["reasons"]]


# --- without groups -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "marked",
    [
        {"labels": {_CONTROL_PLANE: ""}},
        {"labels": {"node-role.kubernetes.io/master": "true"}},
        {"labels": {"node-role.kubernetes.io/etcd": "true"}},
        {"taints": [{"key": _CONTROL_PLANE, "effect": "NoSchedule"}]},
    ],
)
def test_without_groups_nodes_of_the_control_plane_stay_and_explain_agrees(marked: dict[str, Any]) -> None:
    labels = {**node_labels("cp"), **marked.pop("labels", {})}
    nodes = [node_manifest("cp", labels=labels, **marked), node_manifest("w0"), node_manifest("w1")]
    cluster = cluster_of(*nodes)
    assert kept(cluster) == {"cp": "a control plane's node, in no node group"}
    assert state_of(cluster, "cp") == ("needed", ["NotAutoscaled"])
    assert [state_of(cluster, name) for name in ("w0", "w1")] == [("removable", ["removable"])] * 2


def test_a_group_label_decides_whatever_a_nodes_role_is() -> None:
    labels = {**node_labels("cp", "pool"), _CONTROL_PLANE: ""}
    cluster = cluster_of(node_manifest("cp", labels=labels), node_manifest("w0"))
    assert kept(cluster) == {"w0": "the node belongs to no node group"}
    assert [state_of(cluster, name)[0] for name in ("cp", "w0")] == ["removable", "needed"]


# --- budgets --------------------------------------------------------------------------------------------------------------


def test_a_node_that_waits_for_a_budget_which_the_plan_uses_differs_from_one_that_no_budget_lets_go() -> None:
    def running(name: str, on: str, app: str) -> Obj:
        return pod_manifest(name, on=on, meta={"labels": {"app": app}, **owned_by("web")})

    def a_budget(app: str, allowed: int) -> Obj:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": app, "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }

    nodes = [node_manifest(name) for name in ("n1", "n2", "n3")] + [node_manifest("big", cpu="64")]
    busy = pod_manifest("busy", on="big", cpu="40")
    pods = [running("a", "n1", "web"), running("b", "n2", "web"), running("c", "n3", "db"), busy]
    cluster = cluster_of(*nodes, *pods, a_budget("web", 1), a_budget("db", 0))
    found = kept(cluster)
    assert found["n3"] == "a PodDisruptionBudget of the pod allows no disruption now"
    assert found["n2"] == "the nodes that go before it use what the pod's budget allows: it can go after them"
    assert [state_of(cluster, name)[0] for name in ("n2", "n3")] == ["removable", "needed"]


# --- dumps ----------------------------------------------------------------------------------------------------------------


def a_dump(folder: Path, configuration: Obj | None) -> str:
    """The dump of a service: a full node of group `pool`, and a pod that waits."""
    state_machine = StateMachine(installed.POLICY)
    state_machine.apply(Synced(), NOW)
    node = structs.replace(a_node("n1", labels={GROUP: "pool"}), scalars=(("pods", 110),))
    for event in (NodeSeen(node), PodSeen(a_pod("full", on="n1", cpu="4")), PodSeen(a_pod("waits", cpu="2"))):
        state_machine.apply(event, NOW)
    document = json_of(dump.state_of(dump.Dump(state_machine, NOW)))
    path = folder / "dump.json"
    path.write_text(json.dumps({**document, **({} if configuration is None else {"configuration": configuration})}))
    return str(path)


def configured(most: int, **more: Any) -> Obj:
    groups = [{"name": "pool", "max_size": most}]
    return as_file(Settings.model_validate({"autoscaler": {"enabled": True, "node_groups": groups}, **more}))


def grown(capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    assert main(["simulate", "scale-up", "-o", "json", "--cluster", *arguments]) == 0
    return sum(group["newNodes"] for group in json.loads(capsys.readouterr().out)["groups"])


def test_a_dump_is_simulated_with_its_own_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grown(capsys, a_dump(tmp_path, configured(5))) == 1
    at_most_one = a_dump(tmp_path, configured(1))
    assert grown(capsys, at_most_one) == 0
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(configured(9)))
    assert grown(capsys, at_most_one, "--config", str(config)) == 1
    assert main(["explain", "group", "pool", "--cluster", at_most_one]) == 0
    assert "raise max of group pool from 1 to 2" in capsys.readouterr().out
    assert grown(capsys, a_dump(tmp_path, None)) == 1


def test_a_profile_that_a_dump_names_is_not_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_dump(tmp_path, configured(5, extender={"scheduler_config": "/nowhere/scheduler.yaml"}))
    assert main(["simulate", "scale-up", "-o", "json", "--cluster", path]) == 0
    said = capsys.readouterr().err
    assert said == "/nowhere/scheduler.yaml is not here: pods are judged by kube-scheduler's default profile\n"


def test_a_configuration_of_a_dump_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_dump(tmp_path, {"apiVersion": "config.slackwater.dev/v0", "kind": "SlackwaterConfiguration"})
    assert main(["simulate", "scale-up", "--cluster", path]) == 2
    assert "want a configuration with --config F (in Python config=F) instead" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["json", "table"])
def test_without_a_group_scale_up_exits_with_2_in_either_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [node_manifest("n1"), pod_manifest("waits", cpu="9")]}))
    assert main(["simulate", "scale-up", "--cluster", str(path), "-o", output]) == 2
    out, err = capsys.readouterr()
    assert (out, "got no node group" in err) == ("", True)


def test_a_scheduler_config_beside_the_configuration_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["x.io/a"]}}
    (tmp_path / "scheduler.yaml").write_text(
        yaml.safe_dump({**scheduler, "profiles": [{"schedulerName": "mine", "pluginConfig": [fit]}]})
    )
    config, path = tmp_path / "config.yaml", tmp_path / "cluster.json"
    config.write_text(yaml.safe_dump({**HEAD, "schedulerName": "mine", "extender": {"schedulerConfig": "scheduler.yaml"}}))
    waits = pod_manifest("waits", asks={"x.io/a": "1"}, schedulerName="mine")
    path.write_text(json.dumps({"kind": "List", "items": [node_manifest("n1"), waits]}))
    assert main(["simulate", "placement", "-o", "json", "--cluster", str(path), "--config", str(config)]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] == ["n1"]
