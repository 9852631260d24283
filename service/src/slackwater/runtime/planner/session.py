"""The planning process' side of the conversation with the service: decodes questions, makes plans, encodes answers.

Also defines the questions and the failure answer. Deliberately absent: pipes, and the process itself.
"""

import gc
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.scaledown.outcome import ScaleDownPlan
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.controllers.scaleup.outcome import ScaleUp, Unhelpable
from slackwater.controllers.slack.state import SlackState
from slackwater.model.buffers import HeadroomRequests
from slackwater.model.changes import Changes
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import Pod
from slackwater.model.storage import Storage
from slackwater.runtime.autoscaler.headroom import Asking
from slackwater.runtime.autoscaler.planning import Inquiry, PlanMaker, Plans, ScaleUpResult
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownInquiry, ScaleDownProposal
from slackwater.runtime.autoscaler.scaleup_planning import ReplicaScaleUpPlanner
from slackwater.runtime.autoscaler.slack_planning import SlackPlan
from slackwater.runtime.planner.frames import Decoder, Encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The question for scale-up and slack plans. `anew`: the inquiry holds the whole cluster and replaces everything before."""

    inquiry: Inquiry
    anew: bool


@dataclass(frozen=True, slots=True)
class AskShrink:
    """The question for the scale-down plan of the inquiry that was answered last."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer if planning raised an error."""

    traceback: str


#: The types within which long collections are sent in pieces (`frames`).
SPINE: Final[frozenset[type]] = frozenset(
    {
        *(Ask, Inquiry, Changes, Storage, NodeGroupStatus, NodeGroup, ScaleDownInquiry, ScaleDownState, HeadroomRequests),
        *(Plans, ScaleUpResult, ScaleUp, ScaleDownProposal, ScaleDownPlan, SlackPlan, SlackState, Asking, Unhelpable),
    }
)

_Hints = Mapping[NodeName, Mapping[PodUid, NodeName]]


class Session:
    """Answers the questions of the service; one per process."""

    def __init__(self) -> None:
        self._maker = PlanMaker(ReplicaScaleUpPlanner())
        self._decoder = Decoder()
        self._encoder = Encoder(SPINE, theirs=self._is_theirs)
        #: Kept here because only planning reads them, and there are tens of thousands.
        self._hints: _Hints = {}

    def take(self, frame: bytes) -> Iterator[bytes]:
        """Takes in a frame. Yields the frames of the answer if the question is complete, else nothing."""
        arrived = self._decoder.take(frame)
        if arrived is None:
            return iter(())
        assert isinstance(arrived.value, Ask | AskShrink), arrived
        return self._encoder.frames(self._answer(arrived.value))

    def _answer(self, ask: Ask | AskShrink) -> Plans | ScaleDownProposal | Failed | None:
        try:
            return self._plans(ask) if isinstance(ask, Ask) else self._scale_down()
        except Exception:  # the service must learn of any error, and ask again
            return Failed(traceback.format_exc())

    def _plans(self, ask: Ask) -> Plans:
        if ask.anew:
            self._maker.forget()
        plans = self._maker.make(_with_hints(ask.inquiry, self._hints))
        if ask.anew:
            # The replica lives as long as the process, so the garbage collector need not scan it repeatedly.
            gc.collect()
            gc.freeze()
        return plans

    def _scale_down(self) -> ScaleDownProposal | None:
        scale_down = self._maker.scale_down()
        if scale_down is None:
            return None
        plan = scale_down.plan
        self._hints = plan.state.pod_destination_hints
        return replace(scale_down, plan=replace(plan, kept=(), state=replace(plan.state, pod_destination_hints={})))

    def _is_theirs(self, pod: Pod) -> bool:
        return self._maker.replica.find(pod.uid) is pod


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
