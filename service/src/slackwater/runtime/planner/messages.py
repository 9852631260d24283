"""The messages between the service and its planning process.

service -> planning process    Ask, AskScaleDown, Question
planning process -> service    on channel PLAN: Plans, ScaleDownProposal, None or Failed, as frames of the process' encoder
                               on channel ANSWER: pieces of the answer to a question, or of a consolidation plan, each a pickled
                               `AnswerPiece`
                               on channel PROGRESS: empty frames, while it works on a plan
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.outcome import ConsolidationPlan
from slackwater.controllers.loop_plans import Inquiry, Plans
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry, ScaleDownProposal
from slackwater.controllers.scaledown.state import ScaleDownPlan, ScaleDownState
from slackwater.controllers.scaleup.outcome import PlanFailure, ScaleUp, Unhelpable
from slackwater.controllers.slack.headroom_demand import HeadroomDemand
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.controllers.slack.state import SlackState
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes
from slackwater.model.devices import DeviceObjects
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.placeholders import HeadroomRequests
from slackwater.model.storage import Storage
from slackwater.ports.clock import Watch
from slackwater.snapshot.snapshot_replica import SnapshotReplica


class PlannerQuestion(Protocol):
    """A person's question, as a value that is sent to the planning process. It contains what the answer needs and the replica
    lacks, because only the state machine knows it."""

    def answer(self, replica: SnapshotReplica) -> bytes:
        """Answers the question from the replica, in a child of the planning process. Returns the encoded answer, such as JSON.
        Raises `WhatIfRefused` if the question cannot be answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerObservation:
    """Figures of the planning process: how often it was restarted, its resident memory in bytes, and for how many seconds it
    has given no sign of progress while it makes a plan."""

    restarts: int = 0
    resident_bytes: int = 0
    silent_seconds: float = 0.0


#: Makes the inquiry of the collected changes and the auxiliary objects. Called while the state machine is in the state to which
#: the changes lead; called again if the planning process ends before it has answered.
MakeInquiry = Callable[[Changes, AuxiliaryObjects], Inquiry]


class LoopPlanner(Protocol):
    """Makes plans for the loop. Only one task at a time may call `plan`, `scale_down` and `consolidation`. `watch` measures for
    how long these block the event loop.

    The loop calls `forget` after a failed plan, because it is then unknown which changes were applied. The next inquiry then
    contains the whole cluster.
    """

    async def plan(self, make: MakeInquiry, watch: Watch) -> Plans:
        """Returns the plans for scale-up and slack, for the inquiry that `make` makes."""
        ...

    async def scale_down(self, watch: Watch) -> ScaleDownProposal | None:
        """The scale-down plan for the last inquiry. None: that inquiry requested none, or has been forgotten. If it says so
        (`consolidates`), the consolidation plan for the same inquiry is begun."""
        ...

    @property
    def consolidates(self) -> bool:
        """Is a consolidation plan being made, or waits to be taken? Meanwhile none may be requested."""
        ...

    async def consolidation(self, watch: Watch) -> ConsolidationPlan | PlanFailure | None:
        """Takes the consolidation plan that has been made since it was begun, or why there is none. None if none is made, or it
        is still being made; it does not wait for that."""
        ...

    def forget(self) -> None: ...

    def observation(self) -> PlannerObservation: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Requests the scale-up and slack plans. `rebuild`: the inquiry's changes are the whole cluster, for an empty replica."""

    inquiry: Inquiry
    rebuild: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskScaleDown:
    """Requests the scale-down plan for the inquiry that was answered last. If that plan says so (`consolidates`), a child then
    makes the consolidation plan. It arrives as the answer to question `number`: the frames of a new encoder, as on a pipe. The
    child is ended after `seconds`."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Sends a person's question (`body`) to the planning process. The process first applies `changes` to the replica. `rebuild`
    is as in `Ask`. A child that has not answered after `seconds` is ended.

    `body` is None if the question could not be made: then only the changes are applied.
    """

    number: int
    changes: Changes
    rebuild: bool
    body: PlannerQuestion | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer to a request for plans if planning raised an error."""

    traceback: str


#: The types within which long collections are sent in pieces (`value_frames`).
FRAMED_TYPES: Final[frozenset[type]] = frozenset(
    {
        *(
            Ask,
            Inquiry,
            Changes,
            Storage,
            DeviceObjects,
            NodeGroupStatus,
            NodeGroup,
            ScaleDownInquiry,
            ScaleDownState,
            HeadroomRequests,
        ),
        *(Plans, ScaleUp, SlackPlan, SlackState, HeadroomDemand, Unhelpable),
        *(ScaleDownProposal, ScaleDownPlan, ConsolidationPlan),
        Question,
    }
)

#: The first byte of a frame from the planning process: its channel.
PLAN, ANSWER, PROGRESS = b"p", b"a", b"g"


class AnswerKind(IntEnum):
    """The kind of a piece of an answer. Further pieces follow only after `MORE`. `ENDED` voids the earlier pieces."""

    MORE = 0
    ANSWERED = 1
    #: The question cannot be answered; the text says why.
    REFUSED = 2
    #: Answering raised an error; the text is its traceback.
    FAILED = 3
    #: The child ended before its answer was complete; the text says how.
    ENDED = 4


#: A piece of the answer to a question: the question's number, the piece's kind and content.
AnswerPiece = tuple[int, AnswerKind, bytes]
