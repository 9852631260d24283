"""The policy of scale-up: its settings as values, read by `plan` and `pending`."""

from dataclasses import dataclass, field

from slackwater.controllers.scaleup.expanders import ExpanderName, Priorities
from slackwater.controllers.scaleup.groups import NodeQuota
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.model.ids import Seconds
from slackwater.model.node_taints import TaintRules
from slackwater.model.prices import PriceBook
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPolicy:
    """Settings of scale-up. `max_nodes_per_scale_up`: the most nodes of one plan. `max_planning_time`: the longest time for all
    estimates of one bundle of groups. `plan_seconds`: the longest time for one plan; `plan_steps`: its most steps
    (`fit.steps`). 0: no limit.

    `believe_scheduler`: a pod that kube-scheduler keeps refusing does not count as one that fits on present nodes.
    `place_as_planned`: new nodes are for the pods that they were planned for, in later plans and in filter.

    `balance_similar_groups`: similar groups grow evenly; they may differ in `balancing_ignored_labels`. `system`: what our own
    accounting sets aside on every node. `taints`: which taints belong to single nodes, not to their group. `priorities` is for
    the expander "priority". `seed` is for the random draw, which also decides among equal options. `prices`: None if prices are
    not configured.
    """

    pending: PendingRules
    expanders: tuple[ExpanderName, ...]
    believe_scheduler: bool = False
    place_as_planned: bool = False
    balance_similar_groups: bool
    balancing_ignored_labels: tuple[str, ...]
    max_nodes_per_scale_up: int
    max_planning_time: Seconds
    plan_seconds: float
    plan_steps: int = 0
    quotas: tuple[NodeQuota, ...]
    system: Amounts
    taints: TaintRules
    priorities: Priorities = field(default_factory=Priorities)
    seed: int = 0
    prices: PriceBook | None = None
