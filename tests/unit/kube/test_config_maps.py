"""The ConfigMap that tells how the autoscaler is doing: made, changed, and no trouble where it cannot be written."""

import json

import pytest

from slackwater.edge.kube.client import KubeClient
from slackwater.edge.kube.config_maps import ConfigMapWriter
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

ALL = "/api/v1/namespaces/kube-system/configmaps"
OURS = f"{ALL}/status"
ABSENT = Reply(status=404, body=status(404, "NotFound", "no"))


async def test_one_that_is_there_is_patched(api: FakeApi, client: KubeClient) -> None:
    api.reply("PATCH", OURS, Reply())
    writer = ConfigMapWriter(client, namespace="kube-system", name="status")
    assert await writer.write({"status": "fine"}, {"note": "now"})
    (asked,) = api.asked
    assert json.loads(asked.body) == {"metadata": {"annotations": {"note": "now"}}, "data": {"status": "fine"}}
    assert asked.headers["Content-Type"] == "application/merge-patch+json"


async def test_one_that_is_not_there_is_created(api: FakeApi, client: KubeClient) -> None:
    api.reply("PATCH", OURS, ABSENT)
    api.reply("POST", ALL, Reply(status=201))
    assert await ConfigMapWriter(client, namespace="kube-system", name="status").write({"status": "fine"}, {})
    made = json.loads(api.asked[1].body)
    assert (made["kind"], made["metadata"]["name"], made["data"]) == ("ConfigMap", "status", {"status": "fine"})


@pytest.mark.parametrize(
    "reply",
    [Reply(status=403, body=status(403, "Forbidden", "may not")), Reply(status=500), Reply(drop=True)],
    ids=["forbidden", "broken", "dropped"],
)
async def test_one_that_cannot_be_written_stops_nobody(api: FakeApi, client: KubeClient, reply: Reply) -> None:
    api.reply("PATCH", OURS, reply, Reply())
    writer = ConfigMapWriter(client, namespace="kube-system", name="status")
    assert not await writer.write({"status": "fine"}, {})
    assert await writer.write({"status": "fine"}, {})
