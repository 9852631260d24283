"""Translates the settings into the frozen policies of the state machine, the autoscaler, scale-down, the dispatcher and the
audit.

A policy's field has the name of its key in the file, in snake_case, and `_built` copies it, in the core's units (seconds, ppm,
milliCPU, bytes). Only what is computed of several keys is written here.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints
from zoneinfo import ZoneInfo

from slackwater.app.settings import Settings
from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.cluster.nodegroups.status import NodeGroupPolicy
from slackwater.configuration.values import Section
from slackwater.controllers.consolidation.policy import ConsolidationPolicy, ConsolidationRules
from slackwater.controllers.policy import Policy, PreemptionPolicy
from slackwater.controllers.scaledown.policy import DrainLimits, GroupPolicy, PriorityGroup, ScaleDownPolicy
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES, Priorities, packs
from slackwater.controllers.scaleup.groups import NodeQuota
from slackwater.controllers.scaleup.pending import PendingRules
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.settings import Limits
from slackwater.controllers.slack.policy import SlackPolicy, SlackRule
from slackwater.controllers.slack.settings import DAYS, WHOLE_CLUSTER, ExtraCapacity, SlackGroup, SlackOfAll, SlackSchedule
from slackwater.fit.drainability import DrainPolicy
from slackwater.fit.score_curve import ScoreCurve, own_score
from slackwater.fit.scoring import RoomScore
from slackwater.fit.steps import MOST_STEPS
from slackwater.model.authority import EVERY_POD, HandedOverPods
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.ids import PPM, Ppm, UnixTime
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.node_taints import TaintRules
from slackwater.model.nodegroups import GroupName
from slackwater.model.placeholders import LOWEST_PRIORITY
from slackwater.model.prices import PriceBook
from slackwater.model.scheduler_profile import NO_PROFILES, Profiles
from slackwater.model.selectors import Requirement
from slackwater.model.start_time_slo import PodClass
from slackwater_protocol.durations import Duration, seconds
from slackwater_protocol.units import NANO

if TYPE_CHECKING:  # commands that read a file import this module, but not these
    from slackwater.controllers.audit.loop import AuditConfig
    from slackwater.controllers.notifications.state import NotificationPolicy
    from slackwater.runtime.dispatcher import DispatcherConfig

PolicyT = TypeVar("PolicyT")

#: The quota name of the limits on all nodes, shown if they keep a group from growing; Cluster Autoscaler's name.
_WHOLE_CLUSTER = "cluster-wide"
#: The time limit of a whole scale-up plan, as a multiple of the limit for one group's estimate.
PLANS = 6
#: How long a loop waits for a whole burst, at most, with an expander that packs: Karpenter's window. And how old a pod is then
#: that counts untried: as old as the last one of a burst that has come.
BATCH_SECONDS = 10.0
BATCH_UNTRIED_SECONDS = 1.0
SETTLE_SECONDS = 2.0
#: The fraction of kube-scheduler's HTTP timeout for which filter's answer may be delayed.
_HELD_BACK = 0.25


def _built(kind: type[PolicyT], *sections: Section, **computed: Any) -> PolicyT:
    """A policy whose fields are `computed`, or else the keys of the same names, each of the first section that has it. A field
    that is a policy itself is built from the section of its name. A field without a key has its default."""
    values = dict(computed)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        section = next((section for section in sections if name in type(section).model_fields), None)
        if name in computed or section is None:
            continue
        values[name] = value = getattr(section, name)
        if isinstance(value, Section):
            values[name] = _built(hint, value)
        elif value is not None and _is_duration(type(section).model_fields[name].annotation):
            values[name] = seconds(value)
        elif hint == Ppm:
            values[name] = round(value * PPM)
    return kind(**values)


def _is_duration(annotation: Any) -> bool:
    return annotation is Duration or any(map(_is_duration, get_args(annotation)))


def policy_of(settings: Settings, kubernetes: KubernetesVersion = DEFAULT_VERSION, profiles: Profiles = NO_PROFILES) -> Policy:
    """The policy of the state machine. `kubernetes` is the version whose rules hold, with kube-scheduler's `profiles`."""
    sections = settings, settings.nodes, settings.nodes.score, settings.extender, settings.vertical
    return _built(
        Policy,
        *sections,
        place_as_planned=_places_as_planned(settings.autoscaler),
        handed_over=_handed_over(settings),
        preemption=_built(PreemptionPolicy, settings.preemption, enabled=_preempts(settings)),
        blocked_by=drain_policy_of(settings),
        drain=_drain_limits_of(settings),
        kubernetes=kubernetes,
        profiles=profiles,
    )


def scale_up_policy_of(
    settings: Settings,
    *,
    priorities: Priorities = NO_PRIORITIES,
    prices: PriceBook | None = None,
    seed: int = 0,
    after_scheduler: bool = True,
    plan_steps: int = MOST_STEPS,
) -> ScaleUpPolicy:
    """The policy of scale-up. `priorities` come from the cluster's ConfigMap; `prices` from `app.prices`; `seed` makes random
    choices repeatable. With `after_scheduler` a pod counts only once its scheduler has tried it, with the exceptions in
    `PendingRules`."""
    autoscaler = settings.autoscaler
    scale_up = autoscaler.scale_up
    quotas = [NodeQuota(name=_WHOLE_CLUSTER, limits=_whole_amounts(scale_up.limits))]
    for quota in scale_up.quotas:
        selector = tuple(Requirement(key, "In", (value,)) for key, value in sorted(quota.node_labels.items()))
        quotas.append(NodeQuota(name=quota.name, limits=_whole_amounts(quota.limits), selector=selector))
    return _built(
        ScaleUpPolicy,
        autoscaler,
        scale_up,
        settings.nodes,
        pending=_built(
            PendingRules,
            scale_up,
            after_scheduler=after_scheduler,
            bypassed_scheduler_names=bypassed_of(settings),
            handed_over=_handed_over(settings),
            **_ages_of(autoscaler),
        ),
        place_as_planned=_places_as_planned(autoscaler),
        taints=taint_rules_of(settings),
        plan_seconds=PLANS * seconds(autoscaler.max_planning_time),
        plan_steps=plan_steps,
        quotas=tuple(quotas),
        priorities=priorities,
        prices=prices,
        seed=seed,
    )


def _ages_of(autoscaler: Autoscaler) -> dict[str, float]:
    """The ages, in seconds, that pods and bursts must have. Where a loop waits for whole bursts, what came together is there
    once that wait is over; a longer age would divide it between two plans."""
    whole, asked = batch_seconds_of(autoscaler) > 0, autoscaler.scale_up.settle_time
    usual = {"untried_seconds": BATCH_UNTRIED_SECONDS} if whole else {}
    settle = (BATCH_UNTRIED_SECONDS if whole else SETTLE_SECONDS) if asked is None else seconds(asked)
    return {**usual, "settle_time": settle}


def bypassed_of(settings: Settings) -> tuple[str, ...]:
    """The schedulers whose pods count before the scheduler has tried them."""
    names = settings.autoscaler.scale_up.bypassed_scheduler_names
    return (settings.scheduler_name,) if names is None else names


def _places_as_planned(autoscaler: Autoscaler) -> bool:
    asked = autoscaler.scale_up.place_as_planned
    return packs(autoscaler.expanders) if asked is None else asked


def batch_seconds_of(autoscaler: Autoscaler) -> float:
    """For how long a loop waits at most until a burst of pods is whole; 0: it does not."""
    batch = autoscaler.scale_up.max_batch_time
    return BATCH_SECONDS * packs(autoscaler.expanders) if batch is None else seconds(batch)


def settling_of(autoscaler: Autoscaler) -> tuple[float, float]:
    """For how many seconds nothing new has to come before a loop begins early, and for how long it waits for that at most."""
    interval = seconds(autoscaler.scan_interval)
    settle = min(1.0, interval / 4)
    return settle, max(settle, batch_seconds_of(autoscaler) or min(5.0, interval / 2))


def own_score_of(settings: Settings) -> RoomScore:
    """Slackwater's own score of nodes, with the weight that kube-scheduler gives to the extender's scores."""
    curve = _built(ScoreCurve, settings.nodes.score)
    return own_score(lambda: curve, settings.extender.weight)


def taint_rules_of(settings: Settings) -> TaintRules:
    """The taints that are left out of a group's template node, and those that mark a node as still starting."""
    return _built(TaintRules, settings.autoscaler.scale_up)


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
    of_groups = [group.scale_down.unneeded_time for group in settings.autoscaler.node_groups]
    unneeded = [settings.autoscaler.scale_down.unneeded_time, *(time for time in of_groups if time is not None)]
    return _built(
        SlackPolicy,
        slack,
        settings.autoscaler,
        rules=tuple(rules),
        shrink_delay=seconds(settings.autoscaler.scale_down.unneeded_time),
        unneeded_time=min(map(seconds, unneeded)),
    )


def slo_classes_of(settings: Settings) -> tuple[PodClass, ...]:
    """The classes of pods that have a start-time SLO; none if slack is switched off."""
    if not settings.feature_gates.resource_slack:
        return ()
    return tuple(
        _built(
            PodClass,
            slo,
            slo.pods,
            share_ppm=round(slo.percent * PPM / 100),
            labels=tuple(sorted(slo.pods.labels.items())),
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
    return _built(SlackRule, extra, division, name=name, node_labels=tuple(sorted(labels.items())))


def _whole_amounts(limits: Limits) -> dict[str, int]:
    """Limits with CPU in milliCPU and everything else in whole units, both rounded down."""
    return {name: nanos // (NANO // 1000 if name == "cpu" else NANO) for name, nanos in limits.items()}


def dispatcher_config_of(settings: Settings) -> "DispatcherConfig":
    """The dispatcher's limits: concurrent writes of each kind, and their timeouts. A bind is answered before kube-scheduler's
    HTTP timeout."""
    from slackwater.runtime.dispatcher import DispatcherConfig

    return _built(DispatcherConfig, settings.kube, bind_seconds=answer_seconds_of(settings))


def answer_seconds_of(settings: Settings) -> float:
    """The longest time in seconds for an answer to kube-scheduler that waits for the API server."""
    return 0.8 * seconds(settings.extender.http_timeout)


def backpressure_seconds_of(settings: Settings) -> float:
    """The longest time in seconds for which filter's answer is delayed while binds queue."""
    return _HELD_BACK * seconds(settings.extender.http_timeout)


def node_group_policy_of(settings: Settings) -> NodeGroupPolicy:
    """The policy of the node group registry: limits on nodes in creation, timeouts and back-offs."""
    autoscaler, creation = settings.autoscaler, settings.autoscaler.creation
    groups = {GroupName(group.name): group for group in autoscaler.node_groups}
    return _built(
        NodeGroupPolicy,
        creation,
        in_cluster=autoscaler.max_nodes_in_creation,
        in_group={name: group.max_nodes_in_creation for name, group in groups.items()},
        provision_seconds=seconds(creation.timeout),
        doubt_seconds=max(60.0, 2 * seconds(creation.call_timeout)),
        off=frozenset(name for name, group in groups.items() if not group.enabled),
        taints=taint_rules_of(settings),
    )


def _handed_over(settings: Settings) -> HandedOverPods:
    """A shadow shows what would be if all were handed over."""
    said = settings.shadow
    if settings.mode == "shadow":
        return EVERY_POD
    return HandedOverPods(namespaces=said.except_namespaces, scheduler_names=said.except_scheduler_names)


def _preempts(settings: Settings) -> bool:
    """Does Slackwater preempt by itself?"""
    return settings.feature_gates.async_preemption and "preemption" not in settings.shadow.capabilities


def notification_policy_of(settings: Settings) -> "NotificationPolicy":
    """When and how the leader tells a webhook of alerts."""
    from slackwater.controllers.notifications.state import NotificationPolicy

    section = settings.notifications
    return _built(NotificationPolicy, section, cluster=section.cluster or "")


def audit_config_of(settings: Settings) -> "AuditConfig":
    """The audit's configuration: how often the cluster state is compared with the API server."""
    from slackwater.controllers.audit.loop import AuditConfig

    return _built(AuditConfig, settings.audit)


def scale_down_policy_of(settings: Settings) -> ScaleDownPolicy:
    """The policy of scale-down: which nodes may be removed, and how many in parallel. Without the feature gate ParallelDrain
    one node is drained at a time."""
    gates, scale_down = settings.feature_gates, settings.autoscaler.scale_down
    return _built(
        ScaleDownPolicy,
        scale_down,
        gates,
        max_drain_parallelism=scale_down.max_drain_parallelism if gates.parallel_drain else 1,
        only_empty=settings.autoscaler.consolidation.enabled,
        blocked_by=drain_policy_of(settings),
        disruption_budgets=_budgets_of(scale_down.disruption_budgets) or (),
        groups={
            GroupName(group.name): _built(
                GroupPolicy,
                group.scale_down,
                enabled=group.enabled and group.scale_down.enabled,
                disruption_budgets=_budgets_of(group.scale_down.disruption_budgets),
            )
            for group in settings.autoscaler.node_groups
        },
    )


def consolidation_policy_of(settings: Settings) -> ConsolidationPolicy:
    """The policy of consolidation. New nodes run beside those that they replace for as long as their creation may take."""
    autoscaler = settings.autoscaler
    overlap = seconds(autoscaler.creation.timeout)
    unneeded = seconds(autoscaler.scale_down.unneeded_time)
    own = {GroupName(group.name): group.scale_down.expire_after for group in autoscaler.node_groups}
    return _built(
        ConsolidationPolicy,
        autoscaler.consolidation,
        overlap_seconds=overlap,
        planned_time=unneeded,
        expire_after_of={name: seconds(after) for name, after in own.items() if after is not None},
    )


def consolidation_rules_of(settings: Settings, scale_up: ScaleUpPolicy) -> ConsolidationRules:
    """The policies that a consolidation plan follows."""
    policy = consolidation_policy_of(settings)
    return ConsolidationRules(policy=policy, scale_down=scale_down_policy_of(settings), scale_up=scale_up)


def _budgets_of(budgets: Iterable[Section] | None) -> tuple[NodeDisruptionBudget, ...] | None:
    return None if budgets is None else tuple(_built(NodeDisruptionBudget, budget) for budget in budgets)


def strict_for_of(settings: Settings) -> str | None:
    """The scheduler whose pods our filter refuses if they lack a request; None if it counts a missing request as zero. Pods of
    other schedulers never reach our filter."""
    return settings.scheduler_name if settings.vertical.missing_requests == "reject" else None


def drain_policy_of(settings: Settings) -> DrainPolicy:
    """The policy of the drainability rules: which pods keep their node from being removed."""
    autoscaler = settings.autoscaler
    sections = autoscaler.scale_down.blocked_by, autoscaler.scale_up
    return _built(DrainPolicy, *sections, machines_migrate=settings.migration.enabled)


def _drain_limits_of(settings: Settings) -> DrainLimits:
    """The limits of a drain: cordon, retries, timeouts, and the priority groups that are evicted one after another."""
    drain = settings.autoscaler.scale_down.drain
    groups = sorted(drain.priority_groups, key=lambda group: group.priority)
    whole = PriorityGroup(priority=LOWEST_PRIORITY, time=seconds(drain.max_graceful_termination))
    return _built(
        DrainLimits,
        drain,
        priority_groups=tuple(_built(PriorityGroup, group) for group in groups) or (whole,),
        migrate=settings.migration.enabled,
    )
