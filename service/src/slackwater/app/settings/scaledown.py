"""The `autoscaler.scaleDown` section of the configuration file, and the `scaleDown` section of a node group.

The docstring under each key becomes its description in docs and schema: its unit, its default and why. Names and defaults are
Cluster Autoscaler's where it has them.
"""

from typing import Literal

from pydantic import Field

from slackwater.app.settings.section import Section
from slackwater.app.settings.values import Count, Cpu, Delay, Fraction, Memory, Switch, Timeout, Whole32, Width
from slackwater_protocol.durations import MINUTE, SECOND, Duration
from slackwater_protocol.units import Bytes, MilliCpu


class GroupScaleDown(Section):
    """Removal of a group's nodes."""

    enabled: Switch = True
    """Whether nodes of the group are removed. true by default."""
    utilization_threshold: Fraction | None = Field(default=None, examples=[0.3])
    """As `autoscaler.scaleDown.utilizationThreshold`. Unset by default: what the provider says, else what holds for all."""
    unneeded_time: Delay | None = Field(default=None, examples=["30m"])
    """As `autoscaler.scaleDown.unneededTime`. Unset by default: what the provider says, else what holds for all."""
    unready_time: Delay | None = Field(default=None, examples=["30m"])
    """As `autoscaler.scaleDown.unreadyTime`. Unset by default: what the provider says, else what holds for all."""


class ClusterMinimum(Section):
    """What the nodes of all groups and none keep together, whatever could go."""

    nodes: Count = Field(default=0, examples=[3])
    """Nodes. 0 by default: no minimum."""
    cpu: Cpu = Field(default=MilliCpu(0), examples=["16"])
    """Quantity of allocatable CPU. 0 by default: no minimum."""
    memory: Memory = Field(default=Bytes(0), examples=["64Gi"])
    """Quantity of allocatable memory. 0 by default: no minimum."""


class BlockedBy(Section):
    """Pods that nobody may move."""

    system_pods: Switch = True
    """Young pods of kube-system without a PodDisruptionBudget. true by default."""
    system_pod_time: Delay = Field(default=Duration(60 * MINUTE), examples=["1h"])
    """Duration after its creation for which such a pod counts as young. 1h by default."""
    local_storage: Switch = True
    """Pods with hostPath or emptyDir volumes that no annotation gives free. true by default."""
    custom_controllers: Switch = False
    """Pods of controllers that are not built into Kubernetes. false by default."""
    min_replicas: Count = Field(default=0, examples=[0])
    """With `customControllers`: pods of controllers with fewer replicas. 0 by default: none."""
    fixed_machines: Switch = True
    """Virtual machines that may not migrate. true by default; with false they are evicted like other pods."""


class PriorityGroup(Section):
    """Pods that leave at the same time."""

    priority: Whole32 = Field(examples=[0])
    """The lowest priority of its pods; the next group's is where it ends. No default."""
    time: Timeout = Field(examples=["1m"])
    """Duration that its pods have to end. No default."""


class Drain(Section):
    """How pods leave a node."""

    cordon: Switch = True
    """Whether the node also becomes unschedulable, beside its taint. true by default: not every scheduler heeds taints."""
    settle_time: Delay = Field(default=Duration(5 * SECOND), examples=["5s"])
    """Duration between the last taint of a batch and its first eviction. 5s by default: schedulers then have seen it."""
    retry_interval: Timeout = Field(default=Duration(10 * SECOND), examples=["10s"])
    """Duration between two attempts where a PodDisruptionBudget allows none. 10s by default; sooner where it allows one
    again."""
    eviction_timeout: Timeout = Field(default=Duration(2 * MINUTE), examples=["2m"])
    """Duration for which the eviction of one pod is tried. 2m by default."""
    max_graceful_termination: Timeout = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration that pods have to end, however much longer they ask for. 10m by default."""
    priority_groups: tuple[PriorityGroup, ...] = Field(default=(), examples=[[{"priority": 0, "time": "1m"}]])
    """Groups that leave one after another, lower priorities first. Empty by default: all at once, with
    `maxGracefulTermination`."""
    deadline: Timeout = Field(default=Duration(60 * MINUTE), examples=["1h"])
    """Duration after which a removal that has not come to its node's deletion is given up. 1h by default."""
    delay_deletion_timeout: Delay = Field(default=Duration(2 * MINUTE), examples=["2m"])
    """Duration for which annotations `delay-deletion.cluster-autoscaler.kubernetes.io/...` are heeded. 2m by default."""
    force: Switch = False
    """Whether pods whose eviction takes too long are deleted, whatever their budgets say. false by default: the node stays."""
    evict_daemon_sets: Switch = True
    """Whether DaemonSets' pods have to leave before their node goes; nobody waits for them. true by default."""


class ScaleDown(Section):
    """Removal of nodes that are not needed."""

    enabled: Switch = True
    """Whether nodes are removed. true by default."""
    utilization_threshold: Fraction = Field(default=0.5, examples=[0.5])
    """Share of a node's requests below which it is a candidate. 0.5 by default, the figure of Cluster
    Autoscaler."""
    unneeded_time: Delay = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration for which a node has to be unneeded before it goes. 10m by default: shorter than most paid minimums,
    longer than a rolling update."""
    unready_time: Delay = Field(default=Duration(20 * MINUTE), examples=["20m"])
    """The same for a node that is not ready. 20m by default: a reboot must not cost the node."""
    gpu_utilization_threshold: Fraction = Field(default=0.5, examples=[0.5])
    """The same share of a node's graphics cards, for nodes that have any; CPU and memory do not count there. 0.5 by
    default."""
    ignore_daemon_sets_utilization: Switch = False
    """Whether what DaemonSets' pods request is left out of the shares. false by default."""
    unready_enabled: Switch = True
    """Whether nodes that are not ready are removed too. true by default."""
    max_scale_down_parallelism: Width = Field(default=10, examples=[10])
    """Nodes, empty or not, that may be on their way out at the same time. 10 by default; where `maxEmptyBulkDelete` is set
    and this is not, that."""
    max_empty_bulk_delete: Width | None = Field(default=None, examples=[10])
    """Deprecated name of `maxScaleDownParallelism`. Unset by default."""
    max_drain_parallelism: Width = Field(default=5, examples=[5])
    """Nodes with pods that may be drained at the same time. 5 by default; more than `maxScaleDownParallelism` has no
    effect."""
    overlap_drains: Switch = True
    """Whether nodes with pods begin to be drained while other nodes are being removed. true by default; false is slower,
    and surer that what was planned last is still true."""
    simulation_timeout: Delay = Field(default=Duration(30 * SECOND), examples=["30s", "0s"])
    """Duration that planning a scale-down may take; what is found by then is used. 0s: no limit. 30s by default."""
    min_evaluated_nodes: Count = Field(default=10, examples=[10])
    """Nodes that are tried in each loop, however long that takes. 10 by default."""
    unremovable_recheck_time: Delay = Field(default=Duration(5 * MINUTE), examples=["5m"])
    """Duration for which a node that could not be emptied is not tried again, nor one whose drain failed. 5m by default."""
    max_drain_backoff: Delay = Field(default=Duration(240 * MINUTE), examples=["4h"])
    """Duration up to which each further failed drain of a node doubles `unremovableRecheckTime` for it. 4h by default: a drain
    that fails again and again disturbs the node's other pods each time."""
    eviction_memory: Delay = Field(default=Duration(1 * MINUTE), examples=["1m"])
    """Duration for which an evicted pod that its controller has not made again yet keeps its room. 1m by default: longer
    than controllers need."""
    choice: Literal["value", "list"] = Field(default="value", examples=["value"])
    """Which nodes go first: `value`: what saves most against what it disturbs, `list`: the order of the node list, as in
    Cluster Autoscaler. value by default."""
    minimum: ClusterMinimum = ClusterMinimum()
    """What is kept of all nodes together."""
    max_soft_taints: Count = Field(default=10, examples=[10])
    """Taints of candidates that one loop writes or takes off. 10 by default: they keep times over a restart, nothing waits
    for them."""
    delay_after_add: Delay = Field(default=Duration(10 * MINUTE), examples=["10m"])
    """Duration after a group has grown in which it does not shrink. 10m by default: pods are still settling."""
    delay_after_delete: Delay = Field(default=Duration(0), examples=["0s"])
    """Duration after a group has shrunk in which it does not shrink again. 0s by default: none."""
    delay_after_failure: Delay = Field(default=Duration(3 * MINUTE), examples=["3m"])
    """Duration after a failed removal in which the group does not shrink. 3m by default: time for the provider to
    recover."""
    blocked_by: BlockedBy = BlockedBy()
    """Which pods keep their node from being removed."""
    drain: Drain = Drain()
    """How pods leave a node that is being removed."""

    @property
    def parallelism(self) -> int:
        """`maxScaleDownParallelism`; or `maxEmptyBulkDelete`, its old name, if only that is set."""
        old = self.max_empty_bulk_delete
        said = "max_scale_down_parallelism" in self.model_fields_set
        return self.max_scale_down_parallelism if said or old is None else old
