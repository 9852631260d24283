"""Groups whose nodes differ are planned as their variants: what a file shows of them, and who chooses."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.configuration import HEAD

Json = dict[str, Any]
Plan = Callable[..., Json]
ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def a_node(name: str, cpu: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, cpu: str, on: str = "", **spec: Any) -> Json:
    where = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": name.partition("-")[0]}},
        "spec": {**where, **spec, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running" if on else "Pending"},
    }


def spread() -> list[Json]:
    when = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, **when}
    return [a_pod(f"w-{number}", "3", topologySpreadConstraints=[rule]) for number in range(6)]


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    def plan(items: Sequence[Json], autoscaler: Json | None = None) -> Json:
        cluster, config = tmp_path / "cluster.json", tmp_path / "config.json"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        config.write_text(json.dumps({**HEAD, "autoscaler": autoscaler or {}}))
        assert main(["simulate", "scale-up", "-o", "json", "--cluster", str(cluster), "--config", str(config)]) == 0
        found: Json = json.loads(capsys.readouterr().out)
        return found

    return plan


def the_group(answer: Json) -> tuple[int, dict[str, int]]:
    (group,) = answer["groups"]
    return group["newNodes"], group.get("variants", {})


@pytest.mark.parametrize("label", ["cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool"])
def test_a_pool_of_three_zones_helps_pods_that_are_spread_over_them(label: str, planned: Plan) -> None:
    nodes = [a_node(f"n-{zone}", "4", **{label: "pool", ZONE: zone}) for zone in "abc"]
    busy = [a_pod(f"busy-{zone}", "3800m", on=f"n-{zone}") for zone in "abc"]
    new, variants = the_group(planned([*nodes, *busy, *spread()]))
    assert (new, sorted(variants.values())) == (6, [2, 2, 2])


def test_karpenter_chooses_the_type_that_the_pod_needs(planned: Plan) -> None:
    nodes = [a_node(f"n-{cpu}", cpu, **{"karpenter.sh/nodepool": "np", ZONE: "z", TYPE: f"m.{cpu}"}) for cpu in ("2", "16")]
    busy = [a_pod("busy-2", "1900m", on="n-2"), a_pod("busy-16", "15", on="n-16")]
    answer = planned([*nodes, *busy, a_pod("big-0", "12"), a_pod("huge-0", "40")])
    assert the_group(answer) == (1, {"np (z, m.16, on-demand)": 1})
    assert [each["pod"] for each in answer["unhelpable"]] == ["shop/huge-0"]


def test_where_the_cloud_chooses_the_type_a_plan_holds_for_every_type(planned: Plan) -> None:
    nodes = [
        a_node(f"n-{cpu}", cpu, **{"eks.amazonaws.com/nodegroup": "ng", ZONE: "z", TYPE: f"m.{cpu}"})
        for cpu in ("4", "16", "16")
    ]
    nodes[2]["metadata"]["name"] = "n-third"
    full = [
        a_pod(f"busy-{number}", node["status"]["allocatable"]["cpu"], on=node["metadata"]["name"])
        for number, node in enumerate(nodes)
    ]
    answer = planned([*nodes, *full, a_pod("small-0", "3"), a_pod("big-0", "12")])
    assert (answer["groups"][0]["newNodes"], [each["pod"] for each in answer["unhelpable"]]) == (1, ["shop/big-0"])


def test_the_variants_share_the_limit_of_their_group(planned: Plan) -> None:
    nodes = [a_node(f"n-{zone}", "4", **{"karpenter.sh/nodepool": "pool", ZONE: zone}) for zone in "abc"]
    busy = [a_pod(f"busy-{zone}", "3800m", on=f"n-{zone}") for zone in "abc"]
    pods = [a_pod(f"p-{number}", "3") for number in range(6)]
    answer = planned([*nodes, *busy, *pods], {"nodeGroups": [{"name": "pool", "maxSize": 5}]})
    assert (the_group(answer)[0], len(answer["unhelpable"])) == (2, 4)
    assert {*answer["unhelpable"][0]["groups"]} == {"pool"}
