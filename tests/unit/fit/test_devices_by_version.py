"""Devices by the rules of each version of Kubernetes, as the oracle found them."""

from typing import Any

import pytest

from slackwater.app.offline import placement_lines
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
)
from tests.support.scores import score_lines

_OLD, _NEW, _NEWEST = ("1.34", "1.35"), ("1.36", "1.37"), ("1.37",)
_SHORT = "cannot allocate all claims"


def verdict(version: str, *items: Obj, **gates: bool) -> str:
    """What is said of the only pending pod on node a: "feasible", the reason, or why kube-scheduler gives the pod up."""
    (line,) = map(json_of, placement_lines(cluster_of(*items, version=version, **gates)))
    if line.get("failed"):
        return "failed"
    return "feasible" if "a" in line["feasible"] else str(line["rejected"]["a"]["reasons"][0])


def one_gpu(**more: Any) -> Obj:
    return slice_body("a", device("gpu-0", **more))


def with_claim(*items: Obj, spec: Obj | None = None) -> tuple[Obj, ...]:
    claim = claim_body("mine", spec or devices_of(ask(1)))
    return (node_body("a"), class_body(), claim, pod_body("p", "mine"), *items)


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_taints_of_devices_count_where_the_gate_is_on(version: str) -> None:
    there = with_claim(one_gpu(taints=[{"key": "sick", "effect": "NoSchedule"}]))
    assert verdict(version, *there) == ("feasible" if version in _OLD else _SHORT)
    assert verdict("1.35", *there, DRADeviceTaints=True) == _SHORT


@pytest.mark.parametrize(("version", "want"), [("1.34", _SHORT), ("1.35", "feasible"), ("1.37", "feasible")])
def test_a_taint_without_an_effect_keeps_pods_away_in_1_34_alone(version: str, want: str) -> None:
    there = with_claim(one_gpu(taints=[{"key": "sick", "effect": "None"}]))
    assert verdict(version, *there, DRADeviceTaints=True) == want


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_an_extended_resource_of_a_class_is_a_plain_resource_without_the_gate(version: str) -> None:
    pod = pod_body("p", requests={"example.com/gpu": "1"})
    there = (node_body("a"), class_body(resource="example.com/gpu"), gpus("a", 1), pod)
    assert verdict(version, *there) == ("Insufficient example.com/gpu" if version in _OLD else "feasible")


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_devices_of_a_partitioned_slice_lose_their_nodes_without_the_gate(version: str) -> None:
    each = device("gpu-0", more={"nodeName": "a"})
    there = with_claim(slice_body("a", each, perDeviceNodeSelection=True))
    assert verdict(version, *there) == (_SHORT if version in _OLD else "feasible")


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_amounts_of_capacity_are_not_asked_for_without_the_gate(version: str) -> None:
    much = devices_of(ask(1, capacity={"requests": {"memory": "90Gi"}}))
    assert verdict(version, *with_claim(one_gpu(memory="80Gi"), spec=much)) == ("feasible" if version in _OLD else _SHORT)


@pytest.mark.parametrize(("there", "want"), [("80Gi", "feasible"), ("40Gi", _SHORT)])
@pytest.mark.parametrize("version", _NEW)
def test_devices_draw_counters_that_a_slice_of_another_node_has(version: str, there: str, want: str) -> None:
    pool = {"name": "shared", "generation": 1, "resourceSliceCount": 2}
    drawn = {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "80Gi"}}}]}
    counters = [{"name": "gpu", "counters": {"memory": {"value": there}}}]
    parts = slice_body("a", device("part-0", more=drawn), pool=pool)
    elsewhere = slice_body("b", name="counters", pool=pool, sharedCounters=counters)
    del elsewhere["spec"]["devices"]
    assert verdict(version, *with_claim(parts, elsewhere)) == want


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_1_34_allocates_from_incomplete_pools(version: str) -> None:
    incomplete = slice_body("a", device("gpu-0"), pool={"name": "a", "generation": 1, "resourceSliceCount": 2})
    assert verdict(version, *with_claim(incomplete)) == ("feasible" if version == "1.34" else _SHORT)
    assert verdict(version, *with_claim(incomplete, spec=devices_of(ask("All")))) == "failed"


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_1_34_gives_a_pod_up_at_an_invalid_pool(version: str) -> None:
    want = "failed" if version == "1.34" else "invalid resource pools were encountered"
    assert verdict(version, *with_claim(slice_body("a", device("gpu-0"), device("gpu-0")))) == want


@pytest.mark.parametrize("version", _NEW)
def test_counters_of_other_nodes_make_no_pool_since_1_37(version: str) -> None:
    pool = {"name": "b", "generation": 1, "resourceSliceCount": 2}
    counters = slice_body("b", name="counters", pool=pool, sharedCounters=[{"name": "gpu", "counters": {"m": {"value": "1"}}}])
    del counters["spec"]["devices"]
    lost = {"consumesCounters": [{"counterSet": "none", "counters": {"m": {"value": "1"}}}]}
    parts = slice_body("b", device("part-0", more=lost), name="parts", pool=pool)
    want = _SHORT if version in _NEWEST else "invalid resource pools were encountered"
    assert verdict(version, *with_claim(counters, parts)) == want


@pytest.mark.parametrize("version", _NEW)
def test_all_devices_include_one_whose_capacity_is_in_use_since_1_37(version: str) -> None:
    shared = device("gpu-0", more={"allowMultipleAllocations": True})
    used = claim_body("theirs", devices_of(ask(1)), "a/gpu-0", users=["u"], shareID="s", consumedCapacity={"memory": "80Gi"})
    there = with_claim(slice_body("a", shared, device("gpu-1")), used, spec=devices_of(ask("All")))
    assert verdict(version, *there) == (_SHORT if version in _NEWEST else "feasible")


@pytest.mark.parametrize(
    ("asked", "used", "want_off", "want_on"),
    [("1500m", "1500m", _SHORT, "feasible"), ("1100m", "1600m", _SHORT, _SHORT), ("100u", "1600m", "feasible", "feasible")],
)
def test_steps_of_capacity_have_thousandths_with_the_gate(asked: str, used: str, want_off: str, want_on: str) -> None:
    shared = device("gpu-0", more={"allowMultipleAllocations": True}, memory="3")
    span = {"min": "500m", "max": "3", "step": "500m"}
    shared["capacity"]["memory"]["requestPolicy"] = {"default": "500m", "validRange": span}
    other = claim_body("theirs", devices_of(ask(1)), "a/gpu-0", users=["u"], shareID="s", consumedCapacity={"memory": used})
    spec = devices_of(ask(1, capacity={"requests": {"memory": asked}}))
    there = with_claim(slice_body("a", shared), other, spec=spec)
    assert (verdict("1.36", *there), verdict("1.37", *there, DRAFractionalCapacityRange=True)) == (want_off, want_on)
    if asked != "100u":
        assert verdict("1.37", *there) == want_off, "the gate is off by default"


def test_an_amount_without_a_thousandth_part_ends_the_cycle_with_the_gate() -> None:
    shared = device("gpu-0", more={"allowMultipleAllocations": True}, memory="3")
    shared["capacity"]["memory"]["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    there = with_claim(slice_body("a", shared), spec=devices_of(ask(1, capacity={"requests": {"memory": "1500001u"}})))
    by_gate = [verdict("1.37", *there, DRAFractionalCapacityRange=on) for on in (False, True)]
    assert [verdict("1.36", *there), *by_gate] == ["feasible", "feasible", "failed"]


def test_an_amount_beyond_64_bits_ends_the_cycle_since_1_37() -> None:
    shared = device("gpu-0", more={"allowMultipleAllocations": True}, memory="3")
    shared["capacity"]["memory"]["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    there = with_claim(slice_body("a", shared), spec=devices_of(ask(1, capacity={"requests": {"memory": "10E"}})))
    assert (verdict("1.36", *there), verdict("1.37", *there)) == (_SHORT, "failed")


def of_counters(node: str, pool: Obj, counters: str = "set", **more: Any) -> Obj:
    found = slice_body(node, pool=pool, sharedCounters=[{"name": counters, "counters": {"memory": {"value": "40Gi"}}}], **more)
    del found["spec"]["devices"]
    return found


def partition(name: str, amount: str, counters: str = "set") -> Obj:
    return device(name, more={"consumesCounters": [{"counterSet": counters, "counters": {"memory": {"value": amount}}}]})


@pytest.mark.parametrize(
    ("version", "gates", "want"),
    [
        ("1.36", {}, "failed"),
        ("1.37", {}, "feasible"),
        ("1.37", {"DRADeviceBindingConditions": False}, "feasible"),
        ("1.37", {"DRAConsumableCapacity": False}, "feasible"),
        ("1.37", {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, "failed"),
    ],
)
@pytest.mark.parametrize("selected", [False, True])
def test_counters_count_on_the_nodes_of_their_slice_since_1_37(
    version: str, gates: dict[str, bool], want: str, selected: bool
) -> None:
    """A pool of another node that is not complete: a request for all devices fails where its counters count."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}]
    chosen: Obj = {"nodeSelector": {"nodeSelectorTerms": terms}} if selected else {}
    pool = {"name": "zone-2", "generation": 1, "resourceSliceCount": 3}
    elsewhere = of_counters("b", pool, name="counters", **chosen)
    there = with_claim(gpus("a", 2), elsewhere, spec=devices_of(ask("All")))
    assert verdict(version, *there, **gates) == want


@pytest.mark.parametrize(
    ("counters", "amount", "want_1_36", "want_1_37"),
    [("nics", "30Gi", "feasible", _SHORT), ("set", "20Gi", _SHORT, "feasible")],
)
def test_drivers_whose_pools_have_one_name_share_counters_before_1_37(
    counters: str, amount: str, want_1_36: str, want_1_37: str
) -> None:
    """1.36 keeps counters by the pool's name: those of the driver that is tried first. A counter that this driver lacks is not
    checked, and one that it has is drawn by both."""
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    nics = [partition(f"nic-{at}", amount, counters) for at in range(2)]
    there = with_claim(
        class_body("nic", 'device.driver == "nic.example.com"'),
        of_counters("a", pool, name="gpu-counters"),
        slice_body("a", partition("gpu-0", "30Gi"), name="gpus", pool=pool),
        of_counters("a", pool, counters, name="nic-counters", driver="nic.example.com"),
        slice_body("a", *nics, name="nics", pool=pool, driver="nic.example.com"),
        spec=devices_of(ask(1), ask(2, of="nic")),
    )
    assert (verdict("1.36", *there), verdict("1.37", *there)) == (want_1_36, want_1_37)


@pytest.mark.parametrize("version", _NEW)
def test_a_device_that_was_tried_and_taken_back_is_remembered_as_distinct_since_1_37(version: str) -> None:
    row, model = f"{DRIVER}/row", f"{DRIVER}/model"
    devices = (device("gpu-0", row="r1", model="h100"), device("gpu-1", row="r2"), device("gpu-2", row="r1", model="h100"))
    spec = devices_of(ask(2), constraints=[{"distinctAttribute": row}, {"matchAttribute": model}])
    assert verdict(version, *with_claim(slice_body("a", *devices), spec=spec)) == (_SHORT if version in _NEWEST else "feasible")


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_alternatives_are_scored_since_1_35(version: str) -> None:
    better, worse = (ask(1, f'device.attributes["{DRIVER}"].model == "{model}"') for model in ("h100", "a100"))
    spec = devices_of([better | {"name": "better"}, worse | {"name": "worse"}])
    there = with_claim(node_body("b"), gpus("a", 1), slice_body("b", device("gpu-0", model="a100")), spec=spec)
    (line,) = score_lines(cluster_of(*there, version=version))
    assert line["scores"].get("DynamicResources", {"a": 0, "b": 0}) == (
        {"a": 0, "b": 0} if version == "1.34" else {"a": 100, "b": 87}
    )


@pytest.mark.parametrize("version", [*_OLD, *_NEW])
def test_a_claim_of_another_pod_is_named_in_the_versions_words(version: str) -> None:
    made = pod_body("p", template="template")
    made["status"]["resourceClaimStatuses"] = [{"name": "made", "resourceClaimName": "mine"}]
    want = "pod" if version in _OLD else "Pod"
    said = verdict(version, node_body("a"), claim_body("mine", devices_of(ask(1))), made)
    assert said == f"ResourceClaim default/mine was not created for {want} default/p ({want} is not owner)"


@pytest.mark.parametrize(("version", "want"), [("1.35", "feasible"), ("1.36", _SHORT)])
def test_a_request_may_get_a_shared_device_again_in_1_35(version: str, want: str) -> None:
    there = with_claim(one_gpu(more={"allowMultipleAllocations": True, "capacity": {}}), spec=devices_of(ask(3)))
    assert verdict(version, *there, DRAConsumableCapacity=True) == want
    assert verdict("1.35", *there) == _SHORT
