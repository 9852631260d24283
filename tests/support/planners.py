"""Planning by the planning process' own conversation, without a process: every parcel goes through bytes, nothing waits."""

from dataclasses import replace

from slackwater.model.changes import Changes
from slackwater.model.ids import PodUid
from slackwater.model.objects import Pod
from slackwater.run.loops.clocks import Watch
from slackwater.run.loops.planning import Inquiry, PlannerSight, Plans
from slackwater.run.planner.parcels import Decoder, Encoder
from slackwater.run.planner.session import SPINE, Ask, Failed, Session


class Conversation:
    """Implements `run.loops.planning.Planning`. `parcels` counts those that went either way."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._session = Session()
        self._encoder = Encoder(SPINE)
        self._decoder = Decoder(pod_of=self._pods.__getitem__)
        self._anew = True
        self.parcels = 0

    async def plan(self, inquiry: Inquiry, watch: Watch) -> Plans:
        self._note(inquiry.changes)
        found: Plans | None = None
        with watch:
            for question in self._encoder.parcels(Ask(inquiry=inquiry, anew=self._anew)):
                for answer in self._session.take(question):
                    self.parcels += 1
                    arrived = self._decoder.take(answer)
                    found = None if arrived is None else _whole(arrived.value)
                self.parcels += 1
        self._anew = False
        assert found is not None
        return replace(found, seconds={})

    def _note(self, changes: Changes) -> None:
        for uid, pod in changes.pods:
            self._pods.pop(uid, None)
            if pod is not None:
                self._pods[uid] = pod

    def forget(self) -> None:
        self._anew = True

    def sight(self) -> PlannerSight:
        return PlannerSight()

    async def run(self) -> None:
        pass


def _whole(value: object) -> Plans:
    assert not isinstance(value, Failed), value.traceback
    assert isinstance(value, Plans), value
    return value
