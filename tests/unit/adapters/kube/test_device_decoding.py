"""Objects of dynamic resource allocation: what is read of them, and what is refused."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.devices import (
    decode_claim_template,
    decode_device_class,
    decode_resource_claim,
    decode_slice,
)
from slackwater.model.devices import (
    AllocatedDevice,
    Capacity,
    CounterSet,
    DeviceAsk,
    DeviceConstraint,
    DeviceId,
    DeviceTaint,
    NodeChoice,
    RequestPolicy,
    Version,
)
from tests.support.devices import DRIVER, Obj, ask, claim_body, class_body, device, devices_of, slice_body, template_body


def _json(body: Obj) -> bytes:
    return json.dumps(body).encode()


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
    key, spec = decode_claim_template(_json(template_body(devices_of(ask(3)))))
    assert key == ("default", "template")
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
