"""The policy of scale-down: its settings as values, for all nodes and for single groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from slackwater.fit.drainability import DrainPolicy
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.nodegroups import GroupName, NodeGroup

#: value: by removal score. list: in the order of the node list, as in Cluster Autoscaler.
Choice = Literal["value", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMinimum:
    """What all nodes of the cluster together must have at least: a number of nodes, allocatable milliCPU and bytes. 0: no
    minimum."""

    nodes: int = 0
    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicy:
    """The configuration of one group. None: the value of the group's provider, or the value for all groups, applies."""

    enabled: bool = True
    utilization_threshold: float | None = None
    unneeded_seconds: float | None = None
    unready_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownPolicy:
    """Settings of scale-down. Thresholds are shares of allocatable, 0..1. `min_evaluated`: the number of nodes that each plan
    tries even if its time is over.

    `recheck_seconds`: how long a node is not tried again after it could not be emptied, or after its drain failed; each further
    failed drain doubles that, up to `longest_backoff_seconds`. `eviction_memory_seconds`: how long an evicted pod is
    remembered. `overlap_drains` False: no drain begins while any node is being removed.
    """

    enabled: bool = True
    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    ignore_daemon_sets: bool = False
    unneeded_seconds: float = 600.0
    unready_seconds: float = 1200.0
    unready_enabled: bool = True
    max_parallelism: int = 10
    max_drains: int = 5
    overlap_drains: bool = True
    min_evaluated: int = 10
    recheck_seconds: float = 300.0
    longest_backoff_seconds: float = 14_400.0
    eviction_memory_seconds: float = 60.0
    max_soft_taints: int = 10
    choice: Choice = "value"
    minimum: ClusterMinimum = field(default_factory=ClusterMinimum)
    rules: DrainPolicy = field(default_factory=DrainPolicy)
    groups: Mapping[GroupName, GroupPolicy] = field(default_factory=dict)

    def backoff_seconds(self, failures: int) -> float:
        """How long a node is not tried again after so many of its drains have failed in a row."""
        backoff = ExponentialBackoff(first_seconds=self.recheck_seconds, longest_seconds=self.longest_backoff_seconds)
        return backoff.seconds(failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The rules for the nodes of one group, with every default filled in."""

    enabled: bool
    utilization_threshold: float
    gpu_utilization_threshold: float
    unneeded_seconds: float
    unready_seconds: float
    ignore_daemon_sets: bool


_UNSAID: Final = GroupPolicy()


def rules_of(group: NodeGroup, policy: ScaleDownPolicy) -> GroupRules:
    """The group's rules. Each value comes from the first of these that sets it: 1. the configuration of the group;  2. its
    provider;  3. the configuration for all groups."""
    own, options = policy.groups.get(group.name, _UNSAID), group.options
    return GroupRules(
        enabled=own.enabled,
        utilization_threshold=_first(own.utilization_threshold, options.utilization_threshold, policy.utilization_threshold),
        gpu_utilization_threshold=_first(options.gpu_utilization_threshold, policy.gpu_utilization_threshold),
        unneeded_seconds=_first(own.unneeded_seconds, options.unneeded_seconds, policy.unneeded_seconds),
        unready_seconds=_first(own.unready_seconds, options.unready_seconds, policy.unready_seconds),
        ignore_daemon_sets=policy.ignore_daemon_sets if options.ignore_daemon_sets is None else options.ignore_daemon_sets,
    )


def _first(*values: float | None) -> float:
    """The first value that is set."""
    return next(value for value in values if value is not None)
