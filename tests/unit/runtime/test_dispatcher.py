"""Every effect ends, in order for each pod, within its time; equal ones are one; stopping is bounded."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import anyio
import pytest
import structlog
from msgspec import structs
from structlog.testing import capture_logs

from slackwater.model.effects import (
    Activate,
    Announce,
    ApiEffect,
    Bind,
    MarkNode,
    Nominate,
    ReadPod,
    Resize,
    UnmarkNode,
    WritePermit,
)
from slackwater.model.events import ActivationLost, BindEnded, Event
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Taint
from slackwater.model.resources import Amounts
from slackwater.ports.protocols import Outcome, Writer
from slackwater.runtime.dispatcher import Dispatcher, DispatcherConfig
from slackwater_protocol.units import Bytes, MilliCpu
from tests.faults.virtualloop import virtual_time
from tests.support import installed
from tests.support.service import DONE, ScriptedWriter, bound

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture

KEY, UID = PodKey("default", "p"), PodUid("uid-p")
BIND = Bind(UID, KEY, NodeName("n"))
TOUCH = Activate(UID, KEY, "why")


@dataclass
class SlowWriter:
    """Each write takes `seconds`."""

    seconds: float
    asked: list[ApiEffect] = field(default_factory=list)

    async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
        self.asked.append(effect)
        await anyio.sleep(self.seconds)
        return DONE


def other(number: int) -> Activate:
    return Activate(PodUid(f"uid-{number}"), PodKey("default", f"p{number}"), "why")


@asynccontextmanager
async def running(
    writer: Writer, config: DispatcherConfig | None = None, on_event: Callable[[Event], None] = lambda _: None
) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(writer, on_event, config or installed.DISPATCHER, rng=Random(1))
    async with anyio.create_task_group() as group:
        await group.start(dispatcher.run)
        yield dispatcher
        group.cancel_scope.cancel()


async def test_effects_on_one_pod_run_one_after_another_in_order() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    nominate = Nominate(UID, KEY, NodeName("n"))
    async with running(writer) as dispatcher:
        tickets = [dispatcher.submit(effect) for effect in (nominate, TOUCH, ReadPod(UID, KEY))]
        await anyio.wait_all_tasks_blocked()
        assert writer.asked == [nominate]
        assert writer.open_gate is not None
        writer.open_gate.set()
        for ticket in tickets:
            assert (await ticket.ended()).verdict == "done"
    assert writer.asked == [nominate, TOUCH, ReadPod(UID, KEY)]


async def test_a_waiting_equal_effect_is_joined_and_a_running_bind_too_but_not_a_running_activation() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        first = dispatcher.submit(BIND)
        await anyio.wait_all_tasks_blocked()
        assert dispatcher.submit(BIND) is first
        waiting = dispatcher.submit(TOUCH)
        assert dispatcher.submit(TOUCH) is waiting
        assert writer.open_gate is not None
        writer.open_gate.set()
        await waiting.ended()
        writer.open_gate = anyio.Event()
        running_touch = dispatcher.submit(TOUCH)
        await anyio.wait_all_tasks_blocked()
        # The running one may have been read by the API server before what the new one is about.
        assert dispatcher.submit(TOUCH) is not running_touch
        writer.open_gate.set()


def resize(milli_cpu: int) -> Resize:
    to = Amounts(MilliCpu(milli_cpu), Bytes(1 << 30))
    return Resize(uid=UID, key=KEY, container="c", to=to, limits=(True, True))


NODE = NodeName("n")
MARK = MarkNode(uid="node", name=NODE, taint=Taint("t", "", "NoSchedule"))
UNMARK = UnmarkNode(uid="node", name=NODE, taint_key="t")
ELSEWHERE = Bind(UID, KEY, NodeName("elsewhere"))
PERMIT = WritePermit(uid="uid-vm", key=PodKey("default", "vm"), on="pod", pod=PodUid("uid-vm"), before=None, text="{}")
NOMINATED = Activate(UID, KEY, "nominated")


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ([UNMARK, MARK, UNMARK, MARK], None),
        ([MARK, MARK, UNMARK, UNMARK], [MARK, MARK, UNMARK]),
        ([TOUCH, Nominate(UID, KEY, NODE), NOMINATED, Nominate(UID, KEY, NodeName("m")), NOMINATED], None),
        ([BIND, ELSEWHERE, BIND], [BIND, ELSEWHERE, BIND]),
        ([BIND, BIND, ELSEWHERE, ELSEWHERE], [BIND, ELSEWHERE]),
        ([resize(2000), resize(3000), resize(2000)], [resize(2000), resize(2000)]),
        ([TOUCH, resize(2000), resize(3000), resize(4000)], [TOUCH, resize(4000)]),
        ([TOUCH, resize(2000), NOMINATED, resize(3000)], None),
    ],
)
async def test_an_object_ends_at_what_was_asked_for_last(asked: list[ApiEffect], want: list[ApiEffect] | None) -> None:
    """The first is under way while the others are asked for. `want` None: each is carried out."""
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        tickets = [dispatcher.submit(asked[0])]
        await anyio.wait_all_tasks_blocked()
        tickets += [dispatcher.submit(effect) for effect in asked[1:]]
        assert writer.open_gate is not None
        writer.open_gate.set()
        for ticket in tickets:
            assert (await ticket.ended()).verdict == "done"
    assert writer.asked == (asked if want is None else want)


async def test_what_waits_for_one_object_is_bounded() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        tickets = [dispatcher.submit((MARK, UNMARK)[number % 2]) for number in range(200)]
        assert dispatcher.stats.waiting == 64
        assert tickets[-1] is tickets[63], "an equal one still joins the last"
        with anyio.fail_after(60):
            assert (await tickets[-2].ended()).verdict == "again", "what is too many is told so"
        other_node = dispatcher.submit(structs.replace(MARK, uid="another node"))
        assert writer.open_gate is not None
        writer.open_gate.set()
        assert (await other_node.ended()).verdict == "done"
        assert (await tickets[0].ended()).verdict == "done"


async def test_again_is_tried_again_and_refused_is_not() -> None:
    writer = ScriptedWriter(script=[Outcome("again", 503), Outcome("again", 429, after_seconds=0.05), Outcome("refused", 422)])
    async with running(writer) as dispatcher:
        started = anyio.current_time()
        assert (await dispatcher.submit(TOUCH).ended()).code == 422
        assert anyio.current_time() - started >= 0.05
    assert writer.asked == [TOUCH] * 3


@pytest.mark.parametrize(
    ("script", "want"),
    [
        ([Outcome("again", 503)] * 100, "unreachable"),
        ([Outcome("unknown", 0), *[Outcome("again", 503)] * 100], "unknown"),
        ([Outcome("unknown", 0), Outcome("refused", 403, "no")], "unknown"),
        ([Outcome("refused", 403, "no")], "refused"),
        ([Outcome("done", 201)], "bound"),
    ],
    ids=["never-reached", "lost-then-unreachable", "lost-then-refused", "refused", "done"],
)
async def test_a_bind_always_ends_as_an_event_that_says_what_is_known(script: list[Outcome], want: str) -> None:
    events: list[Event] = []
    async with running(
        ScriptedWriter(script=script), replace(installed.DISPATCHER, bind_seconds=0.3), events.append
    ) as dispatcher:
        await dispatcher.submit(BIND).ended()
    assert [event.outcome for event in events if isinstance(event, BindEnded)] == [want]


async def test_an_effect_that_may_not_be_tried_again_in_time_gives_its_place_back_at_once() -> None:
    """The API server asks for more time than is left: the wait would hold one of the few places for nothing."""
    writer = ScriptedWriter(script=[Outcome("again", 429, after_seconds=3200.0)])
    async with running(writer, replace(installed.DISPATCHER, max_concurrent_writes=1, write_deadline=2000.0)) as dispatcher:
        with anyio.fail_after(60):
            assert (await dispatcher.submit(TOUCH).ended()).verdict == "again"
            assert (await dispatcher.submit(other(1)).ended()).verdict == "done"


async def test_a_call_that_never_answers_ends_at_the_deadline_as_unknown() -> None:
    events: list[Event] = []
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(
        writer, replace(installed.DISPATCHER, bind_seconds=0.1, attempt_seconds=1000), events.append
    ) as dispatcher:
        with anyio.fail_after(60):
            assert (await dispatcher.submit(BIND).ended()).verdict == "unknown"
    assert events == [BindEnded(UID, NodeName("n"), "unknown", "no answer in time")]


async def test_the_state_machine_is_notified_before_the_waiting_caller() -> None:
    order: list[str] = []
    async with running(ScriptedWriter(), on_event=lambda _: order.append("world")) as dispatcher:
        await dispatcher.submit(BIND).ended()
        order.append("handler")
    assert order == ["world", "handler"]


async def test_a_writer_that_raises_ends_only_its_own_effect() -> None:
    class Broken(ScriptedWriter):
        async def perform(self, effect: ApiEffect, *, timeout_seconds: float | None) -> Outcome:
            if effect == TOUCH:
                raise KeyError("bug")
            return await super().perform(effect, timeout_seconds=timeout_seconds)

    async with running(Broken(), replace(installed.DISPATCHER, write_deadline=0.2)) as dispatcher:
        broken, fine = dispatcher.submit(TOUCH), dispatcher.submit(other(1))
        assert (await fine.ended()).verdict == "done"
        assert (await broken.ended()).verdict == "unknown"
        assert (await dispatcher.submit(ReadPod(UID, KEY)).ended()).verdict == "done"


async def test_writes_are_bounded_and_never_hold_up_a_bind() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer, replace(installed.DISPATCHER, max_concurrent_writes=2)) as dispatcher:
        for number in range(5):
            dispatcher.submit(Nominate(PodUid(f"uid-{number}"), PodKey("default", f"p{number}"), NodeName("n")))
        dispatcher.submit(BIND)
        await anyio.wait_all_tasks_blocked()
        assert sorted(type(effect).__name__ for effect in writer.asked) == ["Bind", "Nominate", "Nominate"]
        assert writer.open_gate is not None
        writer.open_gate.set()


async def test_stopping_lets_what_is_under_way_end_and_refuses_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.runtime.dispatcher._log", structlog.get_logger())  # other tests configure the old one
    writer = ScriptedWriter(open_gate=anyio.Event())
    dispatcher = Dispatcher(writer, lambda _: None, installed.DISPATCHER, rng=Random(1))
    async with anyio.create_task_group() as outer, anyio.create_task_group() as group:
        await group.start(dispatcher.run)
        ticket = dispatcher.submit(BIND)
        await anyio.wait_all_tasks_blocked()
        outer.start_soon(_open_soon, writer)
        group.cancel_scope.cancel()
    assert ticket.latest == bound(BIND)
    with capture_logs() as lines:
        assert dispatcher.submit(TOUCH).latest.verdict == "again"
    assert [(line["log_level"], line["pod"]) for line in lines] == [("info", str(TOUCH.key))]


async def _open_soon(writer: ScriptedWriter) -> None:
    await anyio.sleep(0.05)
    assert writer.open_gate is not None
    writer.open_gate.set()


#: Nothing but the end of the dispatcher bounds a call.
UNHURRIED = replace(installed.DISPATCHER, bind_seconds=1000, write_deadline=1000, attempt_seconds=1000, flush_seconds=0.1)


async def test_stopping_is_bounded() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    with anyio.fail_after(60):
        async with running(writer, UNHURRIED) as dispatcher:
            ticket = dispatcher.submit(BIND)
            await anyio.wait_all_tasks_blocked()
    assert (await ticket.ended()).verdict == "unknown"


async def test_announcements_are_dropped_under_load_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.runtime.dispatcher._log", structlog.get_logger())  # other tests configure the old one
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        with capture_logs() as lines:
            for number in range(1001):
                dispatcher.submit(Announce(UID, KEY, "Warning", "R", str(number)))
        assert [(line["log_level"], line["detail"]) for line in lines] == [("warning", "too many writes wait")]
        assert dispatcher.stats.dropped_announcements == 1
        assert writer.open_gate is not None
        writer.open_gate.set()


async def test_nothing_is_left_in_the_dispatcher_once_all_ended() -> None:
    async with running(ScriptedWriter(script=[DONE] * 50)) as dispatcher:
        for ticket in [dispatcher.submit(other(number)) for number in range(50)]:
            await ticket.ended()
        assert dispatcher.stats.waiting == 0


async def test_a_bind_does_not_wait_behind_an_activation_of_its_own_pod() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        dispatcher.submit(TOUCH)
        dispatcher.submit(BIND)
        await anyio.wait_all_tasks_blocked()
        assert sorted(type(effect).__name__ for effect in writer.asked) == ["Activate", "Bind"]
        assert writer.open_gate is not None
        writer.open_gate.set()


async def test_stopping_is_bounded_for_what_waits_in_a_lane_too() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    with anyio.fail_after(60):
        async with running(writer, UNHURRIED) as dispatcher:
            for effect in (Nominate(UID, KEY, NodeName("n")), TOUCH, ReadPod(UID, KEY)):
                dispatcher.submit(effect)
            await anyio.wait_all_tasks_blocked()


async def test_an_activation_that_is_given_up_is_reported() -> None:
    events: list[Event] = []
    script = [Outcome("again", 503)] * 100
    async with running(
        ScriptedWriter(script=script), replace(installed.DISPATCHER, write_deadline=0.2), events.append
    ) as dispatcher:
        await dispatcher.submit(TOUCH).ended()
    assert events == [ActivationLost(UID, KEY, "why")]


async def test_binds_are_queued_where_all_are_under_way_and_one_is_slow() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    binds = [Bind(PodUid(f"uid-{number}"), PodKey("default", f"p{number}"), NodeName("n")) for number in range(3)]
    async with running(writer, replace(installed.DISPATCHER, max_binds=3)) as dispatcher:
        tickets = [dispatcher.submit(bind) for bind in binds[:2]]
        await anyio.sleep(0.6)
        assert not dispatcher.binds_are_queued(), "two are slow, and a third may begin at once"
        tickets.append(dispatcher.submit(binds[2]))
        assert dispatcher.binds_are_queued()
        assert writer.open_gate is not None
        writer.open_gate.set()
        for ticket in tickets:
            await ticket.ended()
        await anyio.wait_all_tasks_blocked()
        assert not dispatcher.binds_are_queued()
        writer.open_gate = anyio.Event()
        for bind in binds:
            dispatcher.submit(bind)
        assert not dispatcher.binds_are_queued(), "many, and just begun"
        writer.open_gate.set()


async def test_a_former_leader_ends_its_writes_at_once() -> None:
    """Nobody may write for it any longer: the next leader decides already."""
    writer, leads = ScriptedWriter(open_gate=anyio.Event()), True
    config = replace(UNHURRIED, flush_seconds=5.0)
    dispatcher = Dispatcher(writer, lambda _: None, config, rng=Random(1), leads=lambda: leads)
    async with anyio.create_task_group() as group:
        await group.start(dispatcher.run)
        ticket = dispatcher.submit(BIND)
        await anyio.wait_all_tasks_blocked()
        leads, stopped_at = False, anyio.current_time()
        group.cancel_scope.cancel()
    assert anyio.current_time() - stopped_at < 0.1
    assert ticket.latest.verdict == "unknown"


async def test_ten_thousand_activations_delay_no_permit_and_run_at_a_bounded_rate() -> None:
    """A configuration change activates every refused pod. Before, a permit queued behind them: 12 s at 20 ms a write."""
    writer = SlowWriter(seconds=0.02)
    async with running(writer) as dispatcher:
        tickets = [dispatcher.submit(other(number)) for number in range(10_000)]
        await anyio.sleep(1)
        began = anyio.current_time()
        await dispatcher.submit(PERMIT).ended()
        assert anyio.current_time() - began <= 0.021
        assert 150 <= sum(isinstance(effect, Activate) for effect in writer.asked) <= 210
        for ticket in tickets:
            assert (await ticket.ended()).verdict == "done"
        assert anyio.current_time() - began < 60
        assert dispatcher.stats.waiting == 0


async def test_activations_that_wait_for_long_are_not_given_up_and_do_not_come_twice() -> None:
    writer = SlowWriter(seconds=1.0)
    events: list[Event] = []
    async with running(writer, replace(installed.DISPATCHER, write_deadline=5.0), events.append) as dispatcher:
        tickets = [dispatcher.submit(other(number)) for number in range(100)]
        await anyio.sleep(3)
        assert dispatcher.submit(structs.replace(other(99), why="newer")) is tickets[99], "merged with the one that waits"
        began = anyio.current_time()
        await dispatcher.submit(PERMIT).ended()
        assert anyio.current_time() - began <= 1.001
        for ticket in tickets:
            await ticket.ended()
    assert events == []
    assert len(writer.asked) == 101
    assert structs.replace(other(99), why="newer") in writer.asked


async def test_an_activation_that_follows_a_nomination_goes_with_it() -> None:
    writer = SlowWriter(seconds=0.02)
    async with running(writer) as dispatcher:
        for number in range(1000):
            dispatcher.submit(other(number))
        await anyio.sleep(0.1)
        began = anyio.current_time()
        dispatcher.submit(Nominate(UID, KEY, NodeName("n")))
        await dispatcher.submit(NOMINATED).ended()
        assert anyio.current_time() - began < 0.1


async def test_a_stop_drops_the_activations_that_wait() -> None:
    writer = SlowWriter(seconds=0.02)
    async with running(writer) as dispatcher:
        tickets = [dispatcher.submit(other(number)) for number in range(100)]
        await anyio.sleep(0.001)
    assert [(await ticket.ended()).verdict for ticket in tickets].count("again") == 96
    assert dispatcher.stats.waiting == 0
