"""Events for people: merged, few, bounded, and never in the way."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.event_recorder import Recorder, RecorderConfig
from slackwater.model.effects import Announce
from slackwater.model.ids import PodKey, PodUid
from slackwater.ports.protocols import Outcome
from tests.support.fakeapi import FakeApi, Reply, status

pytestmark = pytest.mark.anyio

EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
NOTE = Announce(PodUid("u1"), PodKey("ns", "web-1"), "Warning", "BindDenied", "no room left on n1")
CREATED = Reply(status=201)


@dataclass
class Watch:
    """Time, told to the recorder."""

    seconds: float = 0.0
    start: datetime = field(default=datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=UTC))

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def clock(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Watch:
    return Watch()


@pytest.fixture
def recorder(client: KubeClient, time: Watch) -> Recorder:
    config = RecorderConfig(per_second=1.0, burst=3, max_entries=2)
    return Recorder(client, instance="slackwater-0", now=time.now, clock=time.clock, config=config)


async def announce(recorder: Recorder, effect: Announce = NOTE) -> Outcome:
    return await recorder.announce(effect, timeout_seconds=60)


async def test_an_event_has_its_reporter_action_and_object(api: FakeApi, recorder: Recorder) -> None:
    api.reply("POST", EVENTS, CREATED)
    assert (await announce(recorder)).verdict == "done"
    event = json.loads(api.asked[0].body)
    name = event["metadata"].pop("name")
    assert name.startswith("web-1.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "2026-01-01T12:00:00.000250Z",
        "reportingController": "slackwater.dev/slackwater",
        "reportingInstance": "slackwater-0",
        "action": "Scheduling",
        "reason": "BindDenied",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "web-1", "uid": "u1"},
        "note": "no room left on n1",
        "type": "Warning",
    }


async def test_an_event_about_a_node_is_kept_where_people_look_for_such(api: FakeApi, recorder: Recorder) -> None:
    api.reply("POST", EVENTS.replace("/ns/", "/default/"), CREATED)
    note = Announce(PodUid("u1"), PodKey("", "n1"), "Normal", "ScaleDown", "not needed", about="Node")
    assert (await announce(recorder, note)).verdict == "done"
    event = json.loads(api.asked[0].body)
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}


async def test_the_same_words_become_one_event_with_a_series(api: FakeApi, recorder: Recorder, time: Watch) -> None:
    api.reply("POST", EVENTS, CREATED)
    await announce(recorder)
    name = json.loads(api.asked[0].body)["metadata"]["name"]
    api.reply("PATCH", f"{EVENTS}/{name}", Reply(), Reply())
    for _ in range(3):
        time.seconds += 4
        assert (await announce(recorder)).verdict == "done"
    [patched] = api.asked[1:]
    assert json.loads(patched.body) == {"series": {"count": 4, "lastObservedTime": "2026-01-01T12:00:12.000250Z"}}


async def test_after_five_quiet_minutes_the_same_words_are_a_new_event(api: FakeApi, recorder: Recorder, time: Watch) -> None:
    api.reply("POST", EVENTS, CREATED, CREATED)
    await announce(recorder)
    time.seconds += 300
    await announce(recorder)
    names = {json.loads(asked.body)["metadata"]["name"] for asked in api.asked}
    assert (len(api.asked), len(names)) == (2, 2)


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(NOTE, note="no room on n2"),
        structs.replace(NOTE, reason="Nominated"),
        structs.replace(NOTE, uid=PodUid("u2")),
    ],
    ids=["note", "reason", "pod"],
)
async def test_other_words_are_another_event(api: FakeApi, recorder: Recorder, other: Announce) -> None:
    api.reply("POST", EVENTS, CREATED, CREATED)
    await announce(recorder)
    await announce(recorder, other)
    names = {json.loads(asked.body)["metadata"]["name"] for asked in api.asked}
    assert (len(api.asked), len(names)) == (2, 2)


async def test_what_is_too_much_is_dropped_and_counted(api: FakeApi, recorder: Recorder, time: Watch) -> None:
    api.reply("POST", EVENTS, *[CREATED] * 5)
    outcomes = [await announce(recorder, structs.replace(NOTE, note=f"note {number}")) for number in range(10)]
    assert [outcome.verdict for outcome in outcomes] == ["done"] * 3 + ["refused"] * 7
    assert outcomes[-1].detail == "more than 1 Events a second: dropped"
    time.seconds += 2
    outcomes = [await announce(recorder, structs.replace(NOTE, note=f"later {number}")) for number in range(3)]
    assert [outcome.verdict for outcome in outcomes] == ["done", "done", "refused"]
    assert (recorder.dropped, len(api.asked)) == (8, 5)


async def test_a_failed_event_is_not_tried_again_by_anyone(api: FakeApi, recorder: Recorder) -> None:
    api.reply("POST", EVENTS, Reply(status=503), Reply(drop=True), Reply(status=403, body=status(403, "Forbidden", "no")))
    outcomes = [await announce(recorder) for _ in range(3)]
    assert [outcome.verdict for outcome in outcomes] == ["refused"] * 3
    assert outcomes[2].detail == "403 Forbidden: no"
    assert len(api.asked) == 3


async def test_a_series_whose_event_has_expired_begins_again(api: FakeApi, recorder: Recorder, time: Watch) -> None:
    api.reply("POST", EVENTS, CREATED, CREATED)
    await announce(recorder)
    time.seconds += 20
    assert (await announce(recorder)).code == 404, "the fake has no such Event any more"
    await announce(recorder)
    assert [asked.method for asked in api.asked] == ["POST", "PATCH", "POST"]


async def test_memory_is_bounded_and_the_oldest_words_are_forgotten_first(
    api: FakeApi, recorder: Recorder, time: Watch
) -> None:
    api.reply("POST", EVENTS, *[CREATED] * 4)
    for note in ("a", "b", "c", "a"):  # two are remembered, so "a" is new again
        time.seconds += 1
        await announce(recorder, structs.replace(NOTE, note=note))
    assert [asked.method for asked in api.asked] == ["POST"] * 4


async def test_a_long_note_is_visibly_cut_to_what_the_api_takes(api: FakeApi, recorder: Recorder) -> None:
    api.reply("POST", EVENTS, CREATED)
    await announce(recorder, structs.replace(NOTE, note="ü" * 2000))
    note = json.loads(api.asked[0].body)["note"]
    assert note == "ü" * 510 + " ..."


async def test_a_long_pod_name_still_makes_a_valid_name(api: FakeApi, recorder: Recorder) -> None:
    api.reply("POST", EVENTS, CREATED)
    await announce(recorder, structs.replace(NOTE, key=PodKey("ns", "x" * 240 + "-" + "y" * 12)))
    name = json.loads(api.asked[0].body)["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name
