"""The whole service follows DeviceTaintRules of its API server, in the versions of kube-scheduler that read them."""

import json
from typing import Any, Final

import anyio
import pytest

from tests.support.devices import (
    DRIVER,
    ask,
    claim_body,
    class_body,
    devices_of,
    gpus,
    node_body,
    pod_body,
    taint_rule_body,
)
from tests.support.wholeservice import Whole, a_whole_service

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

_API: Final = "/apis/resource.k8s.io/v1"
_RULES: Final = f"{_API}/devicetaintrules"
_CAPACITY: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_POOL: Final = {"name": "pool", "provider": "kwok", "maxSize": 3, "template": {"status": {"capacity": _CAPACITY}}}


def settings(version: str) -> dict[str, Any]:
    return {
        "scheduler": {"version": version},
        # The autoscaler watches devices; it shall not act on them here.
        "autoscaler": {"enabled": True, "scanInterval": "1s", "nodeGroups": [{**_POOL, "maxSize": 0}]},
    }


def fill(whole: Whole) -> None:
    """Creates one node with a GPU, and a pod that asks for it."""
    whole.create("/api/v1/nodes", node_body("a"))
    whole.create(f"{_API}/resourceslices", gpus("a", 1))
    whole.create(f"{_API}/deviceclasses", class_body())
    whole.create(f"{_API}/namespaces/default/resourceclaims", claim_body("mine", devices_of(ask(1))))
    whole.create("/api/v1/namespaces/default/pods", pod_body("p", "mine"))


async def feasible(whole: Whole) -> list[str]:
    """The nodes that the service finds for the pod."""
    answer = await whole.ops.post("/simulate/placement", json={})
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return [name for line in lines for name in line.get("feasible", ())]


async def until_feasible(whole: Whole, want: list[str]) -> None:
    with anyio.fail_after(300):
        while await feasible(whole) != want:  # noqa: ASYNC110 - no event tells of it
            await anyio.sleep(0.05)


async def test_a_rule_counts_from_its_creation_until_its_deletion() -> None:
    async with a_whole_service(settings("1.37")) as whole:
        fill(whole)
        await until_feasible(whole, ["a"])
        whole.create(_RULES, taint_rule_body("broken", driver=DRIVER, device="gpu-0"))
        await until_feasible(whole, [])
        reported = (await whole.ops.get("/explain/pods/default/p")).text
        assert "it is tainted by DeviceTaintRule broken" in reported
        assert whole.sandbox.request("DELETE", f"{_RULES}/broken").status == 200
        await until_feasible(whole, ["a"])


async def test_a_rule_does_not_count_where_kube_scheduler_reads_none() -> None:
    async with a_whole_service(settings("1.36")) as whole:
        whole.create(_RULES, taint_rule_body("broken", driver=DRIVER))
        fill(whole)
        await until_feasible(whole, ["a"])
