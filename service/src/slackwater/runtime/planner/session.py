"""The planning process' side of the conversation with the service: decodes messages, makes plans, has questions answered.

A plan reads the clock at each of its steps, and the clock looks for questions that have arrived (`_clock`). A child of this
process answers them: the exception `_InChild` leaves the plan and every trial of it, so that the child has the replica as it
was before. The parent goes on with its plan. The changes that came with the question wait for the end of that plan, because the
plans of one inquiry are made on one state. Deliberately absent: pipes, processes.
"""

import gc
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from slackwater.model.changes import Changes
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.runtime.autoscaler.planning import Inquiry, PlanMaker, Plans
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownProposal
from slackwater.runtime.autoscaler.scaleup_planning import ReplicaScaleUpPlanner
from slackwater.runtime.planner.messages import FRAMED_TYPES, Ask, AskShrink, Failed, PlannerQuestion, Question
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.snapshot.snapshot_replica import SnapshotReplica

_Hints = Mapping[NodeName, Mapping[PodUid, NodeName]]
#: Answers in a child, and does not return.
AnswerInChild = Callable[[PlannerQuestion, SnapshotReplica], None]


class AnswerStarter(Protocol):
    """Begins the answer to a question. Returns None, or in a child the function that answers: `children.Children.begin`."""

    def __call__(self, number: int, seconds: float, /) -> AnswerInChild | None: ...


class _InChild(BaseException):
    """Leaves the plan that the parent makes, in the child that answers a question."""

    def __init__(self, question: Question, answer: AnswerInChild) -> None:
        super().__init__()
        self.question, self.answer = question, answer


class Session:
    """Takes in the messages of the service; one per process. `next_frame` returns a frame that has arrived already, or None.
    `plan_done` gets the frames of plans."""

    def __init__(
        self,
        *,
        next_frame: Callable[[], bytes | None],
        plan_done: Callable[[bytes], None],
        begin_answer: AnswerStarter,
    ) -> None:
        self._next_frame = next_frame
        self._plan_done = plan_done
        self._begin_answer = begin_answer
        self._maker = PlanMaker(ReplicaScaleUpPlanner(clock=self._clock), clock=self._clock)
        self._decoder = Decoder()
        self._encoder = Encoder(FRAMED_TYPES, theirs=self._is_theirs)
        #: Kept here because only planning reads them, and there are tens of thousands.
        self._hints: _Hints = {}
        #: The plans of an inquiry are being made: its changes are the last ones that the replica may have.
        self._planning = False
        self._later: list[Changes] = []

    def take(self, frame: bytes) -> None:
        """Takes in a frame. If it completes a message, does what the message asks."""
        arrived = self._decoder.take(frame)
        if arrived is None:
            return
        message = arrived.value
        assert isinstance(message, Ask | AskShrink | Question), message
        try:
            if isinstance(message, Question):
                self._take_question(message)
            else:
                for part in self._encoder.frames(self._plan(message)):
                    self._plan_done(part)
        except _InChild as child:
            self._in_child(child)

    # --- plans --------------------------------------------------------------------------------------------------------------

    def _plan(self, ask: Ask | AskShrink) -> Plans | ScaleDownProposal | Failed | None:
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
        """Brings the replica to the state of the last question. With `rebuild` it is dropped first, since the whole cluster
        follows.
        """
        later, self._later = self._later, []
        if rebuild:
            self._maker.forget()
            return
        for changes in later:
            self._maker.replica.take(changes)

    def _is_theirs(self, pod: Pod) -> bool:
        return self._maker.replica.find(pod.uid) is pod

    # --- questions ----------------------------------------------------------------------------------------------------------

    def _clock(self) -> float:
        """The time, for a plan that checks at each of its steps whether it has to end. Also looks for questions, so that they
        need not wait.
        """
        while (frame := self._next_frame()) is not None:
            arrived = self._decoder.take(frame)
            if arrived is not None:
                assert isinstance(arrived.value, Question), "one plan at a time is asked for"
                assert not arrived.value.rebuild, "a replica that plans has had the whole cluster"
                self._take_question(arrived.value)
        return time.monotonic()

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
                raise _InChild(question, answer)

    def _in_child(self, child: _InChild) -> None:
        """Answers the question in the child, after the plan and every trial have been left: brings the replica up to the
        question first.
        """
        self._catch_up(rebuild=False)
        assert child.question.body is not None
        child.answer(child.question.body, self._maker.replica)


def _keep() -> None:
    """Excludes the replica from garbage collection: it lives as long as the process, so scanning it repeatedly is waste."""
    gc.collect()
    gc.freeze()


def _with_hints(inquiry: Inquiry, hints: _Hints) -> Inquiry:
    """The inquiry with the destination hints of nodes that the state still has as candidates, unreached or deleted."""
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
