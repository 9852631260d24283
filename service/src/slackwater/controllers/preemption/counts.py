"""What is counted of preemptions, and the bounds of the histograms."""

from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.model.histogram import Spread

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

    def ended(self, result: Result, seconds: float) -> None:
        self.ends[result] += 1
        self.seconds.note(seconds)
