"""The policy of slack: room as a rate of capacity, and as amounts, for the cluster or for some nodes."""

from dataclasses import dataclass
from typing import Final, Literal

from slackwater.model.resources import NOTHING, Amounts

#: v1: pieces by the average node alone. v2: also by the pods; the largest pod must find room too.
Sizing = Literal["v1", "v2"]

PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackRule:
    """A rule: keep room on the nodes that have all of `node_labels`; on every node if there are none.

    The room is at least `rate_ppm` millionths of what these nodes have allocatable, and at least `least`. A piece is at most an
    average node divided by `granularity`.
    """

    name: str
    rate_ppm: int = 0
    least: Amounts = NOTHING
    granularity: int = 5
    sizing: Sizing = "v2"
    node_labels: tuple[tuple[str, str], ...] = ()

    @property
    def asks(self) -> bool:
        """Does the rule ask for anything? False if it asks for nothing, whatever the cluster is."""
        return self.rate_ppm > 0 or self.least != NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPolicy:
    """Settings of slack. At most `max_nodes` nodes may exist for slack alone; 0: no limit. Excess room is given up after
    `shrink_seconds`.

    For start-time SLOs three times are assumed: a node starts within `node_start_seconds` as long as none was seen to start, a
    plan takes `loop_seconds`, and an unneeded node stays for `unneeded_seconds`.
    """

    rules: tuple[SlackRule, ...] = ()
    max_nodes: int = 0
    shrink_seconds: float = 600.0
    node_start_seconds: float = 120.0
    loop_seconds: float = 10.0
    unneeded_seconds: float = 0.0
