"""Replays a record on a new state machine, and yields each call whose answer now differs from the recorded one in any byte.

    replay = Replay(frames)
    for difference in replay.differences(): ...

The frames are those of one record, in order. A frame that cannot be decoded raises `BadRecord`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from slackwater.controllers.policy import Policy
from slackwater.model.columns import Rows
from slackwater.model.effects import DrainOrder
from slackwater.model.events import Event
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.permits import Caller, PermitAsk, PermitDecision
from slackwater.model.reasons import UnremovableReason
from slackwater.runtime.record.calls import (
    END,
    FORMAT,
    START,
    RecordedCall,
    encoded,
    named,
    raised,
    read_event,
    read_frame,
    read_header,
    read_start,
    rows_of_bytes,
)
from slackwater.runtime.record.recording import ANSWER_SECONDS
from slackwater.runtime.state_machine import StateMachine


class BadRecord(Exception):
    """The record cannot be read. The message says at which frame, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A call whose replayed answer differs from the recorded one. `number` is the position of its frame in the record, from 0;
    `what` and `now` are the call's method and time."""

    number: int
    what: str
    now: float
    recorded: Any
    replayed: Any


#: Calls that are not counted as decisions.
_NO_DECISIONS: Final = frozenset({"adopt_policy", "resume_drains"})
#: The arguments of each call. Rows are the bytes of an int64 array, None where they are those of the previous such call. The
#: number of `ask_permit` counts its calls; a frame of `permit_answer` refers to the decision by it.
_GIVEN: Final[dict[str, Any]] = {
    "filter": tuple[Pod, bytes | None],
    "choose": tuple[Pod, Row],
    "prioritize": tuple[Pod, bytes | None],
    "bind": tuple[PodUid, PodKey, NodeName],
    "preempt": tuple[Pod, dict[NodeName, list[PodUid]]],
    "ask_permit": tuple[int, PermitAsk, Caller | None],
    "permit_answer": int,
    "begin_drains": tuple[list[DrainOrder], None],
    "resume_drains": tuple[list[DrainOrder], UnixTime],
    "cancel_drain": tuple[NodeName, UnremovableReason, str],
    "adopt_policy": Policy,
}
_READ: Final = {what: msgspec.msgpack.Decoder(given).decode for what, given in _GIVEN.items()}
_NOTHING: Final = encoded([])


class Replay:
    """One pass over a record. `frames` counts the replayed frames, `decisions` those among them that decided something."""

    def __init__(self, frames: Iterable[bytes]) -> None:
        self.frames = 0
        self.decisions = 0
        #: Why the record ended, from its end frame; empty before that frame, or if the record has none.
        self.ended = ""
        self._source = iter(frames)
        self._rows: Rows = np.zeros(0, np.intp)
        self._decided: dict[int, tuple[Instant, PermitDecision]] = {}
        self._state_machine: StateMachine  #: from the first frame on
        #: What is called where it is not the method of that name with just these arguments.
        self._do: dict[str, Callable[..., object]] = {
            "apply": self._applied,
            "filter": lambda pod, rows, now: self._state_machine.filter(pod, self._rows_of(rows), now),
            "prioritize": lambda pod, rows, now: self._state_machine.prioritize(pod, self._rows_of(rows), now),
            "ask_permit": self._ask,
            "permit_answer": lambda number, _: named(self._state_machine.permit_answer(self._decided[number][1])),
            "begin_drains": lambda orders, _, now: named(self._state_machine.begin_drains(orders, now)),
            "resume_drains": lambda orders, unix_now, now: self._state_machine.resume_drains(orders, now, unix_now),
            "cancel_drain": self._cancel,
            "adopt_policy": lambda policy, _: self._state_machine.adopt_policy(policy),
        }

    def differences(self) -> Iterator[Difference]:
        """Replays the record and yields each call whose answer differs now.

        :raises BadRecord: a frame cannot be read, or the record has another format.
        """
        self._begin()
        for raw in self._source:
            self.frames += 1
            try:
                found = read_frame(raw)
                if found.what == END:
                    self.ended = msgspec.msgpack.decode(found.given)
                    return
                answer = self._answer(found)
            except (msgspec.MsgspecError, KeyError, ValueError, TypeError, RecursionError) as error:
                raise BadRecord(f"frame {self.frames}: {type(error).__name__}: {error}") from error
            self.decisions += found.what not in _NO_DECISIONS and (found.what != "apply" or bytes(found.answer) != _NOTHING)
            if answer != bytes(found.answer):
                yield Difference(
                    number=self.frames,
                    what=found.what,
                    now=found.now,
                    recorded=msgspec.msgpack.decode(found.answer),
                    replayed=msgspec.msgpack.decode(answer),
                )

    def _begin(self) -> None:
        try:
            first = read_frame(next(self._source))
            if first.what != START:
                raise BadRecord(f"frame 0: got {first.what!r:.40}, want {START!r}")
            if (found := read_header(first.given).format) != FORMAT:
                raise BadRecord(f"frame 0: got format {found!r:.60}, want {FORMAT}")
            start = read_start(first.given)
        except StopIteration as empty:
            raise BadRecord("got no frame at all, want a record") from empty
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadRecord(f"frame 0: {error}") from error
        self._state_machine = StateMachine(start.policy, seed=start.seed)

    def _answer(self, found: RecordedCall) -> bytes:
        given = read_event(found.given) if found.what == "apply" else _READ[found.what](found.given)
        every = given if type(given) is tuple else (given,)
        do = self._do.get(found.what) or getattr(self._state_machine, found.what)
        return encoded(do(*every, Instant(found.now)))

    def _applied(self, event: Event, now: Instant) -> object:
        try:
            return named(self._state_machine.apply(event, now))
        except Exception as error:  # the service continues after such an error too
            return raised(error)

    def _rows_of(self, row_bytes: bytes | None) -> Rows:
        if row_bytes is not None:
            self._rows = rows_of_bytes(row_bytes)
        return self._rows

    def _ask(self, number: int, ask: PermitAsk, caller: Caller | None, now: Instant) -> object:
        decided = self._state_machine.ask_permit(ask, caller, now)
        if isinstance(decided, PermitDecision):
            self._decided[number] = (now, decided)
            while (first := next(iter(self._decided)), self._decided[first][0])[1] < now - ANSWER_SECONDS:
                del self._decided[first]
        return named(decided)

    def _cancel(self, node: NodeName, unremovable_reason: UnremovableReason, detail: str, now: Instant) -> object:
        answer, effects = self._state_machine.cancel_drain(node, unremovable_reason, detail, now)
        return [answer, named(effects)]
