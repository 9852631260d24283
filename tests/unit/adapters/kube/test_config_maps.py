"""The ConfigMap that tells how the autoscaler is doing: made, changed, and no trouble where it cannot be written."""

import json

import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.config_maps import ConfigMapWriter
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

ALL = "/api/v1/namespaces/kube-system/configmaps"
OURS = f"{ALL}/status"
ABSENT = Reply(status=404, body=status(404, "NotFound", "no"))


def at(version: int, code: int = 200) -> Reply:
    return Reply(status=code, body=json.dumps({"metadata": {"resourceVersion": str(version)}}).encode())


async def test_one_that_is_there_is_patched_at_the_version_that_was_seen(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", OURS, at(7))
    api.reply("PATCH", OURS, at(8), at(9))
    writer = ConfigMapWriter(client, namespace="kube-system", name="status")
    assert await writer.write({"status": "fine"}, {"note": "now"})
    assert await writer.write({"status": "fine"}, {})
    first, second = [asked for asked in api.asked if asked.method == "PATCH"]
    want = {"metadata": {"resourceVersion": "7", "annotations": {"note": "now"}}, "data": {"status": "fine"}}
    assert json.loads(first.body) == want
    assert first.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(second.body)["metadata"]["resourceVersion"] == "8"


async def test_what_others_wrote_is_read_before_it_is_replaced(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", OURS, at(7), at(12))
    api.reply("PATCH", OURS, Reply(status=409, body=status(409, "Conflict", "modified")), at(13))
    assert await ConfigMapWriter(client, namespace="kube-system", name="status").write({"status": "fine"}, {})
    patches = [json.loads(asked.body)["metadata"]["resourceVersion"] for asked in api.asked if asked.method == "PATCH"]
    assert patches == ["7", "12"]


async def test_one_that_is_not_there_is_created(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", OURS, ABSENT)
    api.reply("POST", ALL, at(1, 201))
    assert await ConfigMapWriter(client, namespace="kube-system", name="status").write({"status": "fine"}, {})
    made = json.loads(api.asked[1].body)
    assert (made["kind"], made["metadata"]["name"], made["data"]) == ("ConfigMap", "status", {"status": "fine"})


@pytest.mark.parametrize(
    "reply",
    [Reply(status=403, body=status(403, "Forbidden", "may not")), Reply(status=500), Reply(drop=True)],
    ids=["forbidden", "broken", "dropped"],
)
async def test_a_failed_write_raises_no_error(api: FakeApi, client: KubeClient, reply: Reply) -> None:
    api.reply("GET", OURS, at(7), at(7))
    api.reply("PATCH", OURS, reply, at(8))
    writer = ConfigMapWriter(client, namespace="kube-system", name="status")
    assert not await writer.write({"status": "fine"}, {})
    assert await writer.write({"status": "fine"}, {})
