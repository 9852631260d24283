"""The state machine learns how each call of a node's removal ended, whatever happened to it."""

from dataclasses import replace

import pytest

from slackwater.model.effects import ApiEffect, Evict, MarkNode, UnmarkNode
from slackwater.model.events import Event, EvictionEnded, NodeMarked, NodeUnmarked, PodGone
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Taint
from slackwater.ports.protocols import Outcome
from tests.faults.virtualloop import virtual_time
from tests.support import installed
from tests.support.service import DONE, ScriptedWriter
from tests.unit.runtime.test_dispatcher import running

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture

NODE, UID, KEY = NodeName("n1"), PodUid("p1"), PodKey("default", "web")
MARK = MarkNode(uid="u1", name=NODE, taint=Taint("key", "1", "NoSchedule"))
UNMARK = UnmarkNode(uid="u1", name=NODE, taint_key="key")
EVICT = Evict(uid=UID, key=KEY, node=NODE)
GONE = PodGone(UID, KEY, read=True)
BLOCKED = EvictionEnded(UID, NODE, "blocked", "budget")
LATER = [Outcome("again", 503, "later")] * 1000


@pytest.mark.parametrize(
    ("effect", "outcomes", "want"),
    [
        (MARK, [DONE], [NodeMarked(NODE, "key", True, "")]),
        (MARK, [Outcome("refused", 404, "gone")], [NodeMarked(NODE, "key", False, "gone")]),
        (MARK, [Outcome("again", 409), DONE], [NodeMarked(NODE, "key", True, "")]),
        (MARK, LATER, [NodeMarked(NODE, "key", False, "later")]),
        (UNMARK, [DONE], [NodeUnmarked(NODE, "key", True, "")]),
        (UNMARK, LATER, [NodeUnmarked(NODE, "key", False, "later")]),
        (EVICT, [DONE], [EvictionEnded(UID, NODE, "accepted", "")]),
        (EVICT, [Outcome("done", 404, event=GONE)], [GONE, EvictionEnded(UID, NODE, "gone", "")]),
        (EVICT, [Outcome("refused", 429, "budget", event=BLOCKED)], [BLOCKED]),
        (EVICT, [Outcome("refused", 403, "no")], [EvictionEnded(UID, NODE, "refused", "no")]),
        (EVICT, LATER, [EvictionEnded(UID, NODE, "unreachable", "later")]),
    ],
)
async def test_the_end_of_each_call_is_reported_once(effect: ApiEffect, outcomes: list[Outcome], want: list[Event]) -> None:
    reported: list[Event] = []
    config = replace(installed.DISPATCHER, write_deadline=0.3)
    async with running(ScriptedWriter(script=list(outcomes)), config, reported.append) as dispatcher:
        await dispatcher.submit(effect).ended()
    assert reported == want


async def test_what_is_asked_of_one_node_is_done_in_order() -> None:
    writer = ScriptedWriter()
    async with running(writer) as dispatcher:
        first, second = dispatcher.submit(MARK), dispatcher.submit(UNMARK)
        await second.ended()
        await first.ended()
    assert writer.asked == [MARK, UNMARK]
