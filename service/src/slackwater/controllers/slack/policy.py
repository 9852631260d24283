"""The policy of slack, its settings as values: room as a share of capacity and as amounts, for the cluster or for some
nodes."""

from dataclasses import dataclass
from typing import Final, Literal

from slackwater.model.resources import NOTHING, Amounts

#: v1: the average node alone decides the size of placeholders. v2: the pods do so too, and the largest pod must find room.
Sizing = Literal["v1", "v2"]

PPM: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackRule:
    """A rule: keep room on the nodes that have all of `node_labels`; on all nodes if `node_labels` is empty.

    The room is at least `rate_ppm` millionths of what these nodes have allocatable, and at least `least`. It is kept by
    placeholders ("pieces"), each of which is at most an average node divided by `granularity`.
    """

    name: str
    rate_ppm: int = 0
    least: Amounts = NOTHING
    granularity: int = 5
    sizing: Sizing = "v2"
    node_labels: tuple[tuple[str, str], ...] = ()

    @property
    def asks(self) -> bool:
        """Does the rule ask for any room?"""
        return self.rate_ppm > 0 or self.least != NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLimits:
    """The most nodes for annotations: of one namespace, and in all, as millionths of the cluster's nodes, but at least as many
    as one namespace may have. 0: no limit."""

    max_nodes: int = 2
    share_ppm: int = 50_000

    def in_all(self, n_nodes: int) -> int | None:
        """The most nodes in all, for a cluster of so many; None: no limit."""
        return max(-(-n_nodes * self.share_ppm // PPM), self.max_nodes) if self.share_ppm else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPolicy:
    """Settings of slack. `headroom`: how much annotations may ask for. `max_nodes`: the most nodes that may exist for slack
    alone; 0: no limit. `shrink_seconds`: for how long there must be too many placeholders before the excess is removed.
    `keep_seconds`: how long a group keeps the nodes that slack needed, after pods request less by at most the amount of slack;
    0: not at all.

    For start-time SLOs three times are assumed: a node starts within `node_start_seconds` (while no start was observed), a loop
    takes `loop_seconds`, and an unneeded node stays for `unneeded_seconds`.
    """

    rules: tuple[SlackRule, ...] = ()
    max_nodes: int = 0
    shrink_seconds: float = 600.0
    keep_seconds: float = 3600.0
    headroom: HeadroomLimits = HeadroomLimits()
    node_start_seconds: float = 120.0
    loop_seconds: float = 10.0
    unneeded_seconds: float = 0.0
