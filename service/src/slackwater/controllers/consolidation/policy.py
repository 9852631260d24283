"""The policy of consolidation: its settings as values."""

from dataclasses import dataclass

from slackwater.model.ids import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPolicy:
    """Settings of consolidation. `interval`: between two plans. `planned_time`: for how long every plan has to replace a node
    before that begins. `min_saving_ratio`: the least share of all money that a move saves, divided by its share of all
    disruption. `eviction_cost`: micros for each evicted pod. `overlap_seconds`: how long new nodes run beside those that they
    replace, at most. `allow_spot`: pods of on-demand nodes may get new spot nodes."""

    enabled: bool
    interval: Seconds
    planned_time: Seconds
    min_saving_ratio: float
    horizon: Seconds
    eviction_cost: int
    pod_rest: Seconds
    min_node_age: Seconds
    allow_spot: bool
    overlap_seconds: float = 900.0
