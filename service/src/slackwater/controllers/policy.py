"""The policy of the state machine: its settings as one value, from the configuration file. A reload of the file replaces it."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from slackwater.controllers.scaledown.policy import DrainLimits
from slackwater.fit.drainability import DrainPolicy
from slackwater.fit.score_curve import ScoreCurve
from slackwater.model.authority import EVERY_POD, HandedOverPods
from slackwater.model.ids import Ppm, Seconds
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.ledger import NodePolicy
from slackwater.model.pauses import Activity
from slackwater.model.resources import Amounts
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """Settings of migration. `max_concurrent`, `max_per_source` and `max_per_target` limit the migrations that run at the same
    time: in the cluster, from one node, and to one node. `capacity_pressure_weight`: the weight of denied growth, in
    millionths.
    """

    enabled: bool
    max_concurrent: int
    max_per_source: int
    max_per_target: int
    capacity_pressure_weight: Ppm


@dataclass(frozen=True, slots=True, kw_only=True)
class VerticalPolicy:
    """How workloads grow in place. `compute_unit`: the compute unit of agents that name none. `max_step_units`: compute units
    by which one permit may grow a workload; 0: no limit."""

    compute_unit: Amounts
    max_step_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPolicy:
    """Settings of our own preemptions: they delete less important pods where only our accounting leaves no room.

    `timeout`: how long all victims of one preemption together may take to leave, if no grace period is longer.
    `delay`: how long a pod is refused before a victim has to leave for it; meanwhile a node or room may appear
    (kubernetes/kubernetes#137655).
    `max_running`: preemptions under way at the same time; further preemptors wait like any other refused pod. `paused`: no pod
    has to leave, not even where kube-scheduler itself proposes a victim.
    """

    enabled: bool
    paused: bool = False
    timeout: Seconds
    delay: Seconds
    max_running: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of the state machine, all durations in seconds.

    `hold_timeout`: how long room is held for a pod that was nominated after a sample miss, and for a guess of prioritize.
    `bind_backoff`: how long filter leaves out a node that refused the pod's bind, unless room appears on the node.
    `confirm_seconds`: how long the watch may take to show a bind before the pod is read. `in_flight_seconds`: if kube-scheduler
    binds, how long after filter its bind may arrive (an API server ends a request after 60 s). `volumes_seconds`: the same for
    pods with volume claims, because kube-scheduler waits for their volumes before it binds. `nominate_after_seconds`: how long
    after a refusal we write a nomination, because kube-scheduler clears the pod's nomination at the end of a failed cycle.
    """

    nodes: NodePolicy
    score: ScoreCurve
    randomize: bool
    missing_requests: Literal["reject", "zero"]
    #: Vertical pods of other schedulers count by what they use, since only Slackwater grants permits.
    scheduler_name: str
    vertical: VerticalPolicy
    migration: MigrationPolicy
    preemption: PreemptionPolicy
    #: Which pods keep their node from being removed, and how long the steps of a removal may take.
    blocked_by: DrainPolicy
    drain: DrainLimits
    #: Filter passes all other pods on every node, as if it were not asked.
    handed_over: HandedOverPods = EVERY_POD
    #: Filter names the node where a plan has room for the pod.
    place_as_planned: bool = False
    #: No pod is nominated after a sample miss.
    nominations_paused: bool = False
    #: False: kube-scheduler binds by itself; filter names one node, and the hold there is the reservation. True: filter holds
    #: nothing, and bind reserves.
    bind: bool
    in_flight_seconds: float = 75.0
    volumes_seconds: float = 660.0
    hold_timeout: Seconds
    bind_backoff: Seconds
    confirm_seconds: float = 10.0
    nominate_after_seconds: float = 0.3
    #: The version of kube-scheduler whose rules hold. A reload of the settings does not change it.
    kubernetes: KubernetesVersion = DEFAULT_VERSION
    #: The profiles of that kube-scheduler. A reload does not change them either.
    profiles: Profiles = field(default_factory=lambda: NO_PROFILES)


def with_pauses(policy: Policy, paused: Collection[Activity]) -> Policy:
    """The policy to use while these activities are paused. Scale-up and scale-down have policies of their own."""
    return replace(
        policy,
        preemption=replace(policy.preemption, paused="preemption" in paused),
        migration=replace(policy.migration, enabled=policy.migration.enabled and "migration" not in paused),
        nominations_paused="nomination" in paused,
    )
