"""How full a node with devices is: only its devices count, as in Cluster Autoscaler."""

from typing import Any

import numpy as np
import pytest

from slackwater.app.offline.placement import snapshot_of
from slackwater.controllers.scaledown.utilization import Utilization, utilizations
from slackwater.model.ids import NodeName
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    cluster_of,
    device,
    devices_of,
    gpus,
    node_body,
    pod_body,
    slice_body,
)

POOL = f"{DRIVER}/n"


def used(*items: Obj, node: Obj | None = None, cpu: str = "1") -> Utilization:
    """The utilization of node n, whose one pod requests so much of its 8 CPU."""
    pod = pod_body("p", on="n", requests={"cpu": cpu})
    snapshot = snapshot_of(cluster_of(node or node_body("n"), node_body("other"), pod, *items))
    return utilizations(snapshot, np.array([snapshot.facts.row_of[NodeName("n")]], np.intp))[0]


def held(*devices: str, name: str = "claim", **result: Any) -> Obj:
    return claim_body(name, devices_of(ask(len(devices))), *devices, node="n", users=["uid-p"], **result)


@pytest.mark.parametrize(("count", "cpu", "want"), [(8, "1", 1.0), (5, "1", 0.625), (4, "8", 0.5), (0, "8", 0.0)])
def test_held_devices_count_and_nothing_else(count: int, cpu: str, want: float) -> None:
    claims = [held(*(f"n/gpu-{at}" for at in range(count)))] if count else []
    assert used(gpus("n", 8), *claims, cpu=cpu) == (want, POOL)


def test_the_fullest_of_several_drivers_pools_counts() -> None:
    nic = slice_body("n", device("nic-0"), name="nics", driver="nic.example.com")
    assert used(gpus("n", 4), nic, held("n/gpu-0")) == (0.25, POOL)
    assert used(gpus("n", 4), nic, held("n/gpu-0"), held("n/nic-0", name="nic", driver="nic.example.com")) == (
        1.0,
        "nic.example.com/n",
    )


def test_devices_that_other_nodes_reach_do_not_count() -> None:
    pool = {"name": "wide", "generation": 1, "resourceSliceCount": 1}
    every: tuple[Obj, ...] = ({"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": []}]}})
    for reach in every:
        wide = slice_body("wide", device("gpu-0"), pool=pool, **reach)
        assert used(wide, held("wide/gpu-0"), cpu="2") == (0.25, "cpu")


def test_admin_access_holds_no_device_and_a_shared_device_is_held() -> None:
    assert used(gpus("n", 2), held("n/gpu-0", adminAccess=True)) == (0.0, POOL)
    shared = slice_body("n", device("gpu-0", more={"allowMultipleAllocations": True}), device("gpu-1"))
    assert used(shared, held("n/gpu-0", shareID="a", consumedCapacity={"memory": "1Gi"})) == (0.5, POOL)


def test_a_slice_without_devices_leaves_cpu_and_memory_to_count() -> None:
    assert used(slice_body("n"), cpu="6") == (0.75, "cpu")


def test_devices_that_the_newest_generation_has_lost_are_still_held() -> None:
    def pool(generation: int) -> Obj:
        return {"name": "n", "generation": generation, "resourceSliceCount": 1}

    before = slice_body("n", *(device(f"gpu-{at}") for at in range(4)), name="before", pool=pool(1))
    now = slice_body("n", device("gpu-0"), name="now", pool=pool(2))
    assert used(before, now, held("n/gpu-0", "n/gpu-3")) == (1.0, POOL)


def test_parts_of_a_device_count_by_their_fullest_counter() -> None:
    """Two cards, cut into halves or taken whole; the mean of both cards counts."""
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    sets = [
        {"name": card, "counters": {"memory": {"value": "80Gi"}, "engines": {"value": "8"}}} for card in ("card-0", "card-1")
    ]

    def part(name: str, card: str, memory: str, engines: str) -> Obj:
        takes = {"memory": {"value": memory}, "engines": {"value": engines}}
        return device(name, more={"consumesCounters": [{"counterSet": card, "counters": takes}]})

    parts = [part(f"{card}-{half}", card, "40Gi", "2") for card in ("card-0", "card-1") for half in "ab"]
    parts += [part(card, card, "80Gi", "8") for card in ("card-0", "card-1")]
    items = (slice_body("n", *parts, pool=pool), slice_body("n", name="counters", pool=pool, sharedCounters=sets))
    assert used(*items, held("n/card-0")) == (0.5, POOL)
    assert used(*items, held("n/card-0", "n/card-1-a")) == (0.75, POOL)
    assert used(items[0], held("n/card-0")) == (1 / 6, POOL)  # the driver has not published the counters yet


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_resources_of_graphics_cards_count_alone_too(resource: str) -> None:
    node = node_body("n", **{resource.replace("/", "__"): "8"})
    pod = pod_body("more", on="n", requests={resource: "7"})
    assert used(pod, node=node, cpu="7") == (0.875, resource)
    assert used(node=node, cpu="7") == (0.0, resource)
    assert used(node=node_body("n", **{resource.replace("/", "__"): "0"}), cpu="6") == (0.75, "cpu")
