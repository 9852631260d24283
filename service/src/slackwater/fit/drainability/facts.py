"""The policy and the facts that drainability rules read in addition to the pod."""

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
    """Settings of the drainability rules. Names and defaults are Cluster Autoscaler's `skip-nodes-with-...` and similar flags.

    A pod of kube-system without a budget blocks for `system_pod_seconds` after its creation. With `custom_controllers` only
    pods of the built-in controllers may be moved, and no pod whose controller has fewer than `min_replicas`. With
    `machines_migrate`, virtual machines that may migrate do; with `machines_evicted`, all others are evicted like other pods.
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
    """The facts that rules read: `disruptions` is what budgets still allow, `replicas` what controllers want.

    Either is None where such objects are unknown: rules that need them are then skipped.
    """

    now: UnixTime
    policy: DrainPolicy = field(default_factory=DrainPolicy)
    disruptions: Disruptions | None = None
    replicas: Targets | None = None
    #: Verdicts by the identity of the eviction facts; only `fit.drainability` writes here.
    judged: dict[int, tuple[EvictionFacts, Verdict]] = field(default_factory=dict, compare=False, repr=False)
