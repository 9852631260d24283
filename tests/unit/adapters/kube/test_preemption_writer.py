"""A victim gets its condition, then it is deleted; whatever the API server answers, it is known what came of it."""

import json

import pytest

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.model.effects import DeleteVictim, WritePreempting
from slackwater.model.events import PodGone
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.objects import OngoingPreemption, read_preempting
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.protocols import Outcome
from tests.support.fakeapi import FakeApi, Reply, status
from tests.support.service import perform

pytestmark = pytest.mark.anyio

POD = "/api/v1/namespaces/ns/pods/web-1"
UID, KEY = PodUid("u1"), PodKey("ns", "web-1")
VICTIM = DeleteVictim(UID, KEY, PodKey("other", "important"))
GONE = PodGone(UID, KEY, read=True)


def pod(uid: str = "u1") -> Reply:
    return Reply(body={"metadata": {"name": "web-1", "namespace": "ns", "uid": uid, "resourceVersion": "5"}})


def refuses(code: int, **headers: str) -> Reply:
    return Reply(status=code, body=status(code, "SomeReason"), headers=headers)


async def test_the_condition_comes_before_the_deletion_and_both_name_the_uid(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", f"{POD}/status", pod())
    api.reply("DELETE", POD, pod())
    assert (await perform(writer, VICTIM)).verdict == "done"
    patch, delete = api.asked
    assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert json.loads(patch.body) == {
        "metadata": {"uid": "u1"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "slackwater: preempting to accommodate the higher priority pod other/important",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }
    assert json.loads(delete.body) == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}}


async def test_a_victim_that_is_gone_is_success_at_either_step(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", f"{POD}/status", refuses(404))
    assert await perform(writer, VICTIM) == Outcome("done", 404, event=GONE)
    assert [asked.method for asked in api.asked] == ["PATCH"]
    api.reply("PATCH", f"{POD}/status", pod())
    api.reply("DELETE", POD, refuses(404))
    assert await perform(writer, VICTIM) == Outcome("done", 404, event=GONE)


@pytest.mark.parametrize("code", [409, 422])
async def test_a_successor_of_the_same_name_is_left_alone(api: FakeApi, writer: ApiWriter, code: int) -> None:
    api.reply("PATCH", f"{POD}/status", refuses(code))
    api.reply("GET", POD, pod("u2"))
    assert await perform(writer, VICTIM) == Outcome("done", code, event=GONE)
    api.reply("PATCH", f"{POD}/status", pod())
    api.reply("DELETE", POD, refuses(409))
    api.reply("GET", POD, pod("u2"))
    assert await perform(writer, VICTIM) == Outcome("done", 409, event=GONE)


@pytest.mark.parametrize("step", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("code", "want"),
    [(409, "again"), (429, "again"), (503, "again"), (500, "unknown"), (403, "refused"), (422, "refused")],
)
async def test_errors_by_their_kind(api: FakeApi, writer: ApiWriter, step: str, code: int, want: str) -> None:
    if step == "DELETE":
        api.reply("PATCH", f"{POD}/status", pod())
    api.reply(step, f"{POD}/status" if step == "PATCH" else POD, refuses(code))
    if code in {409, 422}:
        api.reply("GET", POD, pod())
    outcome = await perform(writer, VICTIM)
    assert (outcome.verdict, outcome.code, outcome.event) == (want, code, None)


async def test_a_lost_answer_is_unknown(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", f"{POD}/status", pod())
    api.reply("DELETE", POD, Reply(drop=True), Reply(drop=True))  # the client itself tries once more
    assert (await perform(writer, VICTIM)).verdict == "unknown"


async def test_the_annotation_is_written_and_taken_away(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", POD, pod(), pod())
    for text in ('{"node":"n","victims":["v"]}', None):
        assert (await perform(writer, WritePreempting(UID, KEY, text))).verdict == "done"
        want = {"metadata": {"uid": "u1", "annotations": {"slackwater.dev/preempting": text}}}
        assert json.loads(api.asked[-1].body) == want


async def test_a_preemptor_that_is_gone_is_reported(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", POD, refuses(404))
    outcome = await perform(writer, WritePreempting(UID, KEY, "text"))
    assert (outcome.verdict, outcome.event) == ("refused", GONE)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "null",
        '{"node":"n"}',
        '{"node":1,"victims":[]}',
        '{"node":"n","victims":"v"}',
        '{"node":"n","victims":[1]}',
    ],
)
def test_an_annotation_that_cannot_be_read_is_none(text: str | None) -> None:
    assert read_preempting(text) is None


def test_the_decoder_reads_what_was_written() -> None:
    text = '{"node":"n","victims":["a","b"]}'
    written = read_preempting(text)
    raw = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"slackwater.dev/preempting": text}},
        "spec": {"containers": []},
    }
    found = PodDecoder(KindInterner()).decode(json.dumps(raw).encode())
    assert found.preempting == written
    assert isinstance(found.preempting, OngoingPreemption)
