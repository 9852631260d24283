"""What the user decides about scaling up: filled from the configuration, read by `plan` and `pending`."""

from dataclasses import dataclass, field

from slackwater.decide.scaleup.expanders.chain import ExpanderName
from slackwater.decide.scaleup.expanders.priority import Priorities
from slackwater.decide.scaleup.limits import Quota
from slackwater.decide.scaleup.pending import PendingRules
from slackwater.model.resources import NOTHING, Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPolicy:
    """`max_nodes` bounds one plan, `estimate_seconds` all estimates of one option, `plan_seconds` the plan; 0: no limit.

    `balance` lets similar groups grow alike. `system` is set aside on every node by our own accounting. `priorities` and
    `seed` are for the expanders of these names.
    """

    pending: PendingRules = field(default_factory=PendingRules)
    expanders: tuple[ExpanderName, ...] = ("least-waste",)
    balance: bool = True
    max_nodes: int = 1000
    estimate_seconds: float = 10.0
    plan_seconds: float = 60.0
    quotas: tuple[Quota, ...] = ()
    system: Amounts = NOTHING
    priorities: Priorities = field(default_factory=Priorities)
    seed: int = 0
