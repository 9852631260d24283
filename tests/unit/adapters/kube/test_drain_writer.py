"""A node's taint and its pods' evictions: no other node, no successor of a pod, and no foreign taint is touched."""

import json
from typing import Any

import pytest

from slackwater.adapters.kube.writer import ApiWriter
from slackwater.model.effects import Evict, MarkNode, UnmarkNode
from slackwater.model.events import EvictionEnded, PodGone
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Taint
from slackwater.ports.protocols import Outcome
from tests.support.fakeapi import FakeApi, Reply, status
from tests.support.service import perform

pytestmark = pytest.mark.anyio

NODE, POD = "/api/v1/nodes/n1", "/api/v1/namespaces/ns/pods/web-1"
TAINT = Taint("ToBeDeletedByClusterAutoscaler", "1800000000", "NoSchedule")
OTHER = {"key": "gpu", "value": "yes", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
OURS = {"key": TAINT.key, "value": TAINT.value, "effect": TAINT.effect}
MARK = MarkNode(uid="u1", name=NodeName("n1"), taint=TAINT, cordon=True)
UNMARK = UnmarkNode(uid="u1", name=NodeName("n1"), taint_key=TAINT.key, uncordon=True)
EVICT = Evict(uid=PodUid("p1"), key=PodKey("ns", "web-1"), node=NodeName("n1"), grace_seconds=60)


def node(*taints: dict[str, str], uid: str = "u1", annotations: dict[str, str] | None = None, **spec: Any) -> Reply:
    meta = {"name": "n1", "uid": uid, "resourceVersion": "7", "annotations": annotations or {}}
    return Reply(body={"metadata": meta, "spec": {"taints": list(taints), **spec}})


async def test_the_taint_is_added_to_the_others_of_the_version_that_was_read(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node(OTHER))
    api.reply("PATCH", NODE, node())
    assert (await perform(writer, MARK)).verdict == "done"
    assert json.loads(api.asked[1].body) == {
        "metadata": {"annotations": {"slackwater.dev/cordoned": "true"}, "uid": "u1", "resourceVersion": "7"},
        "spec": {"taints": [OTHER, OURS], "unschedulable": True},
    }


async def test_a_node_that_a_person_cordoned_is_not_taken_for_ours(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node(unschedulable=True))
    api.reply("PATCH", NODE, node())
    await perform(writer, MARK)
    assert json.loads(api.asked[1].body) == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "spec": {"taints": [OURS]},
    }


async def test_an_older_taint_of_the_same_key_is_replaced(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node({**OURS, "value": "5"}))
    api.reply("PATCH", NODE, node())
    await perform(writer, MarkNode(uid="u1", name=NodeName("n1"), taint=TAINT))
    assert json.loads(api.asked[1].body)["spec"] == {"taints": [OURS]}


async def test_what_is_so_already_is_not_written(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node(OURS, unschedulable=True))
    assert (await perform(writer, MARK)).verdict == "done"
    api.reply("GET", NODE, node(OTHER))
    assert (await perform(writer, UNMARK)).verdict == "done"
    assert [asked.method for asked in api.asked] == ["GET", "GET"]


async def test_the_taint_is_taken_off_and_the_cordon_where_it_was_ours(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node(OTHER, OURS, unschedulable=True, annotations={"slackwater.dev/cordoned": "true"}))
    api.reply("PATCH", NODE, node())
    assert (await perform(writer, UNMARK)).verdict == "done"
    assert json.loads(api.asked[1].body) == {
        "metadata": {"annotations": {"slackwater.dev/cordoned": None}, "uid": "u1", "resourceVersion": "7"},
        "spec": {"taints": [OTHER], "unschedulable": None},
    }


async def test_a_persons_cordon_stays(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node(OURS, unschedulable=True))
    api.reply("PATCH", NODE, node())
    await perform(writer, UNMARK)
    assert json.loads(api.asked[1].body)["spec"] == {"taints": None}


async def test_a_write_by_others_in_between_is_followed_by_another_attempt(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", NODE, node())
    api.reply("PATCH", NODE, Reply(status=409, body=status(409, "Conflict")))
    assert (await perform(writer, MARK)).verdict == "again"


async def test_a_node_that_is_gone_or_another_cannot_be_tainted_and_needs_no_untainting(
    api: FakeApi, writer: ApiWriter
) -> None:
    for reply in (Reply(status=404, body=status(404, "NotFound")), node(uid="another")):
        api.reply("GET", NODE, reply)
        assert (await perform(writer, MARK)).verdict == "refused"
        api.reply("GET", NODE, reply)
        assert (await perform(writer, UNMARK)).verdict == "done"


async def test_an_eviction_names_the_uid_and_how_long_the_pod_has(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("POST", f"{POD}/eviction", Reply(status=201, body=status(201, "")))
    assert (await perform(writer, EVICT)).verdict == "done"
    assert json.loads(api.asked[0].body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "p1"}, "gracePeriodSeconds": 60},
    }


async def test_by_force_the_pod_is_deleted(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("DELETE", POD, Reply(body=status(200, "")))
    forced = Evict(uid=PodUid("p1"), key=PodKey("ns", "web-1"), node=NodeName("n1"), force=True)
    assert (await perform(writer, forced)).verdict == "done"
    assert json.loads(api.asked[0].body) == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "p1"}}


async def test_a_blocking_budget_is_distinguished_from_an_overloaded_server(api: FakeApi, writer: ApiWriter) -> None:
    body = {**status(429, "TooManyRequests"), "details": {"causes": [{"reason": "DisruptionBudget", "message": "needs 3"}]}}
    api.reply("POST", f"{POD}/eviction", Reply(status=429, body=body))
    outcome = await perform(writer, EVICT)
    assert outcome.verdict == "refused"
    assert outcome.event == EvictionEnded(PodUid("p1"), NodeName("n1"), "blocked", outcome.detail)
    api.reply("POST", f"{POD}/eviction", Reply(status=429, body=status(429, "TooManyRequests")))
    outcome = await perform(writer, EVICT)
    assert (outcome.verdict, outcome.event) == ("again", None)


async def test_a_pod_that_is_gone_or_has_a_successor_needs_no_eviction(api: FakeApi, writer: ApiWriter) -> None:
    gone = PodGone(PodUid("p1"), PodKey("ns", "web-1"), read=True)
    api.reply("POST", f"{POD}/eviction", Reply(status=404, body=status(404, "NotFound")))
    assert await perform(writer, EVICT) == Outcome("done", 404, event=gone)
    api.reply("POST", f"{POD}/eviction", Reply(status=409, body=status(409, "Conflict")))
    api.reply("GET", POD, Reply(body={"metadata": {"name": "web-1", "namespace": "ns", "uid": "p2", "resourceVersion": "5"}}))
    assert await perform(writer, EVICT) == Outcome("done", 409, event=gone)
