"""What rules read beside the pod itself."""

from dataclasses import dataclass, field
from typing import Final

from slackwater.fit.disruptions import Disruptions
from slackwater.fit.drainability.verdict import Verdict
from slackwater.model.controllers import Targets
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import UnixTime

_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPolicy:
    """What blocks a node. Names and defaults are Cluster Autoscaler's `skip-nodes-with-...` and their neighbours.

    A pod of kube-system without a budget blocks for `system_pod_seconds` after its creation. With `custom_controllers`
    only pods of the built-in controllers may be moved, and no controller below `min_replicas`. Virtual
    machines that may migrate do, where `machines_migrate`; the others are evicted like other pods, where `machines_evicted`.
    Pods of a priority below `priority_cutoff` are expendable: they go with their node.
    """

    system_pods: bool = True
    system_pod_seconds: float = 60 * _MINUTE
    local_storage: bool = True
    custom_controllers: bool = False
    min_replicas: int = 0
    machines_migrate: bool = True
    machines_evicted: bool = False
    priority_cutoff: int = -10


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """`disruptions` is what budgets still allow, `replicas` what controllers want.

    Either is None where nothing is known of such objects: rules that need them are then skipped.
    """

    now: UnixTime
    policy: DrainPolicy = field(default_factory=DrainPolicy)
    disruptions: Disruptions | None = None
    replicas: Targets | None = None
    #: Verdicts by the identity of the ties; only `drainability` writes here.
    judged: dict[int, tuple[EvictionFacts, Verdict]] = field(default_factory=dict, compare=False, repr=False)
