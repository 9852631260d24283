"""Translates the settings into the frozen policies of the state machine, the autoscaler, the dispatcher and the audit.

In: `Settings`. Out: values in the core's units (seconds, ppm, milliCPU, bytes). `app.scaledown` does the same for scale-down.
"""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from slackwater.app.settings import Settings
from slackwater.app.settings.scaleup import Limits
from slackwater.app.settings.slack import DAYS, WHOLE_CLUSTER, ExtraCapacity, SlackSchedule
from slackwater.controllers.audit.loop import AuditConfig
from slackwater.controllers.migration.policy import MigrationPolicy
from slackwater.controllers.nomination.window import PacePolicy
from slackwater.controllers.policy import Policy, PreemptionPolicy, SteeringPolicy, VerticalPolicy
from slackwater.controllers.scaleup.expanders.priority import NO_PRIORITIES, Priorities
from slackwater.controllers.scaleup.limits import Quota
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.slack.rule import SlackPolicy, SlackRule
from slackwater.fit.score_curve import ScoreCurve
from slackwater.model.ids import UnixTime
from slackwater.model.ledger.ledger import NodePolicy
from slackwater.model.nodetaints import TaintRules
from slackwater.model.promises import PodClass
from slackwater.model.resources import Amounts
from slackwater.model.selectors import Requirement
from slackwater.runtime.dispatcher import DispatcherConfig
from slackwater_protocol.durations import seconds

_PPM = 1_000_000
_NANOS = 1_000_000_000
#: The quota name of the limits on all nodes, shown if they keep a group from growing; Cluster Autoscaler's name.
_WHOLE_CLUSTER = "cluster-wide"
#: The time limit of a whole scale-up plan, as a multiple of the limit for one group's estimate.
_PLANS = 6
#: Nominations under way, as a multiple of the concurrent writes: the next ones are ready when a write ends.
_TOLD_AT_ONCE = 3
#: The fraction of kube-scheduler's HTTP timeout for which filter's answer may be delayed.
_HELD_BACK = 0.25


def policy_of(settings: Settings) -> Policy:
    """The policy of the state machine."""
    nodes, extender, vertical, migration = settings.nodes, settings.extender, settings.vertical, settings.migration
    preemption = settings.preemption
    return Policy(
        nodes=NodePolicy(
            watermark_cpu_ppm=round(nodes.watermark.cpu * _PPM),
            watermark_memory_ppm=round(nodes.watermark.memory * _PPM),
            system=Amounts(nodes.system.cpu, nodes.system.memory),
        ),
        curve=ScoreCurve(min_usage=nodes.score.min_usage, max_usage=nodes.score.max_usage, peak=nodes.score.peak),
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
            sustained_seconds=seconds(migration.capacity_pressure_time),
        ),
        preemption=PreemptionPolicy(
            enabled=preemption.enabled,
            timeout_seconds=seconds(preemption.timeout),
            patience_seconds=seconds(preemption.patience),
            max_running=preemption.max_concurrent,
        ),
        steering=steering_policy_of(settings),
        binds=extender.bind,
        hold_seconds=seconds(extender.hold_timeout),
        bind_backoff_seconds=seconds(extender.bind_backoff),
    )


def steering_policy_of(settings: Settings) -> SteeringPolicy:
    """The policy of nomination and node choice: whether and how Slackwater steers pods to nodes."""
    steering = settings.steering
    return SteeringPolicy(
        enabled=settings.steers,
        min_nodes=steering.min_nodes,
        max_ahead=steering.max_ahead,
        hold_seconds=seconds(steering.hold_timeout),
        gated=steering.gates,
        gate_seconds=seconds(steering.gate_timeout),
        pace=PacePolicy(
            most=_TOLD_AT_ONCE * steering.max_concurrent_writes,
            max_miss_share=steering.max_miss_share,
            slow_seconds=seconds(steering.slow_write),
        ),
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
            gpu_settle_seconds=seconds(scale_up.gpu_settle_time),
            max_pods=scale_up.max_pods,
            after_scheduler=after_scheduler,
            bypassed=frozenset((settings.scheduler_name,) if bypassed is None else bypassed),
            untried_seconds=seconds(scale_up.untried_pod_delay),
        ),
        expanders=autoscaler.expanders,
        balance=scale_up.balance_similar_groups,
        ignored_labels=frozenset(scale_up.balancing_ignored_labels),
        taints=taint_rules_of(settings),
        max_nodes=autoscaler.max_nodes_per_scale_up,
        estimate_seconds=seconds(autoscaler.max_planning_time),
        plan_seconds=_PLANS * seconds(autoscaler.max_planning_time),
        quotas=tuple(quotas),
        system=Amounts(settings.nodes.system.cpu, settings.nodes.system.memory),
        priorities=priorities,
        seed=seed,
    )


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
    rules = [_slack_rule(WHOLE_CLUSTER, slack.extra_capacity, {})]
    rules += [_slack_rule(group.name, group.extra_capacity, group.node_labels) for group in slack.groups]
    if at is not None:
        due = [schedule for schedule in slack.schedules if is_due(schedule, at)]
        rules += [_slack_rule(schedule.name, schedule.extra_capacity, schedule.node_labels) for schedule in due]
    return SlackPolicy(
        rules=tuple(rules),
        max_nodes=slack.max_nodes,
        shrink_seconds=seconds(slack.shrink_delay),
        node_start_seconds=seconds(slack.node_start_time),
        loop_seconds=seconds(settings.autoscaler.scan_interval),
        unneeded_seconds=_shortest_unneeded(settings),
    )


def _shortest_unneeded(settings: Settings) -> float:
    """The shortest time in seconds, over all groups, for which an unneeded node stays."""
    groups = [group.scale_down.unneeded_time for group in settings.autoscaler.node_groups]
    times = [settings.autoscaler.scale_down.unneeded_time, *(time for time in groups if time is not None)]
    return min(map(seconds, times))


def promises_of(settings: Settings) -> tuple[PodClass, ...]:
    """The classes of pods that have a start-time SLO; none if slack is switched off."""
    if not settings.feature_gates.resource_slack:
        return ()
    return tuple(
        PodClass(
            name=promise.name,
            share_ppm=round(promise.percent * _PPM / 100),
            within_seconds=seconds(promise.within),
            namespaces=promise.pods.namespaces,
            labels=tuple(sorted(promise.pods.labels.items())),
            least_priority=promise.pods.min_priority,
            most_priority=promise.pods.max_priority,
        )
        for promise in settings.autoscaler.slack.promises
    )


def is_due(schedule: SlackSchedule, at: UnixTime) -> bool:
    """Is the schedule active at this moment? A schedule that passes midnight belongs to the day on which it begins."""
    local = datetime.fromtimestamp(at, ZoneInfo(schedule.time_zone))
    now, today = f"{local:%H:%M}", DAYS[local.weekday()]
    if schedule.start < schedule.end:
        return today in schedule.days and schedule.start <= now < schedule.end
    yesterday = DAYS[local.weekday() - 1]
    return (today in schedule.days and now >= schedule.start) or (yesterday in schedule.days and now < schedule.end)


def _slack_rule(name: str, extra: ExtraCapacity, labels: Mapping[str, str]) -> SlackRule:
    return SlackRule(
        name=name,
        rate_ppm=round(extra.min_rate * _PPM),
        least=Amounts(extra.min.cpu, extra.min.memory),
        granularity=extra.granularity,
        sizing=extra.sizing,
        node_labels=tuple(sorted(labels.items())),
    )


def _whole_amounts(limits: Limits) -> dict[str, int]:
    """Limits with CPU in milliCPU and everything else in whole units, both rounded down."""
    return {name: nanos // (_NANOS // 1000 if name == "cpu" else _NANOS) for name, nanos in limits.items()}


def dispatcher_config_of(settings: Settings) -> DispatcherConfig:
    """The dispatcher's limits: concurrent writes of each kind, and their timeouts. A bind is answered before kube-scheduler's
    HTTP timeout."""
    return DispatcherConfig(
        max_binds=settings.kube.max_concurrent_binds,
        max_writes=settings.kube.max_concurrent_writes,
        max_preemptions=settings.kube.max_concurrent_preemption_writes,
        max_steers=settings.steering.max_concurrent_writes,
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
