"""What-if on files keeps the room that CapacityBuffers and annotated controllers ask for, as the service does."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView, cluster_of
from slackwater.app.whatif.suppose import suppose
from slackwater.cli.commands.simulate_common import NOTHING_PENDING
from slackwater.cli.main import main
from slackwater.model.ids import Instant
from slackwater.ports.protocols import WhatIfRefused
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support.manifests import Obj, node_labels, node_manifest, owned_by, pod_manifest

#: Only one of these fits on a node.
_APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "edge"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def in_shop(kind: str, **body: Any) -> Obj:
    return {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "edge", "namespace": "shop", **body.pop("meta", {})},
        **body,
    }


def a_template() -> Obj:
    """As a manifest has it: the request comes from the limit."""
    container = {"name": "app", "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}}
    return {"metadata": {"labels": {"app": "edge"}}, "spec": {"containers": [container], "affinity": _APART}}


def a_deployment(replicas: int, **annotations: str) -> Obj:
    """Paused before it has a ReplicaSet, so that it makes no pods."""
    spec = {"replicas": replicas, "paused": True, "template": a_template()}
    return in_shop("Deployment", spec=spec, meta={"annotations": annotations})


def a_buffer(**spec: Any) -> Obj:
    return in_shop("CapacityBuffer", spec=spec)


_BY_TEMPLATE = a_buffer(podTemplateRef={"name": "edge"}, replicas=3)
_BY_WORKLOAD = a_buffer(scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "edge"}, percentage=75)
_POD_TEMPLATE = in_shop("PodTemplate", template=a_template())


def of(*items: Obj) -> Cluster:
    """The cluster of two nodes, each with a small pod that can move, and these objects."""
    nodes = [node_manifest(f"n{at}", labels=node_labels(f"n{at}", "blue")) for at in range(2)]
    pods = [pod_manifest(f"web-{at}", cpu="100m", on=f"n{at}", meta=owned_by("web", uid="r")) for at in range(2)]
    return read_cluster({"kind": "List", "items": [*nodes, *pods, *items]}, add_missing=True)


@pytest.mark.parametrize(
    ("items", "new_nodes"),
    [
        ((_BY_TEMPLATE, _POD_TEMPLATE), 1),
        ((_BY_WORKLOAD, a_deployment(4)), 1),
        ((a_deployment(0, **{"slackwater.dev/slack": "2"}),), 0),
    ],
)
def test_the_room_is_kept_on_the_nodes_and_on_a_new_one(items: tuple[Obj, ...], new_nodes: int) -> None:
    cluster = of(*items)
    assert [group.new_nodes for group in scale_up_answer(cluster, Settings()).groups] == [new_nodes]
    answer = scale_down_answer(cluster, Settings())
    assert (answer.removable, {each.reason for each in answer.kept}) == ([], {"RoomKeptAsSlack"})
    explanation = explain_offline(cluster, Settings(), "node", "", "n0")
    assert (explanation.state, [reason.code for reason in explanation.reasons]) == ("needed", ["RoomKeptAsSlack"])


def test_a_deployments_annotation_counts_once() -> None:
    """The Deployment controller copies it to each ReplicaSet, old ones too."""
    owner = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "edge", "uid": "d", "controller": True}]
    marked = a_deployment(0, **{"slackwater.dev/slack": "1"})
    copies = [
        {**marked, "kind": "ReplicaSet", "metadata": {**marked["metadata"], "name": f"edge-{at}", "ownerReferences": owner}}
        for at in range(3)
    ]
    placed = scale_up_answer(of(marked, *copies), Settings()).schedulable
    assert [each.pod for each in placed] == ["slack/0"]
    assert len(scale_up_answer(of(*copies), Settings()).schedulable) == 2  # nobody else asks: one on each node


def test_without_them_a_node_may_go_and_is_explained_as_removable() -> None:
    assert len(scale_down_answer(of(), Settings()).removable) == 1
    assert explain_offline(of(), Settings(), "node", "", "n0").state == "removable"


@pytest.mark.parametrize(
    ("items", "new_nodes", "note"),
    [
        (
            (_BY_TEMPLATE, _POD_TEMPLATE, in_shop("ResourceQuota", spec={"hard": {"requests.cpu": "2200m"}})),
            0,
            "buffer shop/edge: room is kept for 2 of 3 pods: ",
        ),
        ((_BY_TEMPLATE,), 0, "buffer shop/edge: Buffer not ready for provisioning: PodTemplate shop/edge: not found"),
        ((a_deployment(1, **{"slackwater.dev/slack": "many"}), _BY_WORKLOAD), 0, "Deployment shop/edge: annotation "),
    ],
)
def test_room_that_is_asked_for_and_not_kept_is_said(items: tuple[Obj, ...], new_nodes: int, note: str) -> None:
    cluster = of(*items)
    grown = scale_up_answer(cluster, Settings())
    assert [group.new_nodes for group in grown.groups] == [new_nodes]
    assert any(each.startswith(note) for each in grown.remarks), grown.remarks
    assert any(each.startswith(note) for each in scale_down_answer(cluster, Settings()).remarks)
    assert any(each.startswith(note) for each in explain_offline(cluster, Settings(), "node", "", "n0").remarks)


def test_a_running_service_answers_with_the_objects_that_it_watches() -> None:
    headroom = of(_BY_TEMPLATE, _POD_TEMPLATE).headroom
    view = GroupRegistryView(group_status={}, headroom=headroom)
    assert cluster_of(SnapshotReplica(), view, Instant(0.0), accounting=False).headroom == headroom


def test_a_file_without_pods_says_so_wherever_pods_count() -> None:
    cluster = read_cluster({"kind": "List", "items": [node_manifest("n0")]})
    for notes in (
        scale_up_answer(cluster, Settings()).skipped,
        scale_down_answer(cluster, Settings()).skipped,
        explain_offline(cluster, Settings(), "node", "", "n0").notes,
    ):
        assert [note for note in notes if note.startswith("pods, so that") and note.endswith("no Pod in the file")]


def test_a_group_that_grows_for_room_kept_as_slack_alone_is_explained_so() -> None:
    explanation = explain_offline(of(_BY_TEMPLATE, _POD_TEMPLATE), Settings(), "group", "", "blue")
    assert (explanation.state, [reason.code for reason in explanation.reasons]) == ("grows", ["grows"])
    assert explanation.facts["slack"]["coming"] == 1
    assert explain_offline(of(), Settings(), "group", "", "blue").state == "idle"
    remarks = explain_offline(of(_BY_TEMPLATE), Settings(), "group", "", "blue").remarks
    assert any("PodTemplate shop/edge: not found" in remark for remark in remarks)


def test_a_buffer_can_be_supposed_and_removed() -> None:
    buffer = {"kind": "CapacityBuffer", "namespace": "shop", "name": "edge"}
    for cluster, objects in ((of(), [_BY_TEMPLATE, _POD_TEMPLATE]), (of(_POD_TEMPLATE), [_BY_TEMPLATE])):
        supposed = suppose(cluster, objects=objects, remove=())
        assert [group.new_nodes for group in scale_up_answer(supposed, Settings()).groups] == [1]
        assert len(scale_down_answer(suppose(supposed, objects=(), remove=[buffer]), Settings()).removable) == 1
    with pytest.raises(WhatIfRefused, match="got CapacityBuffer shop/edge, want one that is there"):
        suppose(of(), objects=(), remove=[buffer])


def a_list(kind: str, *items: Obj) -> Obj:
    return {"kind": f"{kind}List", "apiVersion": "v1", "items": list(items)}


def test_an_empty_list_of_a_kind_says_that_there_is_none() -> None:
    nodes = a_list("Node", node_manifest("n0"), node_manifest("n1"))
    pod = pod_manifest(
        "p", on="n0", meta={"namespace": "kube-system", "ownerReferences": [{"kind": "ReplicaSet", "name": "r"}]}
    )
    known = read_cluster(nodes, a_list("Pod"), a_list("PersistentVolumeClaim"), a_list("PodDisruptionBudget"))
    assert {"Pod", "PersistentVolumeClaim"}.isdisjoint(known.unknown)
    assert (known.budgets, known.storage.claims, known.storage.volumes) == ((), {}, None)
    assert scale_down_answer(known, Settings()).skipped == ()
    assert [note[:5] for note in scale_down_answer(read_cluster(nodes), Settings()).skipped] == ["pods,"]
    assert len(scale_down_answer(read_cluster(nodes, a_list("Pod", pod)), Settings()).skipped) == 1
    assert scale_down_answer(read_cluster(nodes, a_list("Pod", pod), a_list("PodDisruptionBudget")), Settings()).skipped == ()


@pytest.mark.parametrize("output", ["json", "table"])
@pytest.mark.parametrize("sequential", [[], ["--sequential"]])
def test_placement_without_pods_says_that_they_are_unknown(
    output: str, sequential: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*documents: Obj, what: str = "placement", options: Sequence[str] = sequential) -> tuple[str, str]:
        (tmp_path / "cluster.json").write_text("\n".join(map(json.dumps, documents)))
        assert main(["simulate", what, "--cluster", str(tmp_path / "cluster.json"), "-o", output, *options]) == 0
        return capsys.readouterr()

    nodes, said = (
        a_list("Node", node_manifest("n0", labels=node_labels("n0", "blue"))),
        "not judged: pods are unknown: no Pod in the file\n",
    )
    assert answer(nodes) == (("", said) if output == "json" else (said, ""))
    assert answer(nodes, a_list("Pod")) == ("" if output == "json" else f"{NOTHING_PENDING}\n", "")
    if output == "table":
        assert NOTHING_PENDING not in answer(nodes, what="scale-up", options=())[0]
        assert "1 of 1 nodes can go together, if no pod runs on them\n" in answer(nodes, what="scale-down", options=())[0]
        assert "1 of 1 nodes can go together\n" in answer(nodes, a_list("Pod"), what="scale-down", options=())[0]
    with pytest.raises(ClusterError, match="no Pod in the file: pods are unknown"):
        explain_offline(read_cluster(nodes), Settings(), "pod", "shop", "p")
