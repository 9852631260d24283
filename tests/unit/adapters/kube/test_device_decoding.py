"""Objects of dynamic resource allocation: what is read of them, and what is refused."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.devices import (
    decode_claim_template,
    decode_device_class,
    decode_device_taint_rule,
    decode_resource_claim,
    decode_slice,
    taint_rule_api,
)
from slackwater.model.devices import (
    AllocatedDevice,
    Capacity,
    CounterSet,
    DeviceAsk,
    DeviceConstraint,
    DeviceId,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    NodeChoice,
    RequestPolicy,
    Version,
)
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater_protocol.units import LARGEST
from tests.support.devices import (
    DRIVER,
    Obj,
    ask,
    claim_body,
    class_body,
    device,
    devices_of,
    slice_body,
    taint_rule_body,
    template_body,
)


def _json(body: Obj) -> bytes:
    return json.dumps(body).encode()


def test_amounts_of_any_length_and_opaque_parameters_of_any_depth_are_read() -> None:
    for memory, want in (("9" * 1001, LARGEST), ("0" * 5000 + "3", 3)):
        found = decode_slice(_json(slice_body("a", device("gpu-0", memory=memory))))
        assert [each.amount for each in found.devices[0].capacity] == [want * 10**9]
    body = claim_body("c", devices_of(ask()))
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": "DEEP"}}]
    deep = json.dumps(body).replace('"DEEP"', '{"a":' + "[" * 5_000 + "]" * 5_000 + "}").encode()
    assert decode_resource_claim(deep) == decode_resource_claim(_json(body))


@pytest.mark.parametrize(("text", "want"), [("80Gi", False), ("2000m", True), ("100Ti", True), ("1500m", False)])
def test_a_capacity_remembers_that_kubernetes_reads_no_integer_where_it_is_whole(text: str, want: bool) -> None:
    (gpu,) = decode_slice(_json(slice_body("a", device("gpu-0", memory=text)))).devices
    assert [each.unreduced for each in gpu.capacity] == [want]


def test_a_slice_has_its_devices_with_exact_amounts() -> None:
    more: Obj = {
        "allowMultipleAllocations": True,
        "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "500m"}}}],
        "bindingConditions": ["ready"],
    }
    body = device("gpu-0", memory="80Gi", taints=[{"key": "sick", "effect": "NoSchedule"}], more=more, model="h100", fast=False)
    body["attributes"] |= {"version": {"version": "1.2.0"}, "models": {"strings": ["a", "b"]}}
    body["capacity"]["memory"]["requestPolicy"] = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "2Gi"}}
    found = decode_slice(_json(slice_body("a", body)))
    assert (found.driver, found.pool, found.nodes) == (DRIVER, "a", NodeChoice(name="a"))
    (gpu,) = found.devices
    assert dict(gpu.attributes) == {"model": "h100", "fast": False, "version": Version("1.2.0"), "models": None}
    gib = 2**30 * 10**9
    want_policy = RequestPolicy(default=gib, ranged=True, least=gib, most=2 * gib)
    assert gpu.capacity == (Capacity(name="memory", amount=80 * gib, policy=want_policy),)
    assert gpu.taints == (DeviceTaint("sick", "", "NoSchedule"),)
    assert gpu.consumes == (CounterSet("gpu", (("memory", 5 * 10**8),)),)
    assert (gpu.shareable, gpu.binding) == (True, ("ready",))


def test_a_claim_has_its_requests_and_its_allocation() -> None:
    spec = devices_of(
        ask("All", adminAccess=True),
        [ask(2) | {"name": "s"}],
        constraints=[{"matchAttribute": f"{DRIVER}/numa", "requests": ["r0"]}],
    )
    claim = decode_resource_claim(_json(claim_body("mine", spec, "a/gpu-0", users=["u1"], consumedCapacity={"memory": "1"})))
    assert claim.spec.requests[0].asks == (DeviceAsk(name="r0", class_name="gpu", count=None, admin=True),)
    assert claim.spec.requests[1].alternatives
    assert claim.spec.constraints == (DeviceConstraint(attribute=f"{DRIVER}/numa", distinct=False, requests=("r0",)),)
    assert claim.allocation is not None
    want = AllocatedDevice(request="r0", device=DeviceId(DRIVER, "a", "gpu-0"), consumed=(("memory", 10**9),))
    assert claim.allocation.devices == (want,)
    assert claim.users == ("u1",)


def test_templates_and_classes_are_read() -> None:
    spec = decode_claim_template(_json(template_body(devices_of(ask(3)))))
    assert spec.requests[0].asks[0].count == 3
    found = decode_device_class(_json(class_body("gpu", "true", resource="example.com/gpu")))
    assert (found.selectors, found.extended_resource) == (("true",), "example.com/gpu")


def _slice_with(**change: Any) -> Obj:
    body = slice_body("a", device("gpu-0"))
    body["spec"].update(change)
    return body


@pytest.mark.parametrize(
    ("decode", "body", "words"),
    [
        (decode_slice, _slice_with(devices=[device(f"gpu-{at}") for at in range(129)]), "length <= 128"),
        (decode_slice, slice_body("a") | {"apiVersion": "resource.k8s.io/v1beta1"}, "want resource.k8s.io/v1 "),
        (decode_slice, _slice_with(driver=1), "Expected `str`"),
        (decode_slice, _slice_with(pool={"name": "a", "resourceSliceCount": 0}), ">= 1"),
        (decode_slice, _slice_with(devices=[device("gpu-0", memory="much")]), "quantity"),
        (decode_resource_claim, claim_body("c", devices_of(ask(1, "x" * 10_241))), "length <= 10240"),
        (decode_resource_claim, claim_body("c", devices_of(ask(0))), ">= 1"),
        (decode_resource_claim, claim_body("c", devices_of(ask(1, of=""))), "names no device class"),
        (
            decode_resource_claim,
            claim_body("c", {"devices": {"requests": [{"name": "r"}]}}),
            "neither exactly nor firstAvailable",
        ),
        (decode_resource_claim, claim_body("c", devices_of(ask(1, allocationMode="Some"))), "want ExactCount or All"),
        (decode_resource_claim, claim_body("c", devices_of(ask(1), constraints=[{}])), "neither matchAttribute"),
        (decode_resource_claim, claim_body("c", devices_of(*(ask(1) for _ in range(33)))), "length <= 32"),
    ],
)
def test_an_object_that_no_api_server_would_store_is_refused(decode: Any, body: Obj, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decode(_json(body))


def test_a_taint_rule_has_its_taint_and_the_names_that_it_selects() -> None:
    found = decode_device_taint_rule(_json(taint_rule_body("broken", "NoExecute", driver=DRIVER, device="gpu-0")))
    want = DeviceTaintSelector(driver=DRIVER, device="gpu-0")
    assert found == DeviceTaintRule(name="broken", taint=DeviceTaint("sick", "yes", "NoExecute"), selector=want)


@pytest.mark.parametrize(("version", "want"), [("1.34", "v1alpha3"), ("1.35", "v1alpha3"), ("1.36", "v1beta2"), ("1.37", "v1")])
def test_taint_rules_are_read_as_the_version_serves_them_and_in_each_older_way(version: str, want: str) -> None:
    kubernetes = KubernetesVersion.parse(version)
    assert taint_rule_api(kubernetes) == f"resource.k8s.io/{want}"
    body = taint_rule_body("broken")
    same = [decode_device_taint_rule(_json({**body, "apiVersion": f"resource.k8s.io/{each}"}), kubernetes) for each in _SERVED]
    assert same == [decode_device_taint_rule(_json(body), kubernetes)] * len(_SERVED)


_SERVED = ("v1", "v1beta2", "v1alpha3")


@pytest.mark.parametrize("version", ["1.34", "1.36", "1.37"])
def test_a_taint_rule_without_a_selector_selects_every_device_before_1_37_and_none_since(version: str) -> None:
    body = taint_rule_body("broken")
    del body["spec"]["deviceSelector"]
    found = decode_device_taint_rule(_json(body), KubernetesVersion.parse(version))
    assert found.selector == (None if version == "1.37" else DeviceTaintSelector())


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"apiVersion": "resource.k8s.io/v2"}, "got apiVersion resource.k8s.io/v2, want one of"),
        ({"spec": {"deviceSelector": {}}}, "missing required field `taint`"),
        ({"spec": {"taint": {"key": 5}}}, "Expected `str`, got `int`"),
        ({"spec": {"taint": {}, "deviceSelector": []}}, "Expected `object"),
        ({"spec": {"taint": {}, "deviceSelector": {"deviceClassName": "gpu"}}}, "want driver, pool and device only"),
        ({"spec": {"taint": {}, "deviceSelector": {"selectors": [{"cel": {"expression": "true"}}]}}}, "want driver, pool and"),
        ({"spec": {"taint": {}, "deviceSelector": {"selectors": [{}] * 33}}}, "length <= 32"),
    ],
)
def test_a_taint_rule_that_cannot_be_read_is_refused(change: Obj, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        decode_device_taint_rule(_json(taint_rule_body("broken") | change))
