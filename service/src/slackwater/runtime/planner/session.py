"""Serves the messages of the service in the planning process: makes the plans, and lets a child answer each question.

Questions are answered while a plan is being made: a plan reads the clock at each of its steps, and the clock (`Session._clock`)
takes questions that have arrived. Each forks a child. In the child the exception `_InChild` unwinds the plan and undoes its
trials, so that the replica is as before the plan; then the child answers. The parent continues its plan. The parent applies the
changes that came with the question only after the plan, because the plans of one inquiry are made on one state. A
consolidation is planned by a child, too: it is forked once the scale-down plan is sent, and so has the state of the same
inquiry. Deliberately absent: pipes, processes.
"""

import gc
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from slackwater.controllers.loop_plans import Inquiry, PlanMaker, Plans
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.model.changes import Changes
from slackwater.model.ids import NodeName, PodUid
from slackwater.runtime.planner.messages import FRAMED_TYPES, Ask, AskScaleDown, Failed, PlannerQuestion, Question
from slackwater.runtime.planner.value_frames import Decoder, Encoder, framed
from slackwater.snapshot.snapshot_replica import SnapshotReplica

#: Progress is reported at most once in so many seconds.
_PROGRESS_SECONDS: Final = 0.5
_Hints = Mapping[NodeName, Mapping[PodUid, NodeName]]
#: Answers the question in the child and ends the child, so it does not return.
AnswerInChild = Callable[[PlannerQuestion, SnapshotReplica], None]


#: Forks the child that answers a question, by its number, within so many seconds. Returns None in the parent, and in the child
#: the function that answers. `children.Children.begin` is one.
AnswerStarter = Callable[[int, float], AnswerInChild | None]


class _InChild(BaseException):
    """Raised in a newly forked child to get out of the plan, which only the parent continues. `Session.take` catches it, and
    the child answers the question `body` with `answer`."""

    def __init__(self, body: PlannerQuestion, answer: AnswerInChild) -> None:
        super().__init__()
        self.body, self.answer = body, answer


@dataclass(frozen=True, slots=True)
class _Consolidation:
    """Plans a consolidation in a child, and encodes the plan. Implements `PlannerQuestion`."""

    maker: PlanMaker

    def answer(self, replica: SnapshotReplica) -> bytes:
        assert replica is self.maker.replica
        # The session's own clock reads messages, and they are for the parent; its encoder knows what the parent has sent.
        plan = self.maker.consolidation(time.monotonic)
        return b"".join(map(framed, Encoder(FRAMED_TYPES).frames(plan)))


class Session:
    """Serves the messages of the service, one session in each planning process. `next_frame` returns a frame if one has
    arrived, without waiting, else None. `plan_done` is called with each frame of a finished plan, `progress` now and then while
    the session works, so that the service notices a process that hangs."""

    def __init__(
        self,
        *,
        next_frame: Callable[[], bytes | None],
        plan_done: Callable[[bytes], None],
        begin_answer: AnswerStarter,
        begin_consolidation: AnswerStarter,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        self._next_frame = next_frame
        self._plan_done = plan_done
        self._begin_answer, self._begin_consolidation = begin_answer, begin_consolidation
        self._progress, self._reported_at = progress, 0.0
        self._maker = PlanMaker(self._clock)
        self._decoder = Decoder()
        self._encoder = Encoder(FRAMED_TYPES, theirs=lambda pod: self._maker.replica.find(pod.uid) is pod)
        #: The destinations that the last scale-down plan found for the pods of each node. Not sent to the service, because only
        #: the next plan reads them and they are tens of thousands.
        self._hints: _Hints = {}
        #: True from an inquiry until its last plan is made. Meanwhile the replica gets no further changes; they wait in
        #: `_later`.
        self._planning = False
        self._later: list[Changes] = []

    def take(self, frame: bytes) -> None:
        """Decodes a frame. If it completes a message, makes the plans or starts the answer that the message requests."""
        arrived = self._decoder.take(frame)
        self._report(time.monotonic())
        if arrived is None:
            return
        message = arrived.value
        assert isinstance(message, Ask | AskScaleDown | Question), message
        try:
            if isinstance(message, Question):
                self._take_question(message)
                return
            plans = self._plan(message)
            for part in self._encoder.frames(plans):
                self._plan_done(part)
            if isinstance(message, AskScaleDown) and isinstance(plans, ScaleDownProposal) and plans.consolidates:
                answer = self._begin_consolidation(message.number, message.seconds)
                if answer is not None:
                    answer(_Consolidation(self._maker), self._maker.replica)
        except _InChild as child:
            # The exception has undone the plan's trials, so the replica can first be brought up to date.
            self._catch_up(rebuild=False)
            child.answer(child.body, self._maker.replica)

    # --- plans --------------------------------------------------------------------------------------------------------------

    def _plan(self, ask: Ask | AskScaleDown) -> Plans | ScaleDownProposal | Failed | None:
        try:
            return self._plans(ask) if isinstance(ask, Ask) else self._scale_down()
        except Exception:  # the service must learn of any error, and ask again
            self._planning = False
            return Failed(traceback.format_exc())

    def _plans(self, ask: Ask) -> Plans:
        self._catch_up(rebuild=ask.rebuild)
        self._planning = True
        plans = self._maker.make(_with_hints(ask.inquiry, self._hints))
        self._planning = ask.inquiry.scale_down is not None
        if ask.rebuild:
            _keep()
        return plans

    def _scale_down(self) -> ScaleDownProposal | None:
        scale_down = self._maker.scale_down()
        self._planning = False
        if scale_down is None:
            return None
        plan = scale_down.plan
        self._hints = plan.state.pod_destination_hints
        return replace(scale_down, plan=replace(plan, kept=(), state=replace(plan.state, pod_destination_hints={})))

    def _catch_up(self, *, rebuild: bool) -> None:
        """Applies the changes in `_later` to the replica. With `rebuild`, discards these changes and the replica, because the
        whole cluster follows."""
        later, self._later = self._later, []
        if rebuild:
            self._maker.forget()
            return
        for changes in later:
            self._maker.replica.take(changes)

    # --- questions ----------------------------------------------------------------------------------------------------------

    def _clock(self) -> float:
        """The monotonic time in seconds. Plans read it at each step to keep their deadline. Also takes the questions that have
        arrived, so that they need not wait for the end of the plan.
        """
        while (frame := self._next_frame()) is not None:
            arrived = self._decoder.take(frame)
            if arrived is not None:
                assert isinstance(arrived.value, Question), "one plan at a time is asked for"
                assert not arrived.value.rebuild, "a replica that plans has had the whole cluster"
                self._take_question(arrived.value)
        now = time.monotonic()
        self._report(now)
        return now

    def _report(self, now: float) -> None:
        if now - self._reported_at >= _PROGRESS_SECONDS:
            self._reported_at = now
            self._progress()

    def _take_question(self, question: Question) -> None:
        if self._planning and not question.rebuild:
            self._later.append(question.changes)
        else:
            self._planning = False
            self._catch_up(rebuild=question.rebuild)
            self._maker.replica.take(question.changes)
            if question.rebuild:
                _keep()
        if question.body is not None:
            answer = self._begin_answer(question.number, question.seconds)
            if answer is not None:
                raise _InChild(question.body, answer)


def _keep() -> None:
    """Excludes the replica from garbage collection, because it lives as long as the process."""
    gc.collect()
    gc.freeze()


def _with_hints(inquiry: Inquiry, hints: _Hints) -> Inquiry:
    """Adds to the inquiry the destination hints of those nodes that its state has among its candidates, unreached or deleted
    nodes. No hints are added if no scale-down is planned."""
    scale_down = inquiry.scale_down
    if scale_down is None:
        return inquiry
    state = scale_down.state
    known = {
        name: found
        for name, found in hints.items()
        if name in state.candidate_set or name in state.unreached or name in state.deleted_set
    }
    return replace(inquiry, scale_down=replace(scale_down, state=replace(state, pod_destination_hints=known)))
