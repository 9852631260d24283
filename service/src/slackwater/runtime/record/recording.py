"""A state machine that records each of its calls with the answer, and otherwise behaves as `StateMachine` does.

It records all calls that may change state, and all questions whose answers decide something. It does not record mere reads.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from slackwater.controllers.placement.binding import BindAnswer
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.extender_candidates import Kept
from slackwater.controllers.scaledown.drains.running_drains import CancelAnswer
from slackwater.model.columns import Codes, Int64, Rows
from slackwater.model.effects import DrainOrder, Effect
from slackwater.model.events import Event
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitDecision, PermitRefusal
from slackwater.model.reasons import UnremovableReason
from slackwater.runtime.record.calls import FORMAT, START, Start, frame, named, raised, rows_to_bytes
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol import __version__

#: Takes one frame. Called hundreds of times a second, so it must not block.
WriteFrame = Callable[[bytes], None]
#: How long `permit_answer` may refer to a decision. The writes that answers wait for end much sooner.
ANSWER_SECONDS = 300.0
_Answer = TypeVar("_Answer")


class RecordedStateMachine(StateMachine):
    """A state machine that passes each of its calls, with the answer, to `write_frame` as a frame."""

    def __init__(self, policy: Policy, *, seed: int = 0, write_frame: WriteFrame) -> None:
        self._write_frame = write_frame
        self._last_rows = b""
        self._asked = 0
        #: The recent decisions on permits, by `id()`, the oldest first: the number of the call, the decision, the time of it.
        self._decided: dict[int, tuple[int, PermitDecision, Instant]] = {}
        write_frame(frame(START, 0.0, Start(format=FORMAT, version=__version__, seed=seed, policy=policy), None))
        super().__init__(policy, seed=seed)

    def _noted(self, answer: _Answer, what: str, now: Instant, given: object) -> _Answer:
        self._write_frame(frame(what, now, given, answer))
        return answer

    def apply(self, event: Event, now: Instant) -> list[Effect]:
        try:
            effects = super().apply(event, now)
        except Exception as error:
            self._write_frame(frame("apply", now, named(event), raised(error)))
            raise
        self._write_frame(frame("apply", now, named(event), named(effects)))
        return effects

    def adopt_policy(self, policy: Policy) -> None:
        super().adopt_policy(policy)
        self._write_frame(frame("adopt_policy", 0.0, policy, None))

    def filter(self, pod: Pod, rows: Rows, now: Instant) -> Codes:
        return self._noted(super().filter(pod, rows, now), "filter", now, (pod, self._rows(rows)))

    def choose(self, pod: Pod, row: Row, now: Instant) -> bool:
        return self._noted(super().choose(pod, row, now), "choose", now, (pod, row))

    def prioritize(self, pod: Pod, rows: Rows, now: Instant) -> Int64:
        return self._noted(super().prioritize(pod, rows, now), "prioritize", now, (pod, self._rows(rows)))

    def bind(self, uid: PodUid, key: PodKey, node: NodeName, now: Instant) -> BindAnswer:
        return self._noted(super().bind(uid, key, node, now), "bind", now, (uid, key, node))

    def preempt(self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> Kept:
        return self._noted(super().preempt(pod, proposed, now), "preempt", now, (pod, proposed))

    def ask_permit(self, ask: PermitAsk, caller: Caller | None, now: Instant) -> PermitDecision | PermitRefusal:
        self._asked += 1
        decided = super().ask_permit(ask, caller, now)
        self._write_frame(frame("ask_permit", now, (self._asked, ask, caller), named(decided)))
        if isinstance(decided, PermitDecision):
            self._decided[id(decided)] = (self._asked, decided, now)
            while (first := next(iter(self._decided.values())))[2] < now - ANSWER_SECONDS:
                del self._decided[id(first[1])]
        return decided

    def permit_answer(self, decided: PermitDecision) -> PermitAnswer | PermitRefusal:
        answer = super().permit_answer(decided)
        known = self._decided.get(id(decided))
        if known is not None:
            self._write_frame(frame("permit_answer", 0.0, known[0], named(answer)))
        return answer

    def begin_drains(self, orders: Iterable[DrainOrder], now: Instant) -> list[Effect]:
        listed = list(orders)
        effects = super().begin_drains(listed, now)
        self._write_frame(frame("begin_drains", now, (listed, None), named(effects)))
        return effects

    def resume_drains(self, orders: Iterable[DrainOrder], now: Instant, unix_now: UnixTime) -> None:
        listed = list(orders)
        super().resume_drains(listed, now, unix_now)
        self._write_frame(frame("resume_drains", now, (listed, unix_now), None))

    def cancel_drain(
        self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant
    ) -> tuple[CancelAnswer, list[Effect]]:
        answer, effects = super().cancel_drain(node, unremovable_reason, detail, now)
        self._write_frame(frame("cancel_drain", now, (node, unremovable_reason, detail), [answer, named(effects)]))
        return answer, effects

    def _rows(self, rows: Rows) -> bytes | None:
        """The rows as bytes; None if they are the same as in the previous call, which is usual."""
        row_bytes = rows_to_bytes(rows)
        if row_bytes == self._last_rows:
            return None
        self._last_rows = row_bytes
        return row_bytes
