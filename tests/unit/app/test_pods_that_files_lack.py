"""What-if on files counts the pods that controllers would create and that the file lacks."""

from typing import Any

import msgspec
import pytest

from slackwater.app.offline import missing_pods
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.placement import pending_pods, placement_lines
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from tests.support.manifests import Obj, node_labels, node_manifest, pod_manifest

_SELECTOR = {"matchLabels": {"app": "d"}}


def template(**spec: Any) -> Obj:
    container = {"name": "app", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container], **spec}}


def controller(kind: str, name: str = "d", status: Obj | None = None, meta: Obj | None = None, **spec: Any) -> Obj:
    pods = {"template": template()} | ({} if kind == "Job" else {"selector": _SELECTOR})
    metadata = {"name": name, "namespace": "shop", **(meta or {})}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "spec": {**pods, **spec}, "status": status or {}}


def owned(kind: str, name: str) -> Obj:
    group = {"Job": "batch/v1"}.get(kind, "apps/v1")
    owner = {"apiVersion": group, "kind": kind, "name": name, "uid": name, "controller": True}
    return {"namespace": "shop", "labels": {"app": "d"}, "ownerReferences": [owner]}


def pod(name: str, kind: str = "ReplicaSet", owner: str = "d-1", phase: str = "Running", **meta: Any) -> Obj:
    return pod_manifest(name, cpu="1", on="n0", meta={**owned(kind, owner), **meta}) | {"status": {"phase": phase}}


def replica_set(name: str, replicas: int) -> Obj:
    return controller("ReplicaSet", name, meta=owned("Deployment", "d"), replicas=replicas)


def of(*items: Obj, add_missing: bool = True) -> Cluster:
    nodes = [node_manifest(f"n{at}", labels=node_labels(f"n{at}", "blue")) for at in range(2)]
    return read_cluster({"kind": "List", "items": [*nodes, *items]}, add_missing=add_missing)


def made(*items: Obj) -> list[str]:
    return [key.name for key in of(*items).made]


_GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("items", "names"),
    [
        ([controller("Deployment", replicas=2)], ["d-missing-1", "d-missing-2"]),
        ([controller("Deployment")], ["d-missing-1"]),
        ([controller("Deployment", replicas=0)], []),
        ([controller("Deployment", replicas=2, paused=True)], []),
        # Made once, whatever the ReplicaSets want; a pod of an old one counts.
        ([controller("Deployment", replicas=2), replica_set("d-1", 2), replica_set("d-0", 1)], ["d-missing-1", "d-missing-2"]),
        ([controller("Deployment", replicas=2), replica_set("d-1", 2), replica_set("d-0", 1), pod("a")], ["d-missing-1"]),
        ([controller("Deployment", replicas=2, paused=True), replica_set("d-1", 2)], ["d-missing-1", "d-missing-2"]),
        ([controller("Deployment", replicas=2), replica_set("d-1", 2), pod("a"), pod("b")], []),
        # Without the ReplicaSets, and without ownerReferences, the selector finds them.
        ([controller("Deployment", replicas=3), pod("a"), pod("b", owner="d-0")], ["d-missing-1"]),
        ([controller("Deployment", replicas=2), pod("a", ownerReferences=[])], ["d-missing-1"]),
        (
            [controller("Deployment", replicas=2), controller("Deployment", "d-x"), pod("a", owner="d-x-0")],
            ["d-missing-1", "d-missing-2"],
        ),
        ([controller("Deployment", replicas=2), pod("a", labels={"app": "other"})], ["d-missing-1", "d-missing-2"]),
        # What has ended or is being deleted is made again; a name is used once.
        ([controller("Deployment"), pod("a", phase="Failed"), pod("b", **_GONE)], ["d-missing-1"]),
        ([controller("Deployment", replicas=2), pod("d-missing-1")], ["d-missing-2"]),
        ([controller("Deployment"), controller("Job")], ["d-missing-1", "d-missing-2"]),
        # Of two manifests of one name the last counts.
        ([controller("Deployment", replicas=3), controller("Deployment", replicas=1)], ["d-missing-1"]),
        ([controller("DaemonSet"), controller("DaemonSet")], ["d-missing-n0", "d-missing-n1"]),
        (
            [controller("Deployment", replicas=2), controller("ReplicaSet", "d-1", meta={"labels": {"app": "d"}}, replicas=2)],
            ["d-missing-1", "d-missing-2"],
        ),
        ([replica_set("d-1", 2), pod("a")], ["d-1-missing-1"]),
        ([controller("ReplicationController", selector={"app": "d"}, replicas=1)], ["d-missing-1"]),
        # A StatefulSet by ordinals.
        ([controller("StatefulSet", replicas=3), pod("d-1", "StatefulSet", "d")], ["d-0", "d-2"]),
        ([controller("StatefulSet", replicas=2, ordinals={"start": 5}), pod("d-5", "StatefulSet", "d")], ["d-6"]),
        # A Job: as many at a time as remain.
        ([controller("Job", parallelism=2, completions=5, status={"succeeded": 4})], ["d-missing-1"]),
        ([controller("Job", parallelism=2, completions=5), pod("a", "Job", "d")], ["d-missing-1"]),
        ([controller("Job", parallelism=2)], ["d-missing-1", "d-missing-2"]),
        (
            [controller("Job", "", meta={"generateName": "d-"}), controller("Job", "", meta={"generateName": "d-"})],
            ["d-0-missing-1", "d-1-missing-1"],
        ),
        ([controller("Job", parallelism=2, status={"succeeded": 1})], []),
        ([controller("Job", parallelism=2, completions=5, suspend=True)], []),
        ([controller("Job", parallelism=2, completions=5, managedBy="kueue.x-k8s.io/multikueue")], []),
        ([controller("Job", status={"conditions": [{"type": "Failed", "status": "True"}]})], []),
        ([controller("CronJob", jobTemplate={"spec": {"template": template()}})], []),
        # A DaemonSet on each node that it matches.
        ([controller("DaemonSet")], ["d-missing-n0", "d-missing-n1"]),
        ([controller("DaemonSet"), pod("a", "DaemonSet", "d")], ["d-missing-n1"]),
        ([controller("DaemonSet", template=template(nodeSelector={"kubernetes.io/hostname": "n1"}))], ["d-missing-n1"]),
        (
            [
                controller("DaemonSet"),
                node_manifest("tainted", taints=[{"key": "a", "effect": "NoSchedule"}]),
                node_manifest("cordoned", unschedulable=True),
                pod("a", "DaemonSet", "d"),
            ],
            ["d-missing-n1", "d-missing-cordoned"],
        ),
    ],
)
def test_what_is_missing_is_made(items: list[Obj], names: list[str]) -> None:
    assert made(*items) == names


def test_a_running_cluster_makes_its_pods_itself() -> None:
    assert of(controller("Deployment", replicas=2), controller("DaemonSet"), add_missing=False).made == {}


def test_a_file_with_all_pods_is_what_it_was() -> None:
    items = [controller("Deployment", replicas=1), replica_set("d-1", 1), controller("StatefulSet", "s", replicas=1)]
    pods = [pod("a"), pod("s-0", "StatefulSet", "s")]
    assert of(*items, *pods) == of(*items, *pods, add_missing=False)


def test_answers_say_which_pods_were_added() -> None:
    cluster = of(controller("Deployment", replicas=3, template=template(nodeSelector={"pool": "x"})), controller("DaemonSet"))
    deployment = "Deployment shop/d: 3 of its pods are not in the file, and are added: shop/d-missing-1 to d-missing-3"
    daemons = "DaemonSet shop/d: 2 of its pods are not in the file, and are added: shop/d-missing-n0 to d-missing-n1"
    up = scale_up_answer(cluster, Settings())
    assert ([each.pod for each in up.unhelpable], up.schedulable) == ([f"shop/d-missing-{at}" for at in (1, 2, 3)], [])
    for remarks in (up.remarks, scale_down_answer(cluster, Settings()).remarks, next(placement_lines(cluster)).remarks):
        assert remarks == (deployment, daemons)
    explanation = explain_offline(cluster, Settings(), "pod", "shop", "d-missing-3")
    assert (explanation.state, explanation.remarks[1:]) == ("pending", (deployment,))
    assert explain_offline(cluster, Settings(), "node", "", "n0").remarks[1:] == (deployment, daemons)


def test_the_pods_belong_to_a_replica_set_of_their_deployment() -> None:
    """So drains take them for pods that are made again, and budgets count what the Deployment wants."""
    invented = of(controller("Deployment", replicas=1))
    known = of(controller("Deployment", replicas=3), replica_set("d-1", 2), replica_set("d-0", 1), pod("a"))
    owners = [
        {each.eviction_facts.owner.name for each in pending_pods(cluster) if each.eviction_facts.owner}
        for cluster in (invented, known)
    ]
    assert owners == [{"d-missing"}, {"d-1"}]
    assert [[str(above.name) for _, above in cluster.scales.deployments.values()] for cluster in (invented, known)] == [
        ["d"],
        ["d", "d"],
    ]


def test_a_daemons_pod_without_room_is_pending_for_its_node() -> None:
    """The room is that beside the pods that are there, so a DaemonSet displaces none; the nodes have 4 CPU."""
    big = pod_manifest("big", cpu="3500m", on="n0")
    cluster = of(controller("DaemonSet"), big, pod_manifest("next", cpu="3500m"))
    assert [(each.key.name, each.node) for each in cluster.pods if each.key in cluster.made] == [
        ("d-missing-n0", None),
        ("d-missing-n1", "n1"),
    ]
    lines = {line.pod: msgspec.to_builtins(line)["rejected"] for line in placement_lines(cluster)}
    assert {name: verdict["reasons"] for name, verdict in lines["shop/d-missing-n0"].items()} == {
        "n0": ["Insufficient cpu"],
        "n1": ["node(s) didn't satisfy plugin(s) [NodeAffinity]"],
    }
    assert {name: verdict["reasons"] for name, verdict in lines["shop/next"].items()} == {
        "n0": ["Insufficient cpu"],
        "n1": ["Insufficient cpu"],
    }


def test_a_statefulsets_pod_that_has_ended_gives_way_to_the_next_of_its_name() -> None:
    cluster = of(controller("StatefulSet"), pod("d-0", "StatefulSet", "d", phase="Failed"))
    assert [(each.key.name, each.ended) for each in cluster.pods] == [("d-0", False)]


_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "zonal", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "csi.x",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n1"]}]}],
}
_CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.mark.parametrize(
    "spec",
    [
        {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _CLAIM_SPEC}]},
        {"template": template(volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM_SPEC}}}])},
    ],
)
def test_the_claims_that_come_with_a_pod_are_made_too(spec: Obj) -> None:
    """In the default class, which has storage for one node only."""
    lines = list(placement_lines(of(_CLASS, controller("StatefulSet", replicas=2, **spec))))
    assert [(line.pod, line.feasible) for line in lines] == [("shop/d-0", ["n1"]), ("shop/d-1", ["n1"])]


@pytest.mark.parametrize(
    ("classes", "feasible"), [([], ["n0", "n1"]), ([{"apiVersion": "v1", "kind": "StorageClassList", "items": []}], [])]
)
def test_a_claim_without_a_class_is_not_judged_where_no_class_is_known(classes: list[Obj], feasible: list[str]) -> None:
    """There may be a default class. A list that is empty says that there is none."""
    spec: Obj = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _CLAIM_SPEC}]}
    (line,) = placement_lines(of(*classes, controller("StatefulSet", replicas=1, **spec)))
    assert line.feasible == feasible


def test_a_claim_that_is_there_is_used() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-d-0", "namespace": "shop"},
        "spec": {**_CLAIM_SPEC, "volumeName": "gone"},
    }
    sets = controller("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": _CLAIM_SPEC}], replicas=2)
    lines = list(placement_lines(of(_CLASS, claim, sets)))
    assert [line.feasible for line in lines] == [[], ["n1"]]


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (
            controller("Deployment", replicas=2_000_000_000),
            "items[2] (Deployment shop/d): 2000000000 of its pods are missing, want at most 200000 in all",
        ),
        (
            controller("Job", template={"spec": {"containers": "x"}}),
            "items[2].spec.template.spec.containers (Job shop/d): got str, want array | null",
        ),
        (
            controller("StatefulSet", ordinals={"start": -1}),
            "items[2].spec.ordinals.start (StatefulSet shop/d): Expected `int` >= 0",
        ),
        (
            controller("Job", template={"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": 7}}]}}),
            "items[2].spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate (Job shop/d): got int, want object",
        ),
        (controller("StatefulSet", ordinals=[]), "items[2].spec.ordinals (StatefulSet shop/d): got array, want object"),
    ],
)
def test_what_cannot_be_made_is_named(item: Obj, error: str) -> None:
    with pytest.raises(ClusterError) as err:
        of(item)
    assert str(err.value) == error


@pytest.mark.parametrize("kinds", [("Deployment", "Job"), ("DaemonSet", "DaemonSet")])
def test_the_missing_pods_of_all_controllers_together_are_limited(
    kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_pods, "_MOST", 2)
    made_by = [controller(kind, name, replicas=2, parallelism=2) for kind, name in zip(kinds, "de", strict=True)]
    with pytest.raises(ClusterError, match="2 of its pods are missing after 2 of others, want at most 2 in all"):
        of(*made_by)
