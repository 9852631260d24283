"""What the user asks for: room as a rate of the capacity, and amounts, for the cluster or for a group of nodes."""

from dataclasses import dataclass
from typing import Final, Literal

from slackwater.model.resources import NOTHING, Amounts

#: v1: by the average node alone. v2: also by the pods, the largest of which must find room too.
Sizing = Literal["v1", "v2"]

PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackRule:
    """Room on the nodes whose labels hold all of `node_labels`; on every node where there are none.

    At least `rate_ppm` millionths of what these nodes have allocatable, and at least `least`. An average node is cut into
    `granularity` pieces.
    """

    name: str
    rate_ppm: int = 0
    least: Amounts = NOTHING
    granularity: int = 5
    sizing: Sizing = "v2"
    node_labels: tuple[tuple[str, str], ...] = ()

    @property
    def asks(self) -> bool:
        """False where the rule asks for nothing, whatever the cluster."""
        return self.rate_ppm > 0 or self.least != NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPolicy:
    """`max_nodes`: so many nodes may stand for slack alone; 0: no limit. What is too much goes after `shrink_seconds`.

    For promises a node is taken to start within `node_start_seconds` as long as none was seen to start, a plan to be made
    within `loop_seconds`, and a node to stay for `unneeded_seconds` when it is not needed.
    """

    rules: tuple[SlackRule, ...] = ()
    max_nodes: int = 0
    shrink_seconds: float = 600.0
    node_start_seconds: float = 120.0
    loop_seconds: float = 10.0
    unneeded_seconds: float = 0.0
