"""Pods that grow in place need no requests: every part that judges by the rule about missing requests exempts them."""

from dataclasses import replace

import msgspec
import pytest

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.app.offline.cluster import Cluster, read_cluster
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from slackwater.controllers.loop_plans import ScaleUpRules, _demand
from slackwater.model.ids import UnixTime
from slackwater.model.pod_constraints import KindInterner
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import whole_cluster
from tests.support.manifests import Obj, node_labels, node_manifest, owned_by

_CPUS = '"cpus": {"min": "1", "max": "4", "use": "2"}'
_MACHINE = f'{{{_CPUS}, "memorySlots": {{"min": 1, "max": 8, "use": 4}}, "memorySlotSize": "1Gi"}}'
_BOUNDS = '{"min": {"cpu": "1", "mem": "1Gi"}, "max": {"cpu": "4", "mem": "8Gi"}}'
#: What makes a pod one that grows in place, and the requests of its container.
_GROWING: dict[str, tuple[Obj, Obj]] = {
    "machine": ({"vm.neon.tech/resources": _MACHINE}, {}),
    "bounds": ({"slackwater.dev/bounds": _BOUNDS}, {"cpu": "2"}),
}
#: Machines are evicted like other pods, so that what is judged is where they fit.
_SETTINGS = Settings.model_validate(
    {
        "autoscaler": {
            "enabled": True,
            "node_groups": [{"name": "vms", "max_size": 10}],
            "scale_down": {"blocked_by": {"fixed_machines": False}},
        }
    }
)


def a_pod(name: str, how: str | None, *, on: str | None = None) -> Obj:
    annotations, requests = ({}, {"cpu": "1"}) if how is None else _GROWING[how]
    container = {"name": "app", "image": "i", "resources": {"requests": requests}}
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": annotations, **owned_by("web")}
    spec = {"containers": [container], "schedulerName": "slackwater", **({} if on is None else {"nodeName": on})}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    status = {"phase": "Pending", "conditions": [refused]} if on is None else {"phase": "Running"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def cluster_of(*items: Obj) -> Cluster:
    return read_cluster({"apiVersion": "v1", "kind": "List", "items": list(items)})


def a_node(name: str, cpu: str = "4") -> Obj:
    return node_manifest(name, cpu=cpu, labels=node_labels(name, "vms"))


@pytest.mark.parametrize("how", _GROWING)
def test_a_pod_that_grows_without_requests_gets_a_node_and_counts_by_what_it_uses(how: str) -> None:
    full = [a_node("n1"), a_pod("r1", how, on="n1"), a_pod("r2", how, on="n1")]
    answer = json_of(
        scale_up_answer(cluster_of(*full, a_pod("a", how), a_pod("b", how), a_pod("c", how)), _SETTINGS, accounting=True)
    )
    assert [(group["name"], group["newNodes"], len(group["pods"])) for group in answer["groups"]] == [("vms", 2, 3)]
    assert answer["unhelpable"] == []


@pytest.mark.parametrize("how", _GROWING)
def test_a_node_with_a_pod_that_grows_without_requests_can_go(how: str) -> None:
    nodes = [a_node(name, cpu="16") for name in ("n1", "n2")]
    stays = a_pod("stays", None, on="n1")
    stays["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    answer = json_of(scale_down_answer(cluster_of(*nodes, stays, a_pod("mine", how, on="n2")), _SETTINGS, accounting=True))
    assert [(one["node"], one["destinations"]) for one in answer["removable"]] == [("n2", {"shop/mine": "n1"})], answer["kept"]


@pytest.mark.parametrize("how", [*_GROWING, None])
def test_the_service_plans_for_pods_that_grow_and_passes_over_others(how: str | None) -> None:
    decoder = PodDecoder(KindInterner())
    pod = decoder.decode(msgspec.json.encode(a_pod("a", how)))
    replica = SnapshotReplica()
    replica.take(replace(whole_cluster([], [pod]), namespaces={}))
    rules = ScaleUpRules(policy=installed.SCALE_UP, slack=None, strict_for="slackwater")
    demand = _demand(replica, UnixTime(1e9), rules)
    assert [[each.pod.uid for each in demand.passed_over], [each.uid for each in demand.counted]] == (
        [["uid-a"], []] if how is None else [[], ["uid-a"]]
    )
