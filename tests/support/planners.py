"""Planning without a process: inline, and by the planning process' own conversation with every frame through bytes."""

from dataclasses import replace

from slackwater.model.changes import Changes
from slackwater.model.ids import PodUid
from slackwater.model.objects import Pod
from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import Inquiry, PlanMaker, PlannerObservation, Plans
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownProposal
from slackwater.runtime.autoscaler.scaleup_planning import ReplicaScaleUpPlanner
from slackwater.runtime.planner.frames import Decoder, Encoder
from slackwater.runtime.planner.session import SPINE, Ask, AskShrink, Failed, Session


class InlinePlanning:
    """Implements `runtime.autoscaler.planning.Planning`: makes each plan in the call that asks for it."""

    def __init__(self) -> None:
        self._maker = PlanMaker(ReplicaScaleUpPlanner())

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        with watch:
            return self._maker.make(inquiry)

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        with watch:
            return self._maker.scale_down()

    def forget(self) -> None:
        self._maker.forget()

    def observation(self) -> PlannerObservation:
        return PlannerObservation()

    async def run(self) -> None:
        pass


class Conversation:
    """Implements `runtime.autoscaler.planning.Planning`. `frames` counts those that went either way."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._session = Session()
        self._encoder = Encoder(SPINE)
        self._decoder = Decoder(pod_of=self._pods.__getitem__)
        self._renewed = True
        self.frames = 0

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        self._note(inquiry.changes)
        found = self._asked(Ask(inquiry=inquiry, anew=self._renewed), watch)
        self._renewed = False
        assert isinstance(found, Plans), found
        return replace(found, seconds={})

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        found = self._asked(AskShrink(), watch)
        assert found is None or isinstance(found, ScaleDownProposal), found
        return found

    def _asked(self, question: Ask | AskShrink, watch: Watch) -> object:
        found: object = None
        with watch:
            for frame in self._encoder.frames(question):
                for answer in self._session.take(frame):
                    self.frames += 1
                    arrived = self._decoder.take(answer)
                    found = None if arrived is None else arrived.value
                self.frames += 1
        assert not isinstance(found, Failed), found.traceback
        return found

    def _note(self, changes: Changes) -> None:
        for uid, pod in changes.pods:
            self._pods.pop(uid, None)
            if pod is not None:
                self._pods[uid] = pod

    def forget(self) -> None:
        self._renewed = True

    def observation(self) -> PlannerObservation:
        return PlannerObservation()

    async def run(self) -> None:
        pass
