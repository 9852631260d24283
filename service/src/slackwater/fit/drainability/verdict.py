"""What becomes of a pod when its node is removed."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.model.unremovable_reasons import UnremovableReason


class DrainabilityOutcome(Enum):
    """MOVE: it needs a place elsewhere, if its budgets allow it to go. DAEMON: it goes with the node, and needs no other place.

    SKIP: it is on its way out, or the node's own: neither moved nor in the way. WAIT: it is not moved, but the node waits
    until it has completed. BLOCK: the node has to stay.
    """

    MOVE = "move"
    DAEMON = "daemon"
    SKIP = "skip"
    WAIT = "wait"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`unremovable reason` is set exactly where the fate is BLOCK."""

    outcome: DrainabilityOutcome
    unremovable_reason: UnremovableReason | None = None


MOVE: Final = Verdict(DrainabilityOutcome.MOVE)
DAEMON: Final = Verdict(DrainabilityOutcome.DAEMON)
SKIP: Final = Verdict(DrainabilityOutcome.SKIP)
WAIT: Final = Verdict(DrainabilityOutcome.WAIT)


def block(unremovable_reason: UnremovableReason) -> Verdict:
    return Verdict(DrainabilityOutcome.BLOCK, unremovable_reason)
