"""Devices in plans: nodes for claims, nodes that go with their pods' claims, and explanations."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from slackwater.adapters.kube.devices import decode_slice
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.explain import explain_offline
from slackwater.app.offline.growth import planned_growth
from slackwater.app.offline.objects import ClusterError
from slackwater.app.offline.scaledown import scale_down_answer
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.template import usual_slices
from slackwater.model.devices import DRA_DRIVER, GPU_COUNT, ResourceSlice, read_template_devices
from tests.support.answers import json_of
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    cluster_of,
    devices_of,
    gpus,
    node_body,
    pod_body,
    slice_body,
    template_body,
)

TWO = template_body(devices_of(ask(2, f'device.attributes["{DRIVER}"].model == "h100"')))


def settings(**template: Any) -> Settings:
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    group = {"name": "gpu", "max_size": 20, "template": {"status": {"capacity": capacity}, **template}}
    return Settings.model_validate({"autoscaler": {"enabled": True, "node_groups": [group]}})


FOUR: Obj = {"driver": DRIVER, "count": 4, "attributes": {"model": "h100"}, "capacity": {"memory": "80Gi"}}
WITH_DEVICES = settings(devices=[FOUR])


def grown(cluster: Cluster, configured: Settings) -> tuple[list[int], int, int]:
    """The numbers of nodes to add, of pods that fit already, and of groups of pods that no new node helps."""
    plan = planned_growth(cluster, configured, accounting=False).found.plan
    return [found.count for found in plan.scale_ups], len(plan.schedulable), len(plan.unhelpable)


def test_a_group_without_nodes_grows_by_the_devices_of_its_template() -> None:
    pods = [pod_body(f"p{at}", template="template") for at in range(7)]
    assert grown(cluster_of(class_body(), TWO, *pods), WITH_DEVICES) == ([4], 0, 0)


def test_a_template_is_copied_from_a_node_with_its_slices() -> None:
    pods = [pod_body(f"p{at}", template="template") for at in range(7)]
    there = (node_body("n0", group="gpu"), gpus("n0", 4))
    assert grown(cluster_of(*there, class_body(), TWO, *pods), settings()) == ([3], 2, 0)


def test_no_new_node_helps_where_none_has_the_devices() -> None:
    pods = [pod_body(f"p{at}", template="template") for at in range(2)]
    assert grown(cluster_of(class_body(), TWO, *pods), settings()) == ([], 0, 2)


def test_a_node_that_has_not_published_its_devices_yet_counts_as_upcoming() -> None:
    pods = [pod_body(f"p{at}", template="template") for at in range(2)]
    cluster = cluster_of(node_body("n0", group="gpu"), class_body(), TWO, *pods)
    assert grown(cluster, WITH_DEVICES) == ([], 2, 0)


def test_extended_resources_that_a_class_backs_bring_nodes_too() -> None:
    pods = [pod_body(f"p{at}", requests={"example.com/gpu": "3"}) for at in range(3)]
    assert grown(cluster_of(class_body(resource="example.com/gpu"), *pods), WITH_DEVICES) == ([3], 0, 0)


def test_the_pods_of_a_node_move_with_new_devices_or_the_node_stays() -> None:
    claim = claim_body("of-p", devices_of(ask(1)), "n0/gpu-0", node="n0", users=["uid-p"])
    pods = (pod_body("p", "of-p", on="n0"), claim, pod_body("keeps", on="n1"))
    nodes = (node_body("n0", group="gpu"), node_body("n1", group="gpu"))
    there = json_of(scale_down_answer(cluster_of(*nodes, gpus("n0", 2), gpus("n1", 1), class_body(), *pods), settings()))
    assert [(each["node"], each["destinations"]) for each in there["removable"]] == [("n0", {"default/p": "n1"})]
    nowhere = json_of(scale_down_answer(cluster_of(*nodes, gpus("n0", 2), class_body(), *pods), settings()))
    assert nowhere["removable"] == []
    (kept,) = (each for each in nowhere["kept"] if each["node"] == "n0")
    assert (kept["reason"], kept["detail"]) == ("NoPlaceToMovePods", "1 cannot allocate all claims")


def test_a_shared_claim_keeps_its_devices_while_one_of_its_pods_stays() -> None:
    claim = claim_body("shared", devices_of(ask(1)), "n0/gpu-0", node="n0", users=["uid-p", "uid-elsewhere"])
    nodes = (node_body("n0", group="gpu"), node_body("n1", group="gpu"))
    pods = (pod_body("p", "shared", on="n0"), claim, pod_body("keeps", on="n1"))
    answer = json_of(scale_down_answer(cluster_of(*nodes, gpus("n0", 2), gpus("n1", 1), class_body(), *pods), settings()))
    (kept,) = (each for each in answer["kept"] if each["node"] == "n0")
    assert (kept["reason"], kept["detail"]) == ("NoPlaceToMovePods", "1 resourceclaim not available on the node")


def test_an_explanation_names_each_device_and_what_would_help() -> None:
    taken = claim_body("theirs", devices_of(ask(1)), "a/gpu-0", node="a", users=["uid-runs"])
    other = slice_body("b", {"name": "gpu-0", "attributes": {"model": {"string": "a100"}}})
    runs, waits = pod_body("runs", "theirs", on="a"), pod_body("waits", template="template")
    cluster = cluster_of(node_body("a"), node_body("b"), gpus("a", 2), other, class_body(), TWO, taken, runs, waits)
    reported = json_of(explain_offline(cluster, settings(), "pod", "default", "waits"))
    assert reported["reasons"][0]["objects"] == [
        f"device {DRIVER}/a/gpu-0: in use by claim default/theirs",
        f"device {DRIVER}/a/gpu-1: free",
        f"device {DRIVER}/b/gpu-0: not selected by request r0",
    ]
    assert "move pod default/runs off node a" in [remedy["change"] for remedy in reported["remedies"]]


def test_an_object_that_cannot_be_read_is_named_with_its_place() -> None:
    with pytest.raises(ClusterError, match=r"items\[0\].spec.driver \(ResourceSlice slice-of-a\): got int, want str"):
        cluster_of(gpus("a", 1) | {"spec": {"driver": 1, "pool": {"name": "a"}}})
    with pytest.raises(ClusterError, match="is there twice"):
        cluster_of(gpus("a", 1), gpus("a", 1))


def test_cluster_autoscalers_annotations_state_the_devices_of_a_template() -> None:
    (one,) = read_template_devices({DRA_DRIVER: DRIVER, GPU_COUNT: "2"})
    assert [each.name for each in one.devices] == ["gpu-0", "gpu-1"]
    assert one.devices[0].attributes == (("type", "gpu"),)
    assert read_template_devices({GPU_COUNT: "2"}) == read_template_devices({DRA_DRIVER: DRIVER, GPU_COUNT: "0"}) == ()
    with pytest.raises(ValueError, match="want a whole number from 0 to 128"):
        read_template_devices({DRA_DRIVER: DRIVER, GPU_COUNT: "many"})


@pytest.mark.parametrize(
    "change", [{"count": 0}, {"count": 129}, {"attributes": {"model": 1.5}}, {"capacity": {"memory": "much"}}]
)
def test_settings_refuse_devices_that_no_slice_could_have(change: Obj) -> None:
    with pytest.raises(ValidationError):
        settings(devices=[FOUR | change])


def test_most_nodes_of_a_group_say_which_devices_a_new_one_has() -> None:
    def of(name: str, count: int, **pool: Any) -> list[ResourceSlice]:
        body = gpus(name, count)
        body["spec"]["pool"] |= pool
        return [decode_slice(json.dumps(body).encode())]

    usual = usual_slices([of("a", 4), of("b", 8), of("c", 4)])
    assert [(one.pool, len(one.devices)) for one in usual] == [("", 4)]
    assert [len(one.devices) for one in usual_slices([of("a", 8), of("b", 4)])] == [4]
    assert usual_slices([of("a", 4, resourceSliceCount=2)]) == ()
