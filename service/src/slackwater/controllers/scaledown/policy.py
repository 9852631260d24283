"""The policy of scale-down: its settings as values, for all nodes and for single groups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from slackwater.fit.drainability import DrainPolicy
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Seconds
from slackwater.model.nodegroups import GroupName, NodeGroup

#: value: by removal score. list: in the order of the node list, as in Cluster Autoscaler.
Choice = Literal["value", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityGroup:
    """A group of pods that are evicted together: pods of at least `priority`, up to the priority of the next group. `time`:
    how long its pods may take to terminate."""

    priority: int
    time: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """Limits on a removal, in seconds. Defaults are Cluster Autoscaler's, except `deadline`: the longest time from the
    beginning of a removal until its provider is asked.

    `settle_time`: the pause between the last taint of a batch and its first eviction, so that schedulers have seen the
    taints. `priority_groups`: priority groups leave one after another, lower priorities first; a pod below the lowest group
    leaves with it. `retry_interval`: the pause before a blocked eviction is sent again, unless the budget allows a disruption
    before. `eviction_timeout`: for how long the eviction of one pod is tried, and for how long a pod may be without a
    destination. `force`: pods whose eviction takes too long are deleted. `delay_deletion_timeout`: how long annotations may
    delay the deletion. `removal_seconds`: how long a node may exist after its provider has accepted the deletion. `migrate`:
    virtual machines that may migrate do so instead of being evicted.
    """

    cordon: bool
    settle_time: Seconds
    retry_interval: Seconds
    eviction_timeout: Seconds
    priority_groups: tuple[PriorityGroup, ...]
    headroom_seconds: float = 30.0
    deadline: Seconds
    delay_deletion_timeout: Seconds
    removal_seconds: float = 900.0
    force: bool
    evict_daemon_sets: bool
    migrate: bool

    def group_of(self, priority: int) -> int:
        """The index of the group for this priority: the highest group whose priority it reaches, else the lowest group."""
        return max((at for at, group in enumerate(self.priority_groups) if group.priority <= priority), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMinimum:
    """What all nodes of the cluster together must have at least: a number of nodes, allocatable milliCPU and bytes. 0: no
    minimum."""

    nodes: int
    cpu: int
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicy:
    """The configuration of one group. None: the value of the group's provider, or the value for all groups, applies."""

    enabled: bool = True
    utilization_threshold: float | None = None
    unneeded_time: Seconds | None = None
    unready_time: Seconds | None = None
    disruption_budgets: tuple[NodeDisruptionBudget, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownPolicy:
    """Settings of scale-down. Thresholds are shares of allocatable, 0..1. `min_evaluated`: the number of nodes that each plan
    tries even if its time is over.

    `unremovable_recheck_time`: how long a node is not tried again after it could not be emptied, or after its drain failed;
    each further failed drain doubles that, up to `max_drain_backoff`. `eviction_memory_seconds`: how long an evicted pod is
    remembered. `simulation_timeout` bounds the planning; 0: no limit. `parallel_drain` False: no drain begins while any node is
    being removed.
    """

    enabled: bool
    utilization_threshold: float
    gpu_utilization_threshold: float
    ignore_daemon_sets_utilization: bool
    unneeded_time: Seconds
    min_node_age: Seconds
    #: Of the nodes that are ready, only empty ones are removed, and those that others replace: consolidation chooses the rest.
    only_empty: bool
    unready_time: Seconds
    unready_enabled: bool
    max_scale_down_parallelism: int
    max_drain_parallelism: int
    parallel_drain: bool
    min_evaluated: int = 10
    unremovable_recheck_time: Seconds
    max_drain_backoff: Seconds
    eviction_memory_seconds: float = 60.0
    simulation_timeout: Seconds
    max_soft_taints: int
    choice: Choice
    minimum: ClusterMinimum
    blocked_by: DrainPolicy
    delay_after_add: Seconds
    delay_after_delete: Seconds
    delay_after_failure: Seconds
    disruption_budgets: tuple[NodeDisruptionBudget, ...]
    groups: Mapping[GroupName, GroupPolicy]

    def backoff_seconds(self, failures: int) -> float:
        """How long a node is not tried again after so many of its drains have failed in a row."""
        backoff = ExponentialBackoff(first_seconds=self.unremovable_recheck_time, longest_seconds=self.max_drain_backoff)
        return backoff.seconds(failures)

    def budgets_of(self, groups: Iterable[NodeGroup]) -> dict[GroupName, tuple[NodeDisruptionBudget, ...]]:
        """The disruption budgets of each of these groups that has any. The list of the group's configuration replaces that of
        its provider, and this one that for all groups."""
        found = {}
        for group in groups:
            lists = self.groups.get(group.name, _UNSAID).disruption_budgets, group.options.disruption_budgets
            found[group.name] = next((each for each in lists if each is not None), self.disruption_budgets)
        return {name: budgets for name, budgets in found.items() if budgets}


_UNSAID: Final = GroupPolicy()
_OF_GROUPS: Final = (
    "enabled",
    "utilization_threshold",
    "gpu_utilization_threshold",
    "unneeded_time",
    "unready_time",
    "ignore_daemon_sets_utilization",
)


def rules_of(group: NodeGroup, policy: ScaleDownPolicy) -> ScaleDownPolicy:
    """The policy for the nodes of one group. Each value comes from the first of these that sets it: 1. the configuration of the
    group;  2. its provider;  3. the configuration for all groups. Nodes of a group that cannot be read are not removed."""
    own, said = policy.groups.get(group.name, _UNSAID), dict[str, Any]()
    for source in (group.options, own):
        said |= {name: value for name in _OF_GROUPS if (value := getattr(source, name, None)) is not None}
    if group.unreadable:
        said["enabled"] = False
    return replace(policy, **said)
