"""Objects that only an API server can vouch for: whatever it stores, the service's reflectors read."""

import json
import random
from contextlib import aclosing

import anyio
import pytest

from slackwater.adapters.kube.auxiliary import auxiliary_object
from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.devices import decode_resource_claim
from slackwater.adapters.kube.reflector import Reflector
from slackwater.adapters.kube.resource_type import pods
from slackwater.model.events import PodSeen
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.resources import LARGEST_AMOUNT
from tests.controlplane.talk import remove
from tests.support.controlplane.stack import ControlPlane

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
#: Bytes that a request for memory counts as.
AMOUNTS = {
    "9" * 1001: LARGEST_AMOUNT,
    "1" + "0" * 1000 + "Ki": LARGEST_AMOUNT,
    "1e400": LARGEST_AMOUNT,
    "0" * 3000 + "7": 7,
    "0." + "0" * 2000 + "1": 1,
    "+.5e-9": 1,
    "m": 0,
}


async def test_whatever_the_api_server_stores_is_read(control_plane: ControlPlane) -> None:
    broken: list[str] = []

    def note(kind: str, name: str, error: Exception) -> None:
        broken.append(f"{kind} {name}: {error}")

    async with open_client(kubeconfig=str(control_plane.kubeconfig("admin"))) as client, control_plane.session() as api:

        async def store(path: str, body: object, deep: str = "") -> None:
            text = json.dumps(body).replace('"DEEP"', deep)
            async with api.post(path, data=text, headers={"Content-Type": "application/json"}) as answer:
                assert answer.status == 201, (await answer.text())[:500]

        for number, amount in enumerate(AMOUNTS):
            container = {"name": "c", "image": "i", "resources": {"requests": {"memory": amount}}}
            spec = {"schedulerName": "nobody", "containers": [container]}
            await store(PODS, {"metadata": {"name": f"odd-{number}"}, "spec": spec})
        managed = {"manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}
        spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}
        fields = '{"f:metadata":' + '{"f:a":' * 5_000 + "{}" + "}" * 5_000 + "}"
        await store(PODS, {"metadata": {"name": "odd-deep", "managedFields": [managed]}, "spec": spec}, fields)
        config = {"opaque": {"driver": "d.example.com", "parameters": {"a": "DEEP"}}}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        claim = {"metadata": {"name": "odd-deep"}, "spec": {"devices": {"requests": [request], "config": [config]}}}
        await store(CLAIMS, claim, "[" * 4_900 + "]" * 4_900)
        claims = auxiliary_object("resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims", decode_resource_claim, note)
        found: dict[str, int] = {}
        with anyio.fail_after(30):
            async with aclosing(Reflector(client, pods(KindInterner(), note), rng=random.Random(1)).batches()) as batches:
                async for batch in batches:
                    seen = [event.pod for event in batch.events if isinstance(event, PodSeen)]
                    found |= {pod.key.name: pod.kind.requests.memory for pod in seen if pod.key.name.startswith("odd-")}
                    if batch.listed:
                        break
            async with aclosing(Reflector(client, claims, rng=random.Random(1)).batches()) as batches:
                async for batch in batches:
                    if batch.listed:
                        break
        assert found == {**{f"odd-{at}": want for at, want in enumerate(AMOUNTS.values())}, "odd-deep": 0}
        assert broken == []
        for name in found:
            await remove(api, f"{PODS}/{name}")
        await remove(api, f"{CLAIMS}/odd-deep")
