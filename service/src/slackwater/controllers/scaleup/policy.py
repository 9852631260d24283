"""The policy of scale-up: its settings as values, read by `plan` and `pending`."""

from dataclasses import dataclass, field

from slackwater.controllers.scaleup.expanders.chain import ExpanderName
from slackwater.controllers.scaleup.expanders.priority import Priorities
from slackwater.controllers.scaleup.groups import Quota
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.model.node_taints import DEFAULT_TAINT_RULES, TaintRules
from slackwater.model.resources import NOTHING, Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPolicy:
    """Settings of scale-up. `max_nodes`: the most nodes of one plan. `estimate_seconds`: the longest time for all estimates of
    one bundle of groups. `plan_seconds`: the longest time for one plan. 0: no limit.

    `balance`: similar groups grow evenly; they may differ in `ignored_labels`. `system`: what our own accounting sets aside on
    every node. `taints`: which taints belong to single nodes, not to their group. `priorities` is for the expander `priority`.
    `seed` is for the random draw, which also decides among equal options.
    """

    pending: PendingRules = field(default_factory=PendingRules)
    expanders: tuple[ExpanderName, ...] = ("least-waste",)
    balance: bool = True
    ignored_labels: frozenset[str] = frozenset()
    max_nodes: int = 1000
    estimate_seconds: float = 10.0
    plan_seconds: float = 60.0
    quotas: tuple[Quota, ...] = ()
    system: Amounts = NOTHING
    taints: TaintRules = DEFAULT_TAINT_RULES
    priorities: Priorities = field(default_factory=Priorities)
    seed: int = 0
