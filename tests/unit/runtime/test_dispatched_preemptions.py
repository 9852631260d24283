"""The state machine learns how each call of a preemption ended, whatever happened to it."""

from dataclasses import replace

import anyio
import pytest

from slackwater.model.effects import Bind, DeleteVictim, WritePreempting
from slackwater.model.events import (
    Event,
    PodGone,
    PreemptingNotWritten,
    PreemptingWritten,
    VictimEnded,
)
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.ports.protocols import Outcome
from tests.faults.virtualloop import virtual_time
from tests.support import installed
from tests.support.service import DONE, ScriptedWriter
from tests.unit.runtime.test_dispatcher import running

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture

KEY, UID = PodKey("default", "v"), PodUid("uid-v")
VICTIM = DeleteVictim(UID, KEY, PodKey("default", "p"))
NOTE = WritePreempting(UID, KEY, "text")
GONE = PodGone(UID, KEY, read=True)


@pytest.mark.parametrize(
    ("outcomes", "want"),
    [
        ([DONE], [VictimEnded(UID, "accepted", "")]),
        ([Outcome("done", 404, event=GONE)], [GONE]),
        ([Outcome("refused", 403, "no")], [VictimEnded(UID, "refused", "no")]),
        ([Outcome("again", 429), Outcome("unknown"), DONE], [VictimEnded(UID, "accepted", "")]),
    ],
    ids=["accepted", "gone", "refused", "retried"],
)
async def test_the_end_of_a_victims_deletion_is_reported(outcomes: list[Outcome], want: list[Event]) -> None:
    reported: list[Event] = []
    async with running(ScriptedWriter(script=outcomes), on_event=reported.append) as dispatcher:
        await dispatcher.submit(VICTIM).ended()
    assert reported == want


@pytest.mark.parametrize("effect", [VICTIM, NOTE], ids=["victim", "annotation"])
async def test_a_call_that_never_succeeds_ends_within_its_time(effect: DeleteVictim | WritePreempting) -> None:
    reported: list[Event] = []
    writer = ScriptedWriter(script=[Outcome("again", 503, "later")] * 1000)
    config = replace(installed.DISPATCHER, write_deadline=0.2)
    async with running(writer, config, reported.append) as dispatcher:
        await dispatcher.submit(effect).ended()
    want = VictimEnded(UID, "unreachable", "later") if effect is VICTIM else PreemptingNotWritten(UID, "text", "later")
    assert reported == [want]


async def test_what_the_annotations_write_found_is_reported_before_its_end() -> None:
    reported: list[Event] = []
    outcomes = [DONE, Outcome("refused", 404, "gone", event=GONE)]
    async with running(ScriptedWriter(script=outcomes), on_event=reported.append) as dispatcher:
        await dispatcher.submit(NOTE).ended()
        await dispatcher.submit(NOTE).ended()
    assert reported == [PreemptingWritten(UID, "text"), GONE, PreemptingNotWritten(UID, "text", "gone")]


async def test_one_deletion_for_each_victim_also_while_it_runs() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    async with running(writer) as dispatcher:
        first = dispatcher.submit(VICTIM)
        await anyio.wait_all_tasks_blocked()
        assert dispatcher.submit(VICTIM) is first
        assert writer.open_gate is not None
        writer.open_gate.set()
        await first.ended()
    assert writer.asked == [VICTIM]


async def test_preemptions_have_a_width_of_their_own() -> None:
    writer = ScriptedWriter(open_gate=anyio.Event())
    bind = Bind(PodUid("uid-b"), PodKey("default", "b"), NodeName("n"))
    async with running(
        writer, replace(installed.DISPATCHER, max_preemptions=2, max_binds=1, max_concurrent_writes=1)
    ) as dispatcher:
        for number in range(5):
            dispatcher.submit(DeleteVictim(PodUid(f"uid-{number}"), KEY, PodKey("default", "p")))
        dispatcher.submit(bind)
        await anyio.wait_all_tasks_blocked()
        assert len(writer.asked) == 3
        assert bind in writer.asked
        assert writer.open_gate is not None
        writer.open_gate.set()
