"""The policy of slack, its settings as values: room as a share of capacity and as amounts, for the cluster or for some
nodes."""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import PPM, Ppm, Seconds
from slackwater.model.resources import NOTHING, Amounts

#: v1: the average node alone decides the size of placeholders. v2: the pods do so too, and the largest pod must find room.
Sizing = Literal["v1", "v2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackRule:
    """A rule: keep room on the nodes that have all of `node_labels`; on all nodes if `node_labels` is empty.

    The room is at least `min_rate` millionths of what these nodes have allocatable, and at least `min`. It is kept by
    placeholders ("pieces"), each of which is at most an average node divided by `granularity`.
    """

    name: str
    min_rate: Ppm
    min: Amounts
    granularity: int
    sizing: Sizing
    node_labels: tuple[tuple[str, str], ...] = ()

    @property
    def asks(self) -> bool:
        """Does the rule ask for any room?"""
        return self.min_rate > 0 or self.min != NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomLimits:
    """The most nodes for annotations: of one namespace, and in all, as millionths of the cluster's nodes, but at least as many
    as one namespace may have. 0: no limit."""

    max_nodes_per_namespace: int
    max_cluster_share: Ppm

    def in_all(self, n_nodes: int) -> int | None:
        """The most nodes in all, for a cluster of so many; None: no limit."""
        return (
            max(-(-n_nodes * self.max_cluster_share // PPM), self.max_nodes_per_namespace) if self.max_cluster_share else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPolicy:
    """Settings of slack. `headroom_limits`: how much annotations may ask for. `max_nodes`: the most nodes that may exist for
    slack alone; 0: no limit. `shrink_delay`: for how long there must be too many placeholders before the excess is removed.
    `keep_nodes`: how long a group keeps the nodes that slack needed, after pods request less by at most the amount of slack; 0:
    not at all.

    For start-time SLOs three times are assumed: a node starts within `node_start_seconds` (while no start was observed), a loop
    takes `scan_interval`, and an unneeded node stays for `unneeded_time`.
    """

    rules: tuple[SlackRule, ...]
    max_nodes: int
    shrink_delay: Seconds
    keep_nodes: Seconds
    headroom_limits: HeadroomLimits
    node_start_seconds: float = 120.0
    scan_interval: Seconds
    unneeded_time: Seconds
