"""Counts of how preemptions ended, as numbers that only grow; the metrics endpoint reads them.

Every series exists from the start. A preemption that ends because its preemptor does is neither a success nor an error.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.model.spread import Spread

Result = Literal["success", "error", "cancelled"]
RESULTS: Final[tuple[Result, ...]] = ("success", "error", "cancelled")

#: Upper bounds of the buckets; one more bucket has no bound. As in kube-scheduler's goroutines_duration_seconds: 0.005 * 2^n.
SECONDS: Final = tuple(0.005 * 2**power for power in range(17))
#: As in kube-scheduler's preemption_victims.
VICTIMS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(slots=True)
class PreemptionCounts:
    """Counts. `attempts`: preemptions begun. `ends`: by result. `touched_again`: repeated activations of preemptors."""

    attempts: int = 0
    ends: dict[Result, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    seconds: Spread = field(default_factory=lambda: Spread(SECONDS))
    victims: Spread = field(default_factory=lambda: Spread(VICTIMS))
    touched_again: int = 0

    def begun(self, victims: int) -> None:
        self.attempts += 1
        self.victims.note(victims)

    def ended(self, result: Result, seconds: float) -> None:
        self.ends[result] += 1
        self.seconds.note(seconds)
