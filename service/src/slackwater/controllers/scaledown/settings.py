"""The `autoscaler.scaleDown` section of the configuration file, and the `scaleDown` section of a node group.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. Names and defaults are
Cluster Autoscaler's where it has them.
"""

from typing import Literal

from pydantic import Field

from slackwater.configuration.values import (
    Count,
    Cpu,
    CronSchedule,
    Delay,
    Fraction,
    Memory,
    NodeShare,
    Priority,
    Section,
    Switch,
    Timeout,
    Width,
    WindowTime,
    ZoneName,
)
from slackwater_protocol.durations import MINUTE, SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu


class NodeDisruptionBudget(Section):
    """How many nodes of a group may be disrupted at the same time, and when that holds: a `budget` of Karpenter's NodePools.
    Several budgets hold together; the least that is active counts."""

    nodes: NodeShare = Field(default="10%", examples=["10%", 5, 0])
    """Nodes of the group that may be in removal or not ready at the same time, a number or a percentage of the group's nodes,
    rounded up. 0: no removal begins. 10% by default, as in Karpenter."""
    reasons: tuple[Literal["Empty", "Underutilized", "Drifted", "Expired"], ...] = Field(
        default=(), examples=[["Underutilized"]]
    )
    """Removals that the budget limits. `Drifted`, `Expired`: of nodes that `autoscaler.consolidation.drift` and `expireAfter`
    replace. Of the rest, `Empty`: of nodes that no pod has to leave, `Underutilized`: of all others. Empty by default: all."""
    schedule: CronSchedule | None = Field(default=None, examples=["0 9 * * mon-fri", "@daily"])
    """Times at which the budget becomes active, five fields of cron or one of `@hourly`, `@daily`, `@midnight`, `@weekly`,
    `@monthly`, `@yearly`, `@annually`. Unset by default: the budget is always active."""
    duration: WindowTime | None = Field(default=None, examples=["8h"])
    """Duration for which the budget is active from each of these times, 1m to 8784h. Unset by default; needed with
    `schedule`."""
    time_zone: ZoneName = Field(default="UTC", examples=["Europe/Berlin"])
    """Time zone of `schedule`, a name of the tz database. UTC by default, the only one in Karpenter."""


class GroupScaleDown(Section):
    """How nodes of one group are removed."""

    enabled: Switch = True
    """Whether nodes of the group are removed. true by default."""
    utilization_threshold: Fraction | None = Field(default=None, examples=[0.3])
    """Like `autoscaler.scaleDown.utilizationThreshold`, for this group. Unset by default: the provider's value, if it has one,
    else that for all groups."""
    unneeded_time: Delay | None = Field(default=None, examples=["30m"])
    """Like `autoscaler.scaleDown.unneededTime`, for this group. Unset by default: the provider's value, if it has one, else
    that for all groups."""
    unready_time: Delay | None = Field(default=None, examples=["30m"])
    """Like `autoscaler.scaleDown.unreadyTime`, for this group. Unset by default: the provider's value, if it has one, else that
    for all groups."""
    expire_after: Delay | None = Field(default=None, examples=["720h", "0s"])
    """Like `autoscaler.consolidation.expireAfter`, for this group. Unset by default: that for all groups. 0s: never."""
    disruption_budgets: tuple[NodeDisruptionBudget, ...] | None = Field(default=None, examples=[[{"nodes": "20%"}]])
    """Like `autoscaler.scaleDown.disruptionBudgets`, for this group, in place of those for all groups. Unset by default: those
    for all groups. []: none."""


class ClusterMinimum(Section):
    """What all nodes together, in a group or not, keep at least."""

    nodes: Count = Field(default=0, examples=[3])
    """Nodes. 0 by default: no minimum."""
    cpu: Cpu = Field(default=MilliCpu(0), examples=["16"])
    """Quantity of allocatable CPU. 0 by default: no minimum."""
    memory: Memory = Field(default=Bytes(0), examples=["64Gi"])
    """Quantity of allocatable memory. 0 by default: no minimum."""


class BlockedBy(Section):
    """Pods that keep their node from being removed."""

    system_pods: Switch = True
    """Whether young pods of kube-system without a PodDisruptionBudget do. true by default."""
    system_pod_time: Delay = Field(default=Duration(60 * MINUTE), examples=["1h"])
    """Duration after its creation for which such a pod is young. 1h by default."""
    local_storage: Switch = True
    """Whether pods with hostPath or emptyDir volumes do, unless an annotation declares them safe to evict. true by default."""
    custom_controllers: Switch = False
    """Whether pods of controllers that are not part of Kubernetes do. false by default."""
    min_replicas: Count = Field(default=0, examples=[0])
    """With `customControllers`, pods of controllers with fewer replicas than this do. 0 by default: none."""
    fixed_machines: Switch = True
    """Whether virtual machines that may not migrate do. true by default; with false they are evicted like other pods."""


class PriorityGroup(Section):
    """Pods that are evicted at the same time."""

    priority: Priority = Field(examples=[0])
    """Lowest priority of the group's pods; the group ends below the next group's priority. No default."""
    time: Timeout = Field(examples=["1m"])
    """Duration that the group's pods have to terminate. No default."""


class Drain(Section):
    """The course of a drain: taint and cordon, evictions, and how long each may take."""

    cordon: Switch = True
    """Whether the node is also marked unschedulable, in addition to its taint. true by default: not every scheduler respects
    taints."""
    settle_time: Delay = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration between the last taint of a batch and its first eviction. 5s by default: schedulers then have seen the taint."""
    retry_interval: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration until an eviction that a PodDisruptionBudget refused is tried again. 10s by default; the retry comes sooner if
    the budget allows a disruption again."""
    eviction_timeout: Timeout = Field(default=Duration(2 * MINUTE), examples=["2m"])
    """Duration for which the eviction of one pod is tried, and for which a pod that fits on no other node any more is waited
    for. 2m by default."""
    max_graceful_termination: Timeout = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration that pods have to terminate, even if their grace period is longer. 10m by default."""
    priority_groups: tuple[PriorityGroup, ...] = Field(default=(), examples=[[{"priority": 0, "time": "1m"}]])
    """Groups of pods that are evicted one after another, lower priorities first. Empty by default: all pods at once, with
    `maxGracefulTermination`."""
    deadline: Timeout = Field(default=Duration(60 * MINUTE), examples=["1h"])
    """Duration after which a removal is abandoned if the node's deletion has not begun. 1h by default."""
    delay_deletion_timeout: Delay = Field(default=Duration(2 * MINUTE), examples=["2m"])
    """Duration for which annotations `delay-deletion.cluster-autoscaler.kubernetes.io/...` can delay the node's deletion. 2m by
    default."""
    force: Switch = False
    """Whether pods whose eviction takes too long are deleted in spite of their budgets. false by default: the node stays."""
    evict_daemon_sets: Switch = True
    """Whether DaemonSets' pods are evicted before their node is deleted; the deletion does not wait for them. true by
    default."""


class ScaleDown(Section):
    """How nodes that are not needed are removed."""

    enabled: Switch = True
    """Whether nodes are removed. true by default."""
    utilization_threshold: Fraction = Field(default=0.5, examples=[0.5])
    """Highest share of a node's CPU or memory, whichever is larger, that pods may request if the node is to be a candidate. If
    drivers publish devices for the node, the highest share of a pool's devices that claims may hold; CPU and memory do not
    count there. 0.5 by default, as in Cluster Autoscaler."""
    unneeded_time: Delay = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration for which a node has to be unneeded before it is removed. 10m by default: shorter than most minimum billing
    periods, longer than a rolling update."""
    min_node_age: Delay = Field(default=Duration(0), examples=["1h"])
    """Age below which a node is not removed, not even if it is empty. 0s by default: none. An hour keeps nodes that demand
    around a threshold would add and remove again and again; `autoscaler.consolidation.minNodeAge` holds for replacing nodes."""
    unready_time: Delay = Field(default=Duration(20 * MINUTE), examples=["20m"])
    """Like `unneededTime`, for a node that is not ready. 20m by default: a reboot must not cost the node."""
    gpu_utilization_threshold: Fraction = Field(default=0.5, examples=[0.5])
    """Like `utilizationThreshold`, for nodes with GPUs: the highest share of the GPUs that pods may request. CPU and memory do
    not count there. 0.5 by default."""
    ignore_daemon_sets_utilization: Switch = False
    """Whether the requests of DaemonSets' pods are left out of the shares. false by default."""
    unready_enabled: Switch = True
    """Whether nodes that are not ready are removed too. true by default."""
    max_scale_down_parallelism: Width = Field(default=10, examples=[10])
    """Nodes, empty or not, that may be in removal at the same time. 10 by default."""
    max_drain_parallelism: Width = Field(default=5, examples=[5])
    """Nodes with pods that may be drained at the same time. 5 by default; more than `maxScaleDownParallelism` has no
    effect."""
    simulation_timeout: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration that planning a scale-down may take; after it, the partial result is used. A last resort beside the
    limit on steps. 0s: no limit. 30s by default."""
    unremovable_recheck_time: Delay = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration for which a node is not tried again after its pods fitted nowhere else or its drain failed. 5m by default."""
    max_drain_backoff: Delay = Field(default=Duration(240 * MINUTE), examples=["4h"])
    """Longest duration of a node's back-off after failed drains: it begins with `unremovableRecheckTime` and doubles with each
    failure. 4h by default: each failed drain disturbs the node's other pods."""
    choice: Literal["value", "list"] = Field(default="value", examples=["value"])
    """Which nodes are removed first. `value`: those with the highest savings compared with the disruption. `list`: in the order
    of the node list, as in Cluster Autoscaler. value by default."""
    minimum: ClusterMinimum = ClusterMinimum()
    """What all nodes together keep at least."""
    max_soft_taints: Count = Field(default=10, examples=[10])
    """Soft taints on candidates that one loop writes or removes. 10 by default: the taints only carry the unneeded time over a
    restart, so nothing waits for them."""
    delay_after_add: Delay = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration after a scale-up of a group in which the group is not scaled down. 10m by default: pods are still being
    placed."""
    delay_after_delete: Delay = Field(default=Duration(0), examples=["0s"])
    """Duration after a removal in which the group is not scaled down again. 0s by default: none."""
    delay_after_failure: Delay = Field(default=Duration(3 * MINUTE), examples=["3m"])
    """Duration after a failed removal in which the group is not scaled down. 3m by default: time for the provider to
    recover."""
    disruption_budgets: tuple[NodeDisruptionBudget, ...] = Field(
        default=(), examples=[[{"nodes": 0, "schedule": "0 9 * * mon-fri", "duration": "8h", "timeZone": "Europe/Berlin"}]]
    )
    """How many nodes of each group may be disrupted at the same time, and when. They hold for each group by itself, unless it
    has its own. Empty by default: no limit beside the parallelism."""
    blocked_by: BlockedBy = BlockedBy()
    """Which pods keep their node from being removed."""
    drain: Drain = Drain()
    """How a node is drained."""
