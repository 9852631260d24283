"""The time line: the newest decisions of each kind, whatever the others do."""

from itertools import count

import pytest

from slackwater.cluster.nodegroups.status import Grow
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.model.effects import Activate, Bind, Evict, MarkNode, WritePermit
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Taint
from slackwater.ports.protocols import Outcome
from slackwater.runtime.autoscaler.loop_record import LoopRecord
from slackwater.runtime.decision_log import DecisionLog, DecisionLoggingWriter

DONE = Outcome("done")


def a_timeline() -> DecisionLog:
    seconds = count(100)
    return DecisionLog(lambda: float(next(seconds)))


def a_bind(name: str) -> Bind:
    return Bind(PodUid(name), PodKey("default", name), NodeName("n1"))


def an_eviction(name: str) -> Evict:
    return Evict(uid=PodUid(name), key=PodKey("default", name), node=NodeName("n2"))


def test_the_newest_come_first_with_what_became_of_them() -> None:
    decision_log = a_timeline()
    decision_log.note(a_bind("a"), DONE)
    decision_log.note(a_bind("b"), Outcome("refused", code=409, detail="already assigned"))
    reported = [(found.name, found.kind, found.verdict, found.text, found.at) for found in decision_log.newest(9)]
    assert reported == [
        ("default/b", "bind", "refused", "to n1: already assigned", 101.0),
        ("default/a", "bind", "done", "to n1", 100.0),
    ]


def test_many_binds_do_not_push_out_the_one_eviction() -> None:
    decision_log = a_timeline()
    decision_log.note(an_eviction("v"), DONE)
    for number in range(5000):
        decision_log.note(a_bind(f"p{number}"), DONE)
    found = decision_log.newest(1000)
    assert found[0].name == "default/p4999"
    assert (found[-1].kind, found[-1].name) == ("evict", "default/v")
    assert len(found) == 501, "five hundred of each kind"
    assert len(decision_log.newest(7)) == 7
    assert decision_log.number == 5001


def test_what_decides_nothing_is_not_logged() -> None:
    decision_log = a_timeline()
    decision_log.note(Activate(PodUid("a"), PodKey("default", "a"), "room"), DONE)
    assert decision_log.newest(9) == []


def test_each_decision_links_to_an_object_that_can_be_explained() -> None:
    decision_log = a_timeline()
    taint = Taint("t", "", "NoSchedule")
    decision_log.note(MarkNode(uid="n", name=NodeName("n1"), taint=taint), DONE)
    key = PodKey("default", "vm")
    for on in ("machine", "pod"):
        decision_log.note(WritePermit(uid="m", key=key, on=on, pod=PodUid("p"), before=None, text="?"), DONE)
    assert [(found.about, found.name) for found in decision_log.newest(9)] == [
        ("pods", "default/vm"),
        ("", "default/vm"),
        ("nodes", "n1"),
    ]


def test_a_loop_logs_what_it_requested_and_began() -> None:
    decision_log = a_timeline()
    grow = Grow(group=GroupName("g"), provider="cloud", seen=2, to=5)
    record = LoopRecord(
        number=1,
        at=UnixTime(7.0),
        instant=Instant(7.0),
        generation=Generation(1),
        asked=[(grow, None)],
        scale_down=ScaleDownRecord(begun=(NodeName("n9"),)),
    )
    decision_log.loop(record)
    reported = [(found.kind, found.about, found.name, found.text) for found in decision_log.newest(9)]
    assert reported == [
        ("remove node", "nodes", "n9", "removal begins"),
        ("grow", "groups", "g", "from 2 to 5 nodes"),
    ]


class Refusing:
    async def perform(self, _effect: object, *, timeout_seconds: float | None) -> Outcome:
        assert timeout_seconds == 3.0
        return Outcome("refused")


@pytest.mark.anyio
async def test_the_writers_answer_passes_through_unchanged() -> None:
    decision_log = a_timeline()
    telling = DecisionLoggingWriter(Refusing(), decision_log)
    assert await telling.perform(a_bind("a"), timeout_seconds=3.0) == Outcome("refused")
    assert [found.verdict for found in decision_log.newest(9)] == ["refused"]
