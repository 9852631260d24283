"""The replica without a process: inline, and by the planning process' own conversation with every frame through bytes."""

from collections.abc import Sequence

import anyio

from slackwater.app.disagreement import DisagreementQuestion
from slackwater.app.explain.question import ExplainQuestion
from slackwater.app.whatif.question import GroupRegistryView, WhatIfQuestion
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.loop_plans import PlanMaker, Plans
from slackwater.controllers.scaledown.replica_plan import ScaleDownProposal
from slackwater.controllers.scaleup.outcome import PlanFailure, failure_of
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes
from slackwater.model.ids import Instant
from slackwater.ports.clock import Watch
from slackwater.ports.protocols import WhatIfRefused
from slackwater.runtime.planner.children import answer_of
from slackwater.runtime.planner.messages import (
    FRAMED_TYPES,
    AnswerKind,
    Ask,
    AskScaleDown,
    Failed,
    MakeInquiry,
    PlannerObservation,
    PlannerQuestion,
    Question,
)
from slackwater.runtime.planner.process import MakeQuestion, decoded_consolidation
from slackwater.runtime.planner.replica_feed import Auxiliary, ReplicaFeed
from slackwater.runtime.planner.session import AnswerInChild, Session
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support.destinations import Destinations

PIECES = frozenset({DisagreementQuestion, ExplainQuestion, WhatIfQuestion, GroupRegistryView})


class KnownAuxiliary:
    """Auxiliary objects that never change."""

    ready = True

    def __init__(self, objects: AuxiliaryObjects) -> None:
        self._objects, self._new = objects, objects

    def changes(self) -> AuxiliaryObjects:
        news, self._new = self._new, AuxiliaryObjects()
        return news

    def reset(self) -> None:
        self._new = self._objects


def a_feed(state_machine: StateMachine, auxiliary: Auxiliary | None = None) -> ReplicaFeed:
    """A feed for a replica that lives as long as the test."""
    feed = ReplicaFeed(state_machine, auxiliary)
    feed.begin()
    return feed


def _stands() -> float:
    """A clock by which no plan runs out of time, however slow the machine is."""
    return 0.0


class InlinePlanning:
    """Implements `runtime.planner.messages.LoopPlanner`: makes each plan in the call that asks for it."""

    def __init__(self, feed: ReplicaFeed) -> None:
        self._feed = feed
        self._maker = PlanMaker(_stands)
        self._consolidates = False

    async def plan(self, make: MakeInquiry, watch: Watch) -> Plans:
        changes = await self._feed.collect(watch, for_plan=True)
        inquiry = make(changes, self._feed.auxiliary)
        with watch:
            return self._maker.make(inquiry)

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        with watch:
            found = self._maker.scale_down()
        self._consolidates = found is not None and found.consolidates
        return found

    @property
    def consolidates(self) -> bool:
        return self._consolidates

    async def consolidation(self, watch: Watch) -> ConsolidationPlan | PlanFailure | None:
        if not self._consolidates:
            return None
        self._consolidates = False
        try:
            with watch:
                return self._maker.consolidation(_stands)
        except Exception as error:
            return failure_of("consolidation", "consolidation", error)

    def forget(self) -> None:
        self._feed.reset()
        self._maker.forget()

    def observation(self) -> PlannerObservation:
        return PlannerObservation()


class InlineReplica(InlinePlanning):
    """Implements `app.replica.Replica`, for a service of which only drains ask questions."""

    def __init__(self, feed: ReplicaFeed) -> None:
        super().__init__(feed)
        feed.begin()
        self._state_machine = feed._state_machine

    async def ask(self, make: MakeQuestion) -> bytes:
        """Answers on a replica of its own, which collects nothing between two questions."""
        destinations = Destinations(self._state_machine)
        try:
            return destinations.answer(make())
        finally:
            destinations.stop()

    async def run(self) -> None:
        await anyio.sleep_forever()


class Conversation:
    """Implements `runtime.planner.messages.LoopPlanner` and `runtime.planner.process.Questions`. This process answers
    questions itself, between plans. `frames` counts the frames that went either way."""

    def __init__(self, feed: ReplicaFeed) -> None:
        self._feed = feed
        self._encoder = Encoder(FRAMED_TYPES | PIECES)
        self._decoder = Decoder(pod_of=feed.pod_of)
        self._answered: list[bytes] = []
        self.session = Session(
            next_frame=lambda: None,
            plan_done=self._answered.append,
            begin_answer=self._begin,
            begin_consolidation=self._begin,
        )
        self._found: tuple[AnswerKind, bytes] | None = None
        self._consolidation: tuple[AnswerKind, bytes] | None = None
        self._renewed = True
        self.frames = 0

    async def plan(self, make: MakeInquiry, watch: Watch) -> Plans:
        changes, rebuild = await self._collect(watch, for_plan=True)
        found = self._asked(Ask(inquiry=make(changes, self._feed.auxiliary), rebuild=rebuild), watch)
        assert isinstance(found, Plans), found
        return found

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        self._found = None
        found = self._asked(AskScaleDown(number=1, seconds=60.0), watch)
        assert found is None or isinstance(found, ScaleDownProposal), found
        self._consolidation = self._found
        return found

    @property
    def consolidates(self) -> bool:
        return self._consolidation is not None

    async def consolidation(self, watch: Watch) -> ConsolidationPlan | PlanFailure | None:
        found, self._consolidation = self._consolidation, None
        return None if found is None else await decoded_consolidation(*found, watch)

    async def ask(self, make: MakeQuestion) -> bytes:
        watch = Watch(lambda: Instant(0.0))
        changes, rebuild = await self._collect(watch)
        self._found = None
        self._say(Question(number=1, changes=changes, rebuild=rebuild, body=make(), seconds=60.0))
        assert self._found is not None
        kind, content = self._found
        if kind is AnswerKind.REFUSED:
            raise WhatIfRefused(content.decode())
        assert kind is AnswerKind.ANSWERED, content.decode()
        return content

    def _begin(self, _number: int, _seconds: float) -> AnswerInChild:
        return self._answer

    def _answer(self, question: PlannerQuestion, replica: SnapshotReplica) -> None:
        self._found = answer_of(question, replica)

    async def _collect(self, watch: Watch, *, for_plan: bool = False) -> tuple[Changes, bool]:
        rebuild, self._renewed = self._renewed, False
        if rebuild:
            self._feed.reset()
        return await self._feed.collect(watch, for_plan=for_plan), rebuild

    def _asked(self, message: Ask | AskScaleDown, watch: Watch) -> object:
        found: object = None
        with watch:
            for answer in self._say(message):
                arrived = self._decoder.take(answer)
                found = None if arrived is None else arrived.value
        assert not isinstance(found, Failed), found.traceback
        return found

    def _say(self, message: Ask | AskScaleDown | Question) -> Sequence[bytes]:
        for frame in self._encoder.frames(message):
            self.frames += 1
            self.session.take(frame)
        answers = tuple(self._answered)
        self._answered.clear()
        self.frames += len(answers)
        return answers

    def forget(self) -> None:
        self._renewed = True

    def observation(self) -> PlannerObservation:
        return PlannerObservation()
