"""What an audit reads, from a server that lists page by page, refuses, and has objects that nobody can read."""

from contextlib import aclosing

import pytest

from slackwater.adapters.kube.audit_reads import ApiAuditReads
from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.resource_type import NODES_PATH, PODS_PATH
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.protocols import AuditReadError, Listing
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

ONE = f"{NODES_PATH}/n1"


def reads(client: KubeClient) -> ApiAuditReads:
    return ApiAuditReads(client, PodDecoder(KindInterner()), page_size=3)


async def names(client: KubeClient) -> tuple[list[str], set[int], list[tuple[str, str]]]:
    found: list[Listing[object]] = []
    async with aclosing(reads(client).pods(timeout_seconds=60)) as parts:
        found = [part async for part in parts]
    pods = [pod.key.name for part in found for pod in part.objects]  # type: ignore[attr-defined]
    return pods, {part.version for part in found}, [each for part in found for each in part.unreadable]


async def test_all_pages_are_of_one_moment(api: FakeApi, client: KubeClient) -> None:
    want = [f"p{number}" for number in range(7)]
    for name in want:
        api.put(PODS_PATH, name, "default", spec={"containers": []})
    assert await names(client) == (want, {api.revision}, [])
    assert [asked.query.get("limit") for asked in api.asked] == ["3", "3", "3"]


async def test_an_empty_list_has_a_version_too(api: FakeApi, client: KubeClient) -> None:
    api.objects[PODS_PATH] = {}
    assert await names(client) == ([], {api.revision}, [])


async def test_an_object_that_cannot_be_read_is_named_and_hides_no_other(api: FakeApi, client: KubeClient) -> None:
    api.put(PODS_PATH, "whole", "default", spec={"containers": []})
    broken = api.put(PODS_PATH, "broken", "default", spec={"containers": "none"})
    assert await names(client) == (["whole"], {api.revision}, [(broken["metadata"]["uid"], "broken")])


async def test_a_pod_that_cannot_be_read_and_has_ended_counts_as_gone(api: FakeApi, client: KubeClient) -> None:
    for name, phase in (("done", "Succeeded"), ("runs", "Running")):
        pod = api.put(PODS_PATH, name, "default", spec={"containers": "none"}, status={"phase": phase})
        api.reply("GET", f"/api/v1/namespaces/default/pods/{name}", Reply(body=pod))
    _, _, unreadable = await names(client)
    assert [name for _, name in unreadable] == ["runs"]
    assert await reads(client).pod(PodKey("default", "done"), timeout_seconds=60) is None
    with pytest.raises(AuditReadError):
        await reads(client).pod(PodKey("default", "runs"), timeout_seconds=60)


async def test_a_list_that_the_server_will_not_go_on_with_is_no_list(api: FakeApi, client: KubeClient) -> None:
    api.reply("GET", PODS_PATH, Reply(status=410, body=status(410, "Expired", "too old")))
    with pytest.raises(AuditReadError, match=r"list /api/v1/pods: .*410 Expired"):
        await names(client)


async def test_single_objects_are_read_or_known_to_be_gone(api: FakeApi, client: KubeClient) -> None:
    pod = api.put(PODS_PATH, "p", "default", spec={"containers": []})
    api.reply("GET", "/api/v1/namespaces/default/pods/p", Reply(body=pod))
    api.reply("GET", ONE, Reply(body=api.put(NODES_PATH, "n1")))
    truth = reads(client)
    read_pod = await truth.pod(PodKey("default", "p"), timeout_seconds=60)
    read_node = await truth.node(NodeName("n1"), timeout_seconds=60)
    assert read_pod is not None
    assert read_node is not None
    assert (read_pod.uid, read_node.name) == (pod["metadata"]["uid"], "n1")
    assert await truth.pod(PodKey("default", "absent"), timeout_seconds=60) is None


@pytest.mark.parametrize("reply", [Reply(status=500, body=status(500, "InternalError")), Reply(body=b"[]")], ids=str)
async def test_no_answer_says_nothing_about_an_object(api: FakeApi, client: KubeClient, reply: Reply) -> None:
    api.reply("GET", ONE, reply)
    with pytest.raises(AuditReadError):
        await reads(client).node(NodeName("n1"), timeout_seconds=60)
