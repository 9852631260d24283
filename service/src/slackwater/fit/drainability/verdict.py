"""Verdicts of drainability rules: what happens to a pod when its node is removed."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.model.unremovable_reasons import UnremovableReason


class DrainabilityOutcome(Enum):
    """What happens to a pod when its node is removed.

    - MOVE: it needs another node, if its budgets allow it to leave.
    - DAEMON: it goes with the node, and needs no other one.
    - SKIP: it is ending, or belongs to the node: it is not moved and does not block.
    - WAIT: it is not moved, but the node waits until it has completed.
    - BLOCK: the node has to stay.
    """

    MOVE = "move"
    DAEMON = "daemon"
    SKIP = "skip"
    WAIT = "wait"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one pod; `unremovable_reason` is set if and only if the outcome is BLOCK."""

    outcome: DrainabilityOutcome
    unremovable_reason: UnremovableReason | None = None


MOVE: Final = Verdict(DrainabilityOutcome.MOVE)
DAEMON: Final = Verdict(DrainabilityOutcome.DAEMON)
SKIP: Final = Verdict(DrainabilityOutcome.SKIP)
WAIT: Final = Verdict(DrainabilityOutcome.WAIT)


def block(unremovable_reason: UnremovableReason) -> Verdict:
    return Verdict(DrainabilityOutcome.BLOCK, unremovable_reason)
