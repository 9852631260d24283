"""One effect, one attempt: what is sent, and what each answer of the API server means."""

import asyncio
import json
from datetime import UTC, datetime
from itertools import count
from typing import Any

import anyio
import pytest

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.event_recorder import Recorder
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.model.effects import Activate, ApiEffect, Bind, Nominate, ReadPod
from slackwater.model.events import BindEnded, PodGone, PodRead
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.protocols import Outcome
from tests.support.fakeapi import FakeApi, Reply, status
from tests.support.service import perform

pytestmark = pytest.mark.anyio

POD = "/api/v1/namespaces/ns/pods/web-1"
UID, KEY, NODE = PodUid("u1"), PodKey("ns", "web-1"), NodeName("n1")
BIND = Bind(UID, KEY, NODE)
TOUCH = Activate(UID, KEY, "room was freed")
NOMINATE = Nominate(UID, KEY, NODE)
READ = ReadPod(UID, KEY)

#: ApiEffect, method and path of its write.
PATCHES = [(TOUCH, POD), (NOMINATE, f"{POD}/status")]


@pytest.fixture
def writer(client: KubeClient) -> ApiWriter:
    stamps = count(1)
    recorder = Recorder(client, instance="test", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=lambda: 0.0)
    return ApiWriter(client, PodDecoder(KindInterner()), recorder, stamp=lambda: f"#{next(stamps)}")


def pod(*, uid: str = "u1", node: str | None = None) -> Reply:
    meta = {"name": "web-1", "namespace": "ns", "uid": uid, "resourceVersion": "5"}
    return Reply(body={"metadata": meta, "spec": {"nodeName": node} if node else {}})


def refuses(code: int, message: str = "", **headers: str) -> Reply:
    return Reply(status=code, body=status(code, "SomeReason", message), headers=headers)


def ended(outcome: Outcome) -> str:
    assert isinstance(outcome.event, BindEnded)
    assert (outcome.event.uid, outcome.event.node) == (UID, NODE)
    return outcome.event.outcome


async def test_a_bind_names_the_pods_uid(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("POST", f"{POD}/binding", Reply(status=201, body=status(201, "")))
    assert await perform(writer, BIND) == Outcome("done", 201, event=BindEnded(UID, NODE, "bound", ""))
    assert json.loads(api.asked[0].body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-1", "namespace": "ns", "uid": "u1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (pod(node="n1"), ("done", "bound")),
        (pod(node="n2"), ("refused", "elsewhere")),
        (pod(uid="u2", node="n1"), ("refused", "gone")),
        (refuses(404), ("refused", "gone")),
        (pod(), ("refused", "refused")),
    ],
    ids=["bound before", "bound elsewhere", "a successor", "gone", "not bound"],
)
async def test_after_a_conflict_the_pod_shows_the_outcome_of_the_bind(
    api: FakeApi, writer: ApiWriter, found: Reply, want: tuple[str, str]
) -> None:
    api.reply("POST", f"{POD}/binding", refuses(409, "pod web-1 is already assigned"))
    api.reply("GET", POD, found)
    outcome = await perform(writer, BIND)
    assert (outcome.verdict, ended(outcome)) == want
    assert outcome.code == 409
    assert outcome.detail == ("" if want[0] == "done" else "409 SomeReason: pod web-1 is already assigned")


@pytest.mark.parametrize("found", [refuses(503), Reply(drop=True)], ids=["503", "dropped"])
async def test_a_conflict_that_cannot_be_looked_into_is_not_taken_for_an_end(
    api: FakeApi, writer: ApiWriter, found: Reply
) -> None:
    api.reply("POST", f"{POD}/binding", refuses(409))
    api.reply("GET", POD, found, found)
    outcome = await perform(writer, BIND)
    assert outcome.verdict in {"again", "unknown"}
    assert outcome.event is None


@pytest.mark.parametrize(
    ("answer", "want"),
    [(refuses(404), "gone"), (refuses(403, "is being terminated"), "refused"), (refuses(422), "refused")],
    ids=["404", "403", "422"],
)
async def test_a_refused_bind_says_why(api: FakeApi, writer: ApiWriter, answer: Reply, want: str) -> None:
    api.reply("POST", f"{POD}/binding", answer)
    outcome = await perform(writer, BIND)
    assert (outcome.verdict, ended(outcome), outcome.code) == ("refused", want, answer.status)


WRITES: list[tuple[ApiEffect, str, str]] = [
    (BIND, "POST", f"{POD}/binding"),
    (TOUCH, "PATCH", POD),
    (NOMINATE, "PATCH", f"{POD}/status"),
    (READ, "GET", POD),
]


@pytest.mark.parametrize(("effect", "method", "path"), WRITES, ids=["bind", "touch", "nominate", "read"])
@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (refuses(429), ("again", 1.0)),
        (refuses(429, "", **{"Retry-After": "7"}), ("again", 7.0)),
        (refuses(503), ("again", 0.0)),
        (refuses(503, "", **{"Retry-After": "3"}), ("again", 3.0)),
        (refuses(429, "", **{"Retry-After": "3600"}), ("again", 32.0)),
        (refuses(503, "", **{"Retry-After": "9" * 5000}), ("again", 32.0)),
        (refuses(503, "", **{"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}), ("again", 0.0)),
        (refuses(408), ("again", 0.0)),
        (refuses(500), ("unknown", 0.0)),
        (refuses(504), ("unknown", 0.0)),
        (refuses(403), ("refused", 0.0)),
        (refuses(400), ("refused", 0.0)),
    ],
    ids=[
        "429",
        "429 in 7 s",
        "503",
        "503 in 3 s",
        "429 in an hour",
        "503 never",
        "503 at a date",
        "408",
        "500",
        "504",
        "403",
        "400",
    ],
)
async def test_what_a_status_means(  # noqa: PLR0917
    api: FakeApi, writer: ApiWriter, effect: ApiEffect, method: str, path: str, answer: Reply, want: tuple[str, float]
) -> None:
    api.reply(method, path, answer)
    outcome = await perform(writer, effect)
    assert (outcome.verdict, outcome.after_seconds, outcome.code) == (*want, answer.status)


@pytest.mark.parametrize(("effect", "method", "path"), WRITES, ids=["bind", "touch", "nominate", "read"])
async def test_no_answer_is_unknown_and_no_connection_is_again(
    api: FakeApi, writer: ApiWriter, effect: ApiEffect, method: str, path: str
) -> None:
    api.reply(method, path, Reply(hang=True))
    async with anyio.create_task_group() as group:
        # Not a short time-out: on a busy machine it could end before the server has the request.
        group.start_soon(_time_passes_once_asked, api, 60.0)
        outcome = await writer.perform(effect, timeout_seconds=60.0)
    assert (outcome.verdict, outcome.event) == ("unknown", None)
    api.reply(method, path, Reply(drop=True), Reply(drop=True))
    assert (await perform(writer, effect)).verdict == "unknown"
    await api.stop()
    outcome = await perform(writer, effect)
    assert (outcome.verdict, outcome.event, outcome.code) == ("again", None, 0)


async def _time_passes_once_asked(api: FakeApi, seconds: float) -> None:
    """Sets the loop's clock forward as soon as the server has the request."""
    await api.was_asked(1)
    loop = asyncio.get_running_loop()
    clock = loop.time
    vars(loop)["time"] = lambda: clock() + seconds


async def test_each_activation_is_a_change(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", POD, pod(), pod())
    assert [(await perform(writer, TOUCH)).verdict for _ in range(2)] == ["done", "done"]
    bodies = [json.loads(asked.body) for asked in api.asked]
    texts = [body["metadata"].pop("annotations")["slackwater.dev/touched"] for body in bodies]
    assert texts == ["room was freed #1", "room was freed #2"]
    assert bodies == [{"metadata": {"uid": "u1"}}] * 2
    assert api.asked[0].headers["Content-Type"] == "application/merge-patch+json"


async def test_a_nomination_patches_the_status_of_that_pod_alone(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", f"{POD}/status", pod())
    assert await perform(writer, NOMINATE) == Outcome("done", 200)
    assert json.loads(api.asked[0].body) == {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": "n1"}}


@pytest.mark.parametrize(("effect", "path"), PATCHES, ids=["touch", "nominate"])
@pytest.mark.parametrize(
    ("code", "found", "want"),
    [
        (422, pod(node="n2"), ("refused", "n2")),
        (422, pod(uid="u2"), ("refused", "gone")),
        (409, pod(uid="u2"), ("refused", "gone")),
        (409, refuses(404), ("refused", "gone")),
        (409, pod(), ("again", None)),
    ],
    ids=["bound by now", "a successor", "a successor, in other words", "gone", "too many wrote at once"],
)
async def test_a_patch_that_does_not_apply_shows_what_became_of_the_pod(  # noqa: PLR0917
    api: FakeApi, writer: ApiWriter, effect: ApiEffect, path: str, code: int, found: Reply, want: tuple[str, Any]
) -> None:
    api.reply("PATCH", path, refuses(code))
    api.reply("GET", POD, found)
    outcome = await perform(writer, effect)
    match outcome.event:
        case PodRead(read):
            learned: Any = read.node
        case PodGone(uid, key, read=True):
            assert (uid, key) == (UID, KEY)
            learned = "gone"
        case other:
            pytest.fail(f"it taught {other}")
    assert (outcome.verdict, learned, outcome.code) == (*want, code)


@pytest.mark.parametrize(("effect", "path"), PATCHES, ids=["touch", "nominate"])
async def test_a_pod_that_is_gone_needs_no_patch(api: FakeApi, writer: ApiWriter, effect: ApiEffect, path: str) -> None:
    api.reply("PATCH", path, refuses(404))
    outcome = await perform(writer, effect)
    assert (outcome.verdict, outcome.event) == ("refused", PodGone(UID, KEY, read=True))


async def test_reading_a_pod_answers_the_pod_or_that_it_is_gone(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", POD, pod(node="n7"), pod(uid="u2"), refuses(404))
    outcome = await perform(writer, READ)
    assert isinstance(outcome.event, PodRead)
    assert outcome.event.pod.node == "n7"
    for _ in range(2):
        outcome = await perform(writer, READ)
        assert (outcome.verdict, outcome.event) == ("done", PodGone(UID, KEY, read=True))


async def test_a_pod_that_cannot_be_read_is_refused_by_name(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("GET", POD, Reply(body={"metadata": {"name": "web-1"}}))
    outcome = await perform(writer, READ)
    assert (outcome.verdict, outcome.event) == ("refused", None)
    assert "pod ns/web-1 cannot be read" in outcome.detail


async def test_the_servers_words_are_kept_but_not_without_end(api: FakeApi, writer: ApiWriter) -> None:
    api.reply("PATCH", POD, refuses(400, "no " + "x" * 10_000))
    detail = (await perform(writer, TOUCH)).detail
    assert detail.startswith("400 SomeReason: no xxx")
    assert detail.endswith(" ...")
    assert len(detail) < 600
