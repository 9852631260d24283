"""Warnings from the queue: what becomes of each message, and when the queue is read."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from slackwater.adapters.cloud.aws.interruptions import InterruptionQueue
from slackwater.model.nodegroups import InstanceId, MachineWarning
from tests.support.awswire import RefusedRequest, client_of
from tests.support.fake_ec2 import FakeEc2

pytestmark = [pytest.mark.anyio]

AT = 1_700_000_000.0
URL = "https://sqs.eu-west-1.amazonaws.com/1/slackwater"


class Scene:
    def __init__(self) -> None:
        self.ec2 = FakeEc2(now=lambda: AT)
        self.machine = self.ec2.has("asg", desired=1).machines[0]
        self.warnings: list[MachineWarning] = []
        self.takes = True
        self.reads = True
        self.queue: InterruptionQueue

    def name_of(self, id_: str) -> InstanceId | None:
        return InstanceId(self.machine.provider_id) if id_ == self.machine.id else None

    def take(self, warning: MachineWarning) -> bool:
        self.warnings.append(warning)
        return self.takes


@pytest.fixture
async def scene(anyio_backend: str) -> AsyncIterator[Scene]:
    scene = Scene()
    async with client_of(scene.ec2.answer) as client:
        scene.queue = InterruptionQueue(
            client, URL, name_of=scene.name_of, take=scene.take, reads=lambda: scene.reads, now=lambda: AT
        )
        yield scene


async def test_an_interruption_says_when_its_machine_stops(scene: Scene) -> None:
    scene.ec2.interrupt(scene.machine.id)
    assert await scene.queue.once()
    (warning,) = scene.warnings
    assert (warning.machine, warning.stops_at) == (scene.machine.provider_id, AT + 120)
    assert scene.ec2.messages == {}


@pytest.mark.parametrize(
    ("sent", "stops"),
    [(AT - 60, [AT + 60]), (AT + 3600, [AT + 120]), (AT + 10**10, [AT + 120]), (AT - 3600, []), (0.0, [])],
    ids=["a minute ago", "by a clock ahead of ours", "in the year 2340", "an hour ago", "in 1970"],
)
async def test_a_machine_stops_within_two_minutes_and_a_warning_of_long_ago_was_wrong(
    scene: Scene, sent: float, stops: list[float]
) -> None:
    scene.ec2.now = lambda: sent
    scene.ec2.send("EC2 Spot Instance Interruption Warning", {"instance-id": scene.machine.id})
    scene.ec2.now = lambda: AT
    assert await scene.queue.once()
    assert ([warning.stops_at for warning in scene.warnings], scene.ec2.messages) == (stops, {})


async def test_a_recommendation_says_no_time(scene: Scene) -> None:
    scene.ec2.interrupt(scene.machine.id, "EC2 Instance Rebalance Recommendation")
    assert await scene.queue.once()
    assert [warning.stops_at for warning in scene.warnings] == [None]


async def test_what_was_not_taken_comes_again(scene: Scene) -> None:
    scene.takes = False
    scene.ec2.interrupt(scene.machine.id)
    scene.ec2.send("EC2 Instance State-change Notification", {"instance-id": scene.machine.id, "state": "pending"})
    assert not await scene.queue.once()
    assert len(scene.ec2.messages) == 1
    scene.takes = True
    assert await scene.queue.once()
    assert (len(scene.warnings), scene.ec2.messages) == (2, {})


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "7", "{}", "null", json.dumps({"detail-type": "EC2 Spot Instance Interruption Warning"}), "[" * 100_000]
    + [
        json.dumps({"detail-type": "EC2 Spot Instance Interruption Warning", "time": time, "detail": {"instance-id": id_}})
        for time, id_ in [("yesterday", "i-1"), ("2026-01-01T00:00:00Z", 7), ("2026-01-01T00:00:00Z", "i-of-others")]
    ],
)
async def test_other_messages_are_deleted_and_say_nothing(scene: Scene, body: str) -> None:
    scene.ec2.messages["receipt"] = body
    assert await scene.queue.once()
    assert (scene.warnings, scene.ec2.messages) == ([], {})


async def test_a_long_message_is_not_logged_whole(scene: Scene) -> None:
    event = {"detail-type": "EC2 Spot Instance Interruption Warning", "time": "9" * 100_000, "detail": {"instance-id": "i-1"}}
    scene.ec2.messages["receipt"] = json.dumps(event)
    with capture_logs() as logs:
        assert await scene.queue.once()
    assert [len(line["problem"]) < 1000 for line in logs] == [True]


async def test_it_is_read_only_by_a_leader_and_a_queue_that_refuses_is_tried_again(scene: Scene, monkeypatch: Any) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        scene.reads = len(pauses) > 1
        if len(pauses) == 4:
            raise anyio.get_cancelled_exc_class()
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr("slackwater.adapters.cloud.aws.interruptions.anyio.sleep", sleep)
    scene.reads, scene.takes = False, False
    scene.ec2.errors.append(RefusedRequest("AccessDenied", "sqs:ReceiveMessage", 403))
    scene.ec2.interrupt(scene.machine.id)
    with capture_logs() as logs, pytest.raises(anyio.get_cancelled_exc_class()):
        await scene.queue.run()
    assert pauses == [5.0] * 4
    assert scene.ec2.calls["ReceiveMessage"] == 2, "not before it may"
    assert [entry["problem"] for entry in logs] == ["receive_message: AccessDenied: sqs:ReceiveMessage"]
