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
from slackwater.model.events import Event
from slackwater.model.ids import Instant
from slackwater.model.permits import PermitDecision
from slackwater.runtime.record.calls import (
    END,
    FORMAT,
    START,
    BeginArgs,
    Bound,
    Cancelled,
    ChoiceArgs,
    FilterArgs,
    Frame,
    PermitArgs,
    PreemptArgs,
    encoded,
    named,
    raised,
    read_event,
    read_frame,
    read_header,
    read_start,
    reader,
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
_READ: Final[dict[str, Any]] = {
    "filter": reader(FilterArgs),
    "choose": reader(ChoiceArgs),
    "prioritize": reader(FilterArgs),
    "bind": reader(Bound),
    "preempt": reader(PreemptArgs),
    "ask_permit": reader(PermitArgs),
    "permit_answer": reader(int),
    "begin_drains": reader(BeginArgs),
    "resume_drains": reader(BeginArgs),
    "cancel_drain": reader(Cancelled),
    "adopt_policy": reader(Policy),
}
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
        self._do: dict[str, Callable[[Any, Instant], object]] = {
            "filter": self._filter,
            "choose": lambda given, now: self._state_machine.choose(given.pod, given.row, now),
            "prioritize": lambda given, now: self._state_machine.prioritize(given.pod, self._rows_of(given.rows), now),
            "bind": lambda given, now: self._state_machine.bind(given.uid, given.key, given.node, now),
            "preempt": lambda given, now: self._state_machine.preempt(given.pod, given.proposed, now),
            "ask_permit": self._ask,
            "permit_answer": lambda number, _: named(self._state_machine.permit_answer(self._decided[number][1])),
            "begin_drains": lambda given, now: named(self._state_machine.begin_drains(given.orders, now)),
            "resume_drains": lambda given, now: self._state_machine.resume_drains(given.orders, now, given.unix_now),
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

    def _answer(self, found: Frame) -> bytes:
        now = Instant(found.now)
        if found.what == "apply":
            return self._applied(read_event(found.given), now)
        return encoded(self._do[found.what](_READ[found.what](found.given), now))

    def _applied(self, event: Event, now: Instant) -> bytes:
        try:
            return encoded(named(self._state_machine.apply(event, now)))
        except Exception as error:  # the service continues after such an error too
            return encoded(raised(error))

    def _filter(self, given: FilterArgs, now: Instant) -> object:
        return self._state_machine.filter(given.pod, self._rows_of(given.rows), now)

    def _rows_of(self, row_bytes: bytes | None) -> Rows:
        if row_bytes is not None:
            self._rows = rows_of_bytes(row_bytes)
        return self._rows

    def _ask(self, given: PermitArgs, now: Instant) -> object:
        decided = self._state_machine.ask_permit(given.ask, given.caller, now)
        if isinstance(decided, PermitDecision):
            self._decided[given.number] = (now, decided)
            while (first := next(iter(self._decided)), self._decided[first][0])[1] < now - ANSWER_SECONDS:
                del self._decided[first]
        return named(decided)

    def _cancel(self, given: Cancelled, now: Instant) -> object:
        answer, effects = self._state_machine.cancel_drain(given.node, given.unremovable_reason, given.detail, now)
        return [answer, named(effects)]
