"""One preemption as a value, the deletions of victims under way, and counts of how preemptions ended.

- `Preemption`: the preemption of one preemptor; `state` describes its phases.
- `PendingDeletions`: the deletions under way, and which preemptors wait for them.
- `PreemptionCounts`: counts that only grow, which the metrics endpoint reads.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.controllers.preemption.runners_up import RunnerUp
from slackwater.model.histogram import Spread
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod

Phase = Literal["agreed", "announcing", "evicting", "opened", "returned"]
_SHUT: Final = ("announcing", "evicting")


@dataclass(slots=True)
class Preemption:
    """One preemption; `pod` is the preemptor. `victims`: the pods that we delete for it. `waiting`: the UIDs of all pods that
    have to be gone and are not yet; empty once the preemption is opened, returned or over. `others`: nodes not chosen."""

    pod: Pod
    node: NodeName
    victims: dict[PodUid, PodKey]
    waiting: set[PodUid]
    phase: Phase
    since: Instant
    deadline: Instant
    text: str  #: the text of the preemptor's annotation
    number: int  #: grows from one preemption to the next
    timeout_seconds: float  #: how long the victims may take at least
    others: tuple[RunnerUp, ...] = ()

    @property
    def shut(self) -> bool:
        return self.phase in _SHUT


@dataclass(slots=True)
class PendingDeletions:
    """The deletions of victims under way. `running`: the victims whose API call has not ended. `awaited_by`: for each victim,
    the preemptors that wait for it."""

    running: set[PodUid] = field(default_factory=set)
    awaited_by: dict[PodUid, set[PodUid]] = field(default_factory=dict)

    def wait(self, preemptor: PodUid, victims: Iterable[PodUid]) -> None:
        for victim in victims:
            self.awaited_by.setdefault(victim, set()).add(preemptor)

    def give_up(self, preemptor: PodUid, victims: Iterable[PodUid]) -> None:
        for victim in victims:
            waiting = self.awaited_by.get(victim)
            if waiting is not None:
                waiting.discard(preemptor)
                if not waiting:
                    del self.awaited_by[victim]


Result = Literal["success", "error", "cancelled"]
RESULTS: Final[tuple[Result, ...]] = ("success", "error", "cancelled")

#: Upper bounds of the buckets; one more bucket has no bound. As in kube-scheduler's goroutines_duration_seconds: 0.005 * 2^n.
SECONDS: Final = tuple(0.005 * 2**power for power in range(17))
#: As in kube-scheduler's preemption_victims.
VICTIMS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(slots=True)
class PreemptionCounts:
    """Counts of preemptions. `attempts`: preemptions begun. `ends`: preemptions ended, by result. `seconds`: how long they
    took. `victims`: victims of each. `activated_again`: repeated activations of preemptors.

    Every result is counted from the start, with 0. A preemption that ends because its preemptor ended is "cancelled", neither a
    success nor an error.
    """

    attempts: int = 0
    ends: dict[Result, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    seconds: Spread = field(default_factory=lambda: Spread(SECONDS))
    victims: Spread = field(default_factory=lambda: Spread(VICTIMS))
    activated_again: int = 0

    def begun(self, victims: int) -> None:
        self.attempts += 1
        self.victims.note(victims)

    def ended(self, result: Result, seconds: float) -> None:
        self.ends[result] += 1
        self.seconds.note(seconds)
