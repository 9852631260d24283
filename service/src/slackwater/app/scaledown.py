"""Translates the settings into the frozen policies of scale-down: candidates, drainability, drains and cool-downs."""

from slackwater.app.settings import Settings
from slackwater.controllers.scaledown.drains.limits import DrainLimits, PriorityGroup
from slackwater.controllers.scaledown.loop import ScaleDownDelays
from slackwater.controllers.scaledown.policy import ClusterMinimum, GroupPolicy, ScaleDownPolicy
from slackwater.fit.drainability import DrainPolicy
from slackwater.model.nodegroups import GroupName
from slackwater_protocol.durations import Duration, seconds

_LOWEST_PRIORITY = -(2**31)


def scale_down_policy_of(settings: Settings) -> ScaleDownPolicy:
    """The policy of scale-down: which nodes may be removed, and how many in parallel. Without the feature gate ParallelDrain
    one node is drained at a time."""
    autoscaler, scale_down = settings.autoscaler, settings.autoscaler.scale_down
    parallel = settings.feature_gates.parallel_drain
    minimum = scale_down.minimum
    return ScaleDownPolicy(
        enabled=scale_down.enabled,
        utilization_threshold=scale_down.utilization_threshold,
        gpu_utilization_threshold=scale_down.gpu_utilization_threshold,
        ignore_daemon_sets=scale_down.ignore_daemon_sets_utilization,
        unneeded_seconds=seconds(scale_down.unneeded_time),
        unready_seconds=seconds(scale_down.unready_time),
        unready_enabled=scale_down.unready_enabled,
        max_parallelism=scale_down.parallelism,
        max_drains=scale_down.max_drain_parallelism if parallel else 1,
        overlap_drains=scale_down.overlap_drains and parallel,
        min_evaluated=scale_down.min_evaluated_nodes,
        recheck_seconds=seconds(scale_down.unremovable_recheck_time),
        longest_backoff_seconds=seconds(scale_down.max_drain_backoff),
        eviction_memory_seconds=seconds(scale_down.eviction_memory),
        max_soft_taints=scale_down.max_soft_taints,
        choice=scale_down.choice,
        minimum=ClusterMinimum(nodes=minimum.nodes, cpu=minimum.cpu, memory=minimum.memory),
        rules=drain_rules_of(settings),
        groups={
            GroupName(group.name): GroupPolicy(
                enabled=group.enabled and group.scale_down.enabled,
                utilization_threshold=group.scale_down.utilization_threshold,
                unneeded_seconds=_maybe(group.scale_down.unneeded_time),
                unready_seconds=_maybe(group.scale_down.unready_time),
            )
            for group in autoscaler.node_groups
        },
    )


def drain_rules_of(settings: Settings) -> DrainPolicy:
    """The policy of the drainability rules: which pods keep their node from being removed."""
    blocked_by = settings.autoscaler.scale_down.blocked_by
    return DrainPolicy(
        system_pods=blocked_by.system_pods,
        system_pod_seconds=seconds(blocked_by.system_pod_time),
        local_storage=blocked_by.local_storage,
        custom_controllers=blocked_by.custom_controllers,
        min_replicas=blocked_by.min_replicas,
        machines_migrate=settings.migration.enabled,
        machines_evicted=not blocked_by.fixed_machines,
        priority_cutoff=settings.autoscaler.scale_up.expendable_pods_priority_cutoff,
    )


def drain_limits_of(settings: Settings) -> DrainLimits:
    """The limits of a drain: cordon, retries, timeouts, and the priority groups that are evicted one after another."""
    drain = settings.autoscaler.scale_down.drain
    groups = sorted(drain.priority_groups, key=lambda group: group.priority)
    whole = PriorityGroup(priority=_LOWEST_PRIORITY, seconds=seconds(drain.max_graceful_termination))
    return DrainLimits(
        cordon=drain.cordon,
        settle_seconds=seconds(drain.settle_time),
        retry_seconds=seconds(drain.retry_interval),
        eviction_seconds=seconds(drain.eviction_timeout),
        groups=tuple(PriorityGroup(priority=group.priority, seconds=seconds(group.time)) for group in groups) or (whole,),
        deadline_seconds=seconds(drain.deadline),
        delay_seconds=seconds(drain.delay_deletion_timeout),
        force=drain.force,
        evict_daemons=drain.evict_daemon_sets,
        migrate=settings.migration.enabled,
    )


def scale_down_delays_of(settings: Settings) -> ScaleDownDelays:
    """The cool-downs: how many seconds a group is not scaled down after a scale-up, a scale-down or a failed scale-down."""
    scale_down = settings.autoscaler.scale_down
    return ScaleDownDelays(
        after_add=seconds(scale_down.delay_after_add),
        after_delete=seconds(scale_down.delay_after_delete),
        after_failure=seconds(scale_down.delay_after_failure),
    )


def _maybe(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)
