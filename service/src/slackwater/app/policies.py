"""Translates the settings into the frozen policies of the state machine, the autoscaler, scale-down, the dispatcher and the
audit.

In: `Settings`. Out: values in the core's units (seconds, ppm, milliCPU, bytes).
"""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from slackwater.app.settings import Settings
from slackwater.controllers.audit.loop import AuditConfig
from slackwater.controllers.migration.policy import MigrationPolicy
from slackwater.controllers.policy import Policy, PreemptionPolicy, VerticalPolicy
from slackwater.controllers.scaledown.drains.node_view import DrainLimits, PriorityGroup
from slackwater.controllers.scaledown.loop import ScaleDownDelays
from slackwater.controllers.scaledown.policy import ClusterMinimum, GroupPolicy, ScaleDownPolicy
from slackwater.controllers.scaleup.expanders.priority import NO_PRIORITIES, Priorities
from slackwater.controllers.scaleup.groups import Quota
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.settings import Limits
from slackwater.controllers.slack.policy import HeadroomLimits, SlackPolicy, SlackRule
from slackwater.controllers.slack.settings import DAYS, WHOLE_CLUSTER, ExtraCapacity, SlackGroup, SlackOfAll, SlackSchedule
from slackwater.fit.drainability import DrainPolicy
from slackwater.fit.node_scores import RoomScore
from slackwater.fit.score.own import own_score
from slackwater.fit.score_curve import ScoreCurve
from slackwater.model.ids import UnixTime
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.ledger.ledger import NodePolicy
from slackwater.model.node_taints import TaintRules
from slackwater.model.nodegroups import GroupName
from slackwater.model.resources import Amounts
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles
from slackwater.model.selectors import Requirement
from slackwater.model.start_time_slo import PodClass
from slackwater.runtime.dispatcher import DispatcherConfig
from slackwater_protocol.durations import Duration, seconds

_PPM = 1_000_000
_NANOS = 1_000_000_000
#: The quota name of the limits on all nodes, shown if they keep a group from growing; Cluster Autoscaler's name.
_WHOLE_CLUSTER = "cluster-wide"
#: The time limit of a whole scale-up plan, as a multiple of the limit for one group's estimate.
PLANS = 6
#: The fraction of kube-scheduler's HTTP timeout for which filter's answer may be delayed.
_HELD_BACK = 0.25


def policy_of(settings: Settings, kubernetes: KubernetesVersion = DEFAULT_VERSION, profiles: Profiles = NO_PROFILES) -> Policy:
    """The policy of the state machine. `kubernetes` is the version whose rules hold, with kube-scheduler's `profiles`."""
    nodes, extender, vertical, migration = settings.nodes, settings.extender, settings.vertical, settings.migration
    preemption = settings.preemption
    return Policy(
        nodes=NodePolicy(
            watermark_cpu_ppm=round(nodes.watermark.cpu * _PPM),
            watermark_memory_ppm=round(nodes.watermark.memory * _PPM),
            system=Amounts(nodes.system.cpu, nodes.system.memory),
        ),
        curve=_curve_of(settings),
        randomize_scores=nodes.score.randomize,
        missing_requests=settings.vertical.missing_requests,
        scheduler_name=settings.scheduler_name,
        vertical=VerticalPolicy(
            unit=Amounts(vertical.compute_unit.vcpus, vertical.compute_unit.mem), max_step_units=vertical.max_step_units
        ),
        migration=MigrationPolicy(
            enabled=migration.enabled,
            max_concurrent=migration.max_concurrent,
            max_per_source=migration.max_per_source,
            max_per_target=migration.max_per_target,
            weight_ppm=round(migration.capacity_pressure_weight * _PPM),
        ),
        preemption=PreemptionPolicy(
            enabled=settings.feature_gates.async_preemption,
            timeout_seconds=seconds(preemption.timeout),
            delay_seconds=seconds(preemption.delay),
        ),
        binds=extender.bind,
        hold_seconds=seconds(extender.hold_timeout),
        bind_backoff_seconds=seconds(extender.bind_backoff),
        kubernetes=kubernetes,
        profiles=profiles,
    )


def scale_up_policy_of(
    settings: Settings, *, priorities: Priorities = NO_PRIORITIES, seed: int = 0, after_scheduler: bool = True
) -> ScaleUpPolicy:
    """The policy of scale-up. `priorities` come from the cluster's ConfigMap; `seed` makes random choices repeatable. With
    `after_scheduler` a pod counts only once its scheduler has tried it, with the exceptions in `PendingRules`."""
    autoscaler = settings.autoscaler
    scale_up = autoscaler.scale_up
    bypassed = scale_up.bypassed_scheduler_names
    quotas = [Quota(name=_WHOLE_CLUSTER, limits=_whole_amounts(scale_up.limits))]
    for quota in scale_up.quotas:
        selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted(quota.node_labels.items()))
        quotas.append(Quota(name=quota.name, limits=_whole_amounts(quota.limits), selector=selector))
    return ScaleUpPolicy(
        pending=PendingRules(
            priority_cutoff=scale_up.expendable_pods_priority_cutoff,
            new_pod_seconds=seconds(scale_up.new_pod_delay),
            settle_seconds=seconds(scale_up.settle_time),
            max_pods=scale_up.max_pods,
            after_scheduler=after_scheduler,
            bypassed=frozenset((settings.scheduler_name,) if bypassed is None else bypassed),
        ),
        expanders=autoscaler.expanders,
        balance=scale_up.balance_similar_groups,
        ignored_labels=frozenset(scale_up.balancing_ignored_labels),
        taints=taint_rules_of(settings),
        max_nodes=autoscaler.max_nodes_per_scale_up,
        estimate_seconds=seconds(autoscaler.max_planning_time),
        plan_seconds=PLANS * seconds(autoscaler.max_planning_time),
        quotas=tuple(quotas),
        system=Amounts(settings.nodes.system.cpu, settings.nodes.system.memory),
        priorities=priorities,
        seed=seed,
    )


def own_score_of(settings: Settings) -> RoomScore:
    """Slackwater's own score of nodes, with the weight that kube-scheduler gives to the extender's scores."""
    curve = _curve_of(settings)
    return own_score(lambda: curve, settings.extender.weight)


def _curve_of(settings: Settings) -> ScoreCurve:
    score = settings.nodes.score
    return ScoreCurve(min_usage=score.min_usage, max_usage=score.max_usage, peak=score.peak)


def taint_rules_of(settings: Settings) -> TaintRules:
    """The taints that are left out of a group's template node, and those that mark a node as still starting."""
    scale_up = settings.autoscaler.scale_up
    return TaintRules(startup=scale_up.startup_taints, status=scale_up.status_taints)


def slack_policy_of(settings: Settings, *, at: UnixTime | None = None) -> SlackPolicy | None:
    """The policy of slack: how much room is kept; None if slack is switched off. Schedules count only if the time `at` is
    given."""
    slack = settings.autoscaler.slack
    if not settings.feature_gates.resource_slack:
        return None
    kept: list[SlackGroup | SlackSchedule] = [*slack.groups]
    if at is not None:
        kept += [schedule for schedule in slack.schedules if is_due(schedule, at)]
    division = slack.extra_capacity
    rules = [_slack_rule(WHOLE_CLUSTER, division, {}, division)]
    rules += [_slack_rule(each.name, each.extra_capacity, each.node_labels, division) for each in kept]
    return SlackPolicy(
        rules=tuple(rules),
        max_nodes=slack.max_nodes,
        shrink_seconds=seconds(slack.shrink_delay),
        keep_seconds=seconds(slack.keep_nodes),
        headroom=HeadroomLimits(
            max_nodes=slack.headroom_limits.max_nodes_per_namespace,
            share_ppm=round(slack.headroom_limits.max_cluster_share * _PPM),
        ),
        loop_seconds=seconds(settings.autoscaler.scan_interval),
        unneeded_seconds=_shortest_unneeded(settings),
    )


def _shortest_unneeded(settings: Settings) -> float:
    """The shortest time in seconds, over all groups, for which an unneeded node stays."""
    groups = [group.scale_down.unneeded_time for group in settings.autoscaler.node_groups]
    times = [settings.autoscaler.scale_down.unneeded_time, *(time for time in groups if time is not None)]
    return min(map(seconds, times))


def slo_classes_of(settings: Settings) -> tuple[PodClass, ...]:
    """The classes of pods that have a start-time SLO; none if slack is switched off."""
    if not settings.feature_gates.resource_slack:
        return ()
    return tuple(
        PodClass(
            name=slo.name,
            share_ppm=round(slo.percent * _PPM / 100),
            within_seconds=seconds(slo.within),
            namespaces=slo.pods.namespaces,
            labels=tuple(sorted(slo.pods.labels.items())),
            least_priority=slo.pods.min_priority,
            most_priority=slo.pods.max_priority,
        )
        for slo in settings.autoscaler.slack.start_time_slos
    )


def is_due(schedule: SlackSchedule, at: UnixTime) -> bool:
    """True if the schedule is active at the time `at`. One that passes midnight belongs to the day on which it begins."""
    local = datetime.fromtimestamp(at, ZoneInfo(schedule.time_zone))
    now, today = f"{local:%H:%M}", DAYS[local.weekday()]
    if schedule.start < schedule.end:
        return today in schedule.days and schedule.start <= now < schedule.end
    yesterday = DAYS[local.weekday() - 1]
    return (today in schedule.days and now >= schedule.start) or (yesterday in schedule.days and now < schedule.end)


def _slack_rule(name: str, extra: ExtraCapacity, labels: Mapping[str, str], division: SlackOfAll) -> SlackRule:
    return SlackRule(
        name=name,
        rate_ppm=round(extra.min_rate * _PPM),
        least=Amounts(extra.min.cpu, extra.min.memory),
        granularity=division.granularity,
        sizing=division.sizing,
        node_labels=tuple(sorted(labels.items())),
    )


def _whole_amounts(limits: Limits) -> dict[str, int]:
    """Limits with CPU in milliCPU and everything else in whole units, both rounded down."""
    return {name: nanos // (_NANOS // 1000 if name == "cpu" else _NANOS) for name, nanos in limits.items()}


def dispatcher_config_of(settings: Settings) -> DispatcherConfig:
    """The dispatcher's limits: concurrent writes of each kind, and their timeouts. A bind is answered before kube-scheduler's
    HTTP timeout."""
    return DispatcherConfig(
        max_writes=settings.kube.max_concurrent_writes,
        bind_seconds=answer_seconds_of(settings),
        write_seconds=seconds(settings.kube.write_deadline),
    )


def answer_seconds_of(settings: Settings) -> float:
    """The longest time in seconds for an answer to kube-scheduler that waits for the API server."""
    return 0.8 * seconds(settings.extender.http_timeout)


def backpressure_seconds_of(settings: Settings) -> float:
    """The longest time in seconds for which filter's answer is delayed while binds queue."""
    return _HELD_BACK * seconds(settings.extender.http_timeout)


def audit_config_of(settings: Settings) -> AuditConfig:
    """The audit's configuration: how often the cluster state is compared with the API server."""
    return AuditConfig(interval_seconds=seconds(settings.audit.interval))


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
        max_parallelism=scale_down.max_scale_down_parallelism,
        max_drains=scale_down.max_drain_parallelism if parallel else 1,
        overlap_drains=parallel,
        recheck_seconds=seconds(scale_down.unremovable_recheck_time),
        longest_backoff_seconds=seconds(scale_down.max_drain_backoff),
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


def strict_for_of(settings: Settings) -> str | None:
    """The scheduler whose pods our filter refuses if they lack a request; None if it counts a missing request as zero. Pods of
    other schedulers never reach our filter."""
    return settings.scheduler_name if settings.vertical.missing_requests == "reject" else None


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
