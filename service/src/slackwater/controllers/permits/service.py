"""Answers agents: asks the state machine, persists the permit limit before answering if needed, and makes requests wait for
room or for a write.

A request costs one call of the state machine; only growth above the permit limit waits for a write, and only a request with
`wait_seconds` waits for room. Deliberately absent: the protocol (`adapters/http` reads it) and the decision (the state
machine).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import structlog

from slackwater.model.effects import Effect
from slackwater.model.events import BindEnded
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitDecision, PermitRefusal
from slackwater.runtime.state_machine import StateMachine

_log = structlog.get_logger(__name__)

#: How long, up to one tick more, an answer may wait until its permit limit is written. Then the agent gets what is persisted,
#: and asks again. Agents give a request up after 2 s at the earliest.
WRITE_SECONDS: Final = 1.5
#: How long a bind waits for other pods' lower permits to be written. With the bind itself this is less than kube-scheduler
#: waits. After that the bind is refused, and kube-scheduler tries the pod again.
RECORD_SECONDS: Final = 0.5
#: The longest wait for room, even if the agent asks for a longer one.
LONGEST_WAIT_SECONDS: Final = 60.0
#: The least time between two log lines about permits not written in time: after a restart of a large cluster there are many.
_LATE_LOG_SECONDS: Final = 10.0


class PermitService:
    """Answers agents' requests for permits; implements `ports.protocols.PermitServing`. Call `wake` after each change of the
    state machine."""

    def __init__(
        self, state_machine: StateMachine, submit: Callable[[Iterable[Effect]], None], clock: Callable[[], Instant]
    ) -> None:
        self._state_machine = state_machine
        self._persisted_permits = state_machine.permit_limits.persisted_permits
        self._submit = submit
        self._clock = clock
        self._for_permit_limit: dict[PodUid, anyio.Event] = {}
        #: The waits for writes as (latest end, pod, event), the earliest first. A tick ends them, because a timer for each wait
        #: would cost as much as the answer.
        self._ends: deque[tuple[Instant, PodUid, anyio.Event]] = deque()
        self._for_room: dict[Row, anyio.Event] = {}
        #: The newest wait for room of each pod.
        self._waits: dict[PodUid, anyio.CancelScope] = {}
        self._for_persisted_permit: dict[NodeName, anyio.Event] = {}
        self.waiting = 0  #: agents that wait for room now
        self._settled, self._freed = set[PodUid](), set[int]()
        state_machine.permit_limits.settled.add_reader(self._settled)
        state_machine.state.nodes.freed.add_reader(self._freed)
        self._late = 0  #: permits that were not written in time since the last log line about them
        self._answer_late_at = Instant(0.0)

    def ask(
        self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None
    ) -> PermitAnswer | PermitRefusal | Awaitable[PermitAnswer | PermitRefusal]:
        decided = self._decide(ask, caller)
        if isinstance(decided, PermitRefusal):
            return decided
        # Deciding the pod's earlier request again would undo the decision about this one.
        if (earlier := self._waits.pop(decided.uid, None)) is not None:
            earlier.cancel()
        if wait_seconds > 0 and _waits_for_room(decided):
            wait = self._waits[decided.uid] = anyio.move_on_after(min(wait_seconds, LONGEST_WAIT_SECONDS))
            return self._answer_with_room(ask, caller, decided, self._room(decided), wait)
        return self._answer(ask, decided)

    def _answer(
        self, ask: PermitAsk, decided: PermitDecision
    ) -> PermitAnswer | Awaitable[PermitAnswer | PermitRefusal] | PermitRefusal:
        answer = self._state_machine.permit_answer(decided)
        if isinstance(answer, PermitAnswer) and answer.permit_limit_pending:
            return self._answer_when_written(ask, decided, self._permit_limit(decided.uid))
        return answer

    async def _answer_when_written(
        self, ask: PermitAsk, decided: PermitDecision, written: anyio.Event
    ) -> PermitAnswer | PermitRefusal:
        await written.wait()
        answer = self._state_machine.permit_answer(decided)
        if isinstance(answer, PermitAnswer) and answer.permit_limit_pending:
            self._late, now = self._late + 1, self._clock()
            if now >= self._answer_late_at:
                reason = "what was written before"
                _log.warning("permits not written in time", permits=self._late, last=str(ask.key), answered=reason)
                self._late, self._answer_late_at = 0, Instant(now + _LATE_LOG_SECONDS)
        return answer

    def _decide(self, ask: PermitAsk, caller: Caller | None) -> PermitDecision | PermitRefusal:
        decided = self._state_machine.ask_permit(ask, caller, self._clock())
        if isinstance(decided, PermitDecision):
            self._submit(decided.effects)
            if decided.first_odd:
                _log.warning("agent asks for no multiple of its compute unit", pod=str(ask.key), asked=tuple(decided.asked))
            if decided.migrate:
                _log.info("migration decided", pod=str(ask.key))
            self.wake()
        return decided

    # A request takes its event at once when it is decided, so it misses nothing that happens before it begins to wait.

    def _permit_limit(self, uid: PodUid) -> anyio.Event:
        """The event that is set when the pod's urgent write has ended or has taken too long."""
        event = self._for_permit_limit.get(uid)
        if event is None:
            event = self._for_permit_limit[uid] = anyio.Event()
            self._ends.append((Instant(self._clock() + WRITE_SECONDS), uid, event))
        return event

    def _room(self, decided: PermitDecision) -> anyio.Event:
        """The event that is set when room appears on the pod's node."""
        return self._for_room.setdefault(decided.row, anyio.Event())

    async def _answer_with_room(
        self, ask: PermitAsk, caller: Caller | None, decided: PermitDecision, room: anyio.Event, wait: anyio.CancelScope
    ) -> PermitAnswer | PermitRefusal:
        """Decides the request again whenever room appears on the node, until everything is granted, the time is over, or the
        pod's agent has sent a newer request. Answers by the last decision."""
        self.waiting += 1
        latest: PermitDecision | PermitRefusal = decided
        try:
            with wait:
                while True:
                    await room.wait()
                    if wait.cancel_called:  # the wait ended when the room appeared, at the same moment
                        break
                    latest = self._decide(ask, caller)
                    if isinstance(latest, PermitRefusal) or not _waits_for_room(latest):
                        break
                    room = self._room(latest)
        finally:
            self.waiting -= 1
            if self._waits.get(decided.uid) is wait:
                del self._waits[decided.uid]
        answer = latest if isinstance(latest, PermitRefusal) else self._answer(ask, latest)
        return answer if isinstance(answer, PermitAnswer | PermitRefusal) else await answer

    async def may_bind(self, uid: PodUid, node: NodeName, *, first: bool) -> bool:
        """Waits briefly, before a bind is sent, until the lower permits of the node's other pods are persisted: the bind may
        use the room that they gave back.

        False: do not send the bind, because these permits were not persisted in time or the pod's reservation on the node is
        gone. In the first case the reservation is dropped, unless an earlier bind request (`first` is False) may have been
        sent.
        """
        with anyio.move_on_after(RECORD_SECONDS):
            while self._persisted_permits.blocking_pods(node):
                await self._for_persisted_permit.setdefault(node, anyio.Event()).wait()
        if self._persisted_permits.blocking_pods(node):
            if first:
                self._submit(self._state_machine.apply(BindEnded(uid, node, "unsent", ""), self._clock()))
                self.wake()
            return False
        reservation = self._state_machine.state.reservations.get(uid)
        return reservation is not None and reservation.node == node

    def wake(self) -> None:
        """Wakes the requests whose permit limit has been written or on whose node room has appeared, and the binds for which
        the lower permits of other pods have been persisted."""
        if self._settled:
            for uid in sorted(self._settled):
                if (event := self._for_permit_limit.pop(uid, None)) is not None:
                    event.set()
            self._settled.clear()
        if self._ends:
            self._end_waits()
        if self._for_room:
            for row in self._freed:
                if (event := self._for_room.pop(Row(row), None)) is not None:
                    event.set()
        self._freed.clear()
        if self._for_persisted_permit:
            for node in [n for n in self._for_persisted_permit if not self._persisted_permits.blocking_pods(n)]:
                self._for_persisted_permit.pop(node).set()

    def _end_waits(self) -> None:
        """Ends waits for writes that have taken too long, and removes ended waits from the front of `_ends`."""
        now = self._clock()
        while self._ends and (self._ends[0][0] <= now or self._ends[0][2].is_set()):
            _, uid, event = self._ends.popleft()
            if self._for_permit_limit.get(uid) is event:
                del self._for_permit_limit[uid]
            event.set()


def _waits_for_room(decided: PermitDecision) -> bool:
    return decided.denied and not decided.migrate
