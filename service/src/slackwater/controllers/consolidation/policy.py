"""The policy of consolidation: its settings as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.controllers.scaledown.policy import ScaleDownPolicy
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.model.ids import Seconds
from slackwater.model.nodegroups import GroupName

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPolicy:
    """Settings of consolidation. `interval`: between two plans. `planned_time`: for how long every plan has to replace a node
    before that begins. `min_saving_ratio`: the least share of all money that a move saves, divided by its share of all
    disruption. `eviction_cost`: micros for each evicted pod. `overlap_seconds`: how long new nodes run beside those that they
    replace, at most. `allow_spot`: pods of on-demand nodes may get new spot nodes.
    `drift`: nodes that are not as new ones are replaced. `expire_after`: the age at which nodes are replaced, 0: never;
    `expire_after_of` has the groups with an age of their own."""

    enabled: bool
    interval: Seconds
    planned_time: Seconds
    min_saving_ratio: float
    horizon: Seconds
    eviction_cost: int
    pod_rest: Seconds
    min_node_age: Seconds
    allow_spot: bool
    drift: bool
    expire_after: Seconds
    expire_after_of: Mapping[GroupName, Seconds] = field(default_factory=dict)
    overlap_seconds: float = 900.0

    def moving_cost(self, price: int, pods: int) -> int:
        """What moving so many pods costs once, in micros, with new nodes at this price."""
        return round(price * self.overlap_seconds / _HOUR) + pods * self.eviction_cost

    def pays(self, saved: int, ratio: float, moving_cost: int) -> bool:
        """Does a move that saves so many micros an hour save enough for its disruption? `ratio`: as `min_saving_ratio`."""
        return saved > 0 and ratio >= self.min_saving_ratio and saved * self.horizon / _HOUR > moving_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationRules:
    """The policies that a plan follows. Of scale-down's it reads which nodes and pods may be disturbed, of scale-up's how nodes
    are added."""

    policy: ConsolidationPolicy
    scale_down: ScaleDownPolicy
    scale_up: ScaleUpPolicy
