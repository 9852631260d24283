"""What becomes of a pod when its node is removed."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from slackwater.model.unremovable_reasons import Hindrance


class Fate(Enum):
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
    """`hindrance` is set exactly where the fate is BLOCK."""

    fate: Fate
    hindrance: Hindrance | None = None


MOVE: Final = Verdict(Fate.MOVE)
DAEMON: Final = Verdict(Fate.DAEMON)
SKIP: Final = Verdict(Fate.SKIP)
WAIT: Final = Verdict(Fate.WAIT)


def block(hindrance: Hindrance) -> Verdict:
    return Verdict(Fate.BLOCK, hindrance)
