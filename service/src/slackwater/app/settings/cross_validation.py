"""Checks that the keys of a valid configuration agree with each other, and finds settings that have no effect.

- Each rule reads a few keys and yields their conflicts. A conflict refuses the file.
- `unsupported` yields problems with which `serve` refuses to start.
- `notes` yields notes of `config check` on keys that have no effect because of another key. They refuse nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slackwater.app.settings.autoscaling import Autoscaler, KwokSimulation, NodeGroup, Providers
from slackwater.app.settings.model import Settings
from slackwater.app.settings.serving import SchedulerTLS
from slackwater.configuration.amounts import quantity_text
from slackwater.configuration.problems import Problem, Steps, json_path, show
from slackwater.controllers.preemption.settings import Preemption
from slackwater.controllers.scaledown.settings import NodeDisruptionBudget
from slackwater.controllers.scaleup.settings import FormulaPrices
from slackwater.controllers.slack.settings import WHOLE_CLUSTER, Slack
from slackwater.model.disruption_budgets import schedule_problem
from slackwater.model.prices import FORMULA_CURRENCY
from slackwater_protocol.durations import SECOND, format_duration

_GROUPS: Steps = ("autoscaler", "nodeGroups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Values that conflict. `reads` are the places of all of them; the problem is reported at the first."""

    reads: tuple[Steps, ...]
    seen: str
    wanted: str

    @property
    def problem(self) -> Problem:
        return Problem(path=json_path(self.reads[0]), seen=self.seen, wanted=self.wanted)


def conflicts(settings: Settings) -> Iterator[Conflict]:
    """Yields every conflict, in the order of the file's sections."""
    yield from _version_conflicts(settings)
    yield from _election_conflicts(settings)
    yield from _listener_conflicts(settings)
    yield from _extender_conflicts(settings)
    yield from _shadow_conflicts(settings)
    yield from _autoscaler_conflicts(settings)
    yield from _slack_conflicts(settings)
    yield from _notification_conflicts(settings)
    yield from _budget_conflicts(settings.autoscaler.scale_down.disruption_budgets, ("autoscaler", "scaleDown"))
    yield from _aws_conflicts(settings)
    for index, group in enumerate(settings.autoscaler.node_groups):
        yield from _group_conflicts(settings.autoscaler.providers, group, (*_GROUPS, index))
        yield from _budget_conflicts(group.scale_down.disruption_budgets or (), (*_GROUPS, index, "scaleDown"))
        yield from _allocatable_conflicts(group, (*_GROUPS, index, "template", "status"))


def _notification_conflicts(settings: Settings) -> Iterator[Conflict]:
    webhook = settings.notifications.webhook
    if webhook is not None and not webhook.allowed_hosts:
        place = ("notifications", "webhook", "allowedHosts")
        yield Conflict(reads=(place,), seen="no host", wanted="the host of the address in urlFile, such as hooks.slack.com")


def _version_conflicts(settings: Settings) -> Iterator[Conflict]:
    stated = settings.scheduler.stated
    if stated is None:
        return  # the version is not known before the API server is asked
    try:
        settings.scheduler.of(stated)
    except ValueError as error:
        gates: Steps = ("scheduler", "featureGates")
        yield Conflict(
            reads=(gates, ("scheduler", "version")), seen=show(settings.scheduler.feature_gates), wanted=f"other gates: {error}"
        )


def _election_conflicts(settings: Settings) -> Iterator[Conflict]:
    election = settings.leader_election
    lease: Steps = ("leaderElection", "leaseDuration")
    renew: Steps = ("leaderElection", "renewDeadline")
    retry: Steps = ("leaderElection", "retryPeriod")
    if election.lease_duration % SECOND:
        seen = show(format_duration(election.lease_duration))
        yield Conflict(reads=(lease,), seen=seen, wanted="whole seconds, as a Lease has them")
    # client-go's rules: renewDeadline < leaseDuration, and retryPeriod times its jitter factor of 1.2 < renewDeadline.
    if election.renew_deadline >= election.lease_duration:
        seen, most = show(format_duration(election.renew_deadline)), format_duration(election.lease_duration)
        yield Conflict(reads=(renew, lease), seen=seen, wanted=f"less than {json_path(lease)} ({most})")
    if election.retry_period * 6 >= election.renew_deadline * 5:
        seen, most = show(format_duration(election.retry_period)), format_duration(election.renew_deadline)
        yield Conflict(reads=(retry, renew), seen=seen, wanted=f"less than 1/1.2 of {json_path(renew)} ({most})")


def _listener_conflicts(settings: Settings) -> Iterator[Conflict]:
    listeners = settings.listeners
    addresses = {
        "extender": listeners.extender.address,
        "agents": listeners.agents.address,
        "ops": listeners.ops.address,
    }
    for (first, a), (second, b) in combinations(addresses.items(), 2):
        if a.port == b.port and (a.host == b.host or a.is_every_interface or b.is_every_interface):
            yield Conflict(
                reads=(("listeners", second, "address"), ("listeners", first, "address")),
                seen=show(str(b)),
                wanted=f"another port than listeners.{first}.address ({a})",
            )
    agents = listeners.agents
    at: Steps = ("listeners", "agents")
    tls = agents.tls
    if agents.authentication.certificates is not None and (tls is None or tls.client_ca_file is None):
        ca: Steps = (*at, "tls", "clientCAFile")
        yield Conflict(
            reads=(ca, (*at, "authentication", "certificates")), seen="nothing", wanted="what signs agents' certificates"
        )
    if agents.authentication.tokens is not None and tls is None:
        # On a connection without TLS anybody on the network path could read the token.
        reads: tuple[Steps, ...] = ((*at, "tls"), (*at, "authentication", "tokens"))
        yield Conflict(reads=reads, seen="nothing", wanted="TLS where agents send tokens")


def _extender_conflicts(settings: Settings) -> Iterator[Conflict]:
    tls = settings.extender.scheduler_tls
    cert: Steps = ("extender", "schedulerTLS", "certFile")
    key: Steps = ("extender", "schedulerTLS", "keyFile")
    if tls.cert_file is not None and tls.key_file is None:
        yield Conflict(reads=(key, cert), seen="nothing", wanted="the private key of certFile")
    if tls.key_file is not None and tls.cert_file is None:
        yield Conflict(reads=(cert, key), seen="nothing", wanted="the certificate of keyFile")
    if settings.extender.ignorable and settings.extender.bind:
        yield Conflict(
            reads=(("extender", "ignorable"), ("extender", "bind")),
            seen="true, with extender.bind: true: kube-scheduler would bind by itself whenever our bind fails",
            wanted="false, or extender.bind: false",
        )


def _shadow_conflicts(settings: Settings) -> Iterator[Conflict]:
    """What cannot be limited to some pods, in a service that hands over some pods only."""
    said, autoscaler = settings.shadow, settings.autoscaler
    if settings.mode == "shadow" or not (said.except_namespaces or said.except_scheduler_names):
        return
    at: Steps = ("shadow", "exceptNamespaces" if said.except_namespaces else "exceptSchedulerNames")
    if settings.extender.bind:
        seen = "names, with extender.bind: true: kube-scheduler would bind none of the other pods by itself"
        yield Conflict(reads=(at, ("extender", "bind")), seen=seen, wanted="extender.bind: false")
    if not autoscaler.enabled:
        return
    if autoscaler.scale_down.enabled and "scale-down" not in said.capabilities:
        seen = "names, and nodes are removed: that evicts pods of all namespaces and schedulers"
        wanted = "scale-down in shadow.capabilities, or autoscaler.scaleDown.enabled: false"
        yield Conflict(reads=(at, ("shadow", "capabilities")), seen=seen, wanted=wanted)
    if settings.feature_gates.resource_slack and "slack" not in said.capabilities:
        seen = "names, and slack is kept: its room is for the pods of all namespaces and schedulers"
        wanted = "slack in shadow.capabilities, or featureGates.ResourceSlack: false"
        yield Conflict(reads=(at, ("shadow", "capabilities")), seen=seen, wanted=wanted)


def _autoscaler_conflicts(settings: Settings) -> Iterator[Conflict]:
    expanders = settings.autoscaler.expanders
    for index, name in enumerate(expanders):
        if name in expanders[:index]:
            at: Steps = ("autoscaler", "expanders", index)
            yield Conflict(reads=(at,), seen=f"{show(name)} a second time", wanted="each expander once")
    first: dict[str, int] = {}
    for index, group in enumerate(settings.autoscaler.node_groups):
        if first.setdefault(group.name, index) != index:
            earlier: Steps = (*_GROUPS, first[group.name], "name")
            yield Conflict(
                reads=((*_GROUPS, index, "name"), earlier),
                seen=show(group.name),
                wanted=f"another name than {json_path(earlier)}",
            )
    prices = settings.autoscaler.prices
    if prices is not None and prices.currency != FORMULA_CURRENCY:
        formula: Steps = ("autoscaler", "prices", "formula")
        unset = [name for name in FormulaPrices.model_fields if name not in prices.formula.model_fields_set]
        if unset:
            wanted = f"{', '.join(unset)} in {prices.currency}: the defaults are in {FORMULA_CURRENCY}"
            yield Conflict(reads=(formula, ("autoscaler", "prices", "currency")), seen="not all prices", wanted=wanted)
    external = settings.autoscaler.providers.externalgrpc
    tls = external.tls if external is not None else None
    tls_at: Steps = ("autoscaler", "providers", "externalgrpc", "tls")
    if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
        missing, given = ("keyFile", "certFile") if tls.key_file is None else ("certFile", "keyFile")
        yield Conflict(reads=((*tls_at, missing), (*tls_at, given)), seen="nothing", wanted=f"what belongs to {given}")


def _slack_conflicts(settings: Settings) -> Iterator[Conflict]:
    at: Steps = ("autoscaler", "slack")
    slack = settings.autoscaler.slack
    named: list[tuple[Steps, str]] = [((*at, "groups", index), group.name) for index, group in enumerate(slack.groups)]
    named += [((*at, "schedules", index), schedule.name) for index, schedule in enumerate(slack.schedules)]
    named += [((*at, "startTimeSLOs", index), slo.name) for index, slo in enumerate(slack.start_time_slos)]
    known = {WHOLE_CLUSTER}
    for place, name in named:
        if name in known:
            yield Conflict(reads=((*place, "name"),), seen=show(name), wanted="a name that nothing else of slack has")
        known.add(name)
    for index, slo in enumerate(slack.start_time_slos):
        pods: Steps = (*at, "startTimeSLOs", index, "pods")
        least, most = slo.pods.min_priority, slo.pods.max_priority
        if least is not None and most is not None and least > most:
            reads: tuple[Steps, ...] = ((*pods, "minPriority"), (*pods, "maxPriority"))
            yield Conflict(reads=reads, seen=str(least), wanted=f"<= {json_path(reads[1])} ({most})")
    for index, schedule in enumerate(slack.schedules):
        yield from _zone_conflicts(schedule.time_zone, (*at, "schedules", index))


def _zone_conflicts(name: str, at: Steps) -> Iterator[Conflict]:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        wanted = "a time zone that this machine knows, such as Europe/Berlin"
        yield Conflict(reads=((*at, "timeZone"),), seen=show(name), wanted=wanted)


def _budget_conflicts(budgets: Iterable[NodeDisruptionBudget], at: Steps) -> Iterator[Conflict]:
    for index, budget in enumerate(budgets):
        place: Steps = (*at, "disruptionBudgets", index)
        schedule, duration = (*place, "schedule"), (*place, "duration")
        if budget.schedule is None and budget.duration is not None:
            wanted = 'a schedule of cron such as "0 9 * * mon-fri", from whose times the duration counts'
            yield Conflict(reads=(schedule, duration), seen="nothing", wanted=wanted)
        if budget.schedule is None and budget.time_zone != "UTC":
            wanted = 'a schedule of cron such as "0 9 * * mon-fri", whose times are those of the time zone'
            yield Conflict(reads=(schedule, (*place, "timeZone")), seen="nothing", wanted=wanted)
        if budget.schedule is not None and budget.duration is None:
            wanted = 'a duration such as "8h", which counts from each time of the schedule'
            yield Conflict(reads=(duration, schedule), seen="nothing", wanted=wanted)
        if budget.schedule is not None and (problem := schedule_problem(budget.schedule)) is not None:
            wanted = f'minute, hour, day, month and weekday such as "0 9 * * mon-fri" ({problem})'
            yield Conflict(reads=(schedule,), seen=show(budget.schedule), wanted=wanted)
        yield from _zone_conflicts(budget.time_zone, place)


def _aws_conflicts(settings: Settings) -> Iterator[Conflict]:
    section = settings.autoscaler.providers.aws
    if section is not None and not section.tags and all(group.provider != "aws" for group in settings.autoscaler.node_groups):
        wanted = f"tags, or groups of {json_path(_GROUPS)} with provider aws: with neither no group is found"
        yield Conflict(reads=(("autoscaler", "providers", "aws", "tags"),), seen="nothing", wanted=wanted)


def _group_conflicts(providers: Providers, group: NodeGroup, at: Steps) -> Iterator[Conflict]:
    if group.min_size > group.max_size:
        yield Conflict(
            reads=((*at, "minSize"), (*at, "maxSize")),
            seen=str(group.min_size),
            wanted=f"<= {json_path((*at, 'maxSize'))} ({group.max_size})",
        )
    if group.provider == "externalgrpc" and providers.externalgrpc is None:
        section: Steps = ("autoscaler", "providers", "externalgrpc")
        wanted = f"the server that {json_path((*at, 'provider'))} needs"
        yield Conflict(reads=(section, (*at, "provider")), seen="nothing", wanted=wanted)
    if group.provider == "kwok" and group.id is not None and group.id != group.name:
        yield Conflict(reads=((*at, "id"),), seen=show(group.id), wanted="nothing: a kwok group has no other name")
    if group.provider != "kwok" and group.kwok != KwokSimulation():
        reads: tuple[Steps, ...] = ((*at, "kwok"), (*at, "provider"))
        yield Conflict(reads=reads, seen="a mapping", wanted="nothing where another provider is used")
    failing, silent = group.kwok.failing, group.kwok.silent
    if failing + silent > 1:
        shares: tuple[Steps, ...] = ((*at, "kwok", "failing"), (*at, "kwok", "silent"))
        wanted = f"failing and silent of 1 in all, not {failing + silent:g}"
        yield Conflict(reads=shares, seen=str(failing), wanted=wanted)
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(group.template.spec.taints):
        if (taint.key, taint.effect) in seen:
            place: Steps = (*at, "template", "spec", "taints", index)
            text = f"{taint.key}:{taint.effect} a second time"
            yield Conflict(reads=(place,), seen=text, wanted="each key and effect once, as in a Node")
        seen.add((taint.key, taint.effect))


def _allocatable_conflicts(group: NodeGroup, at: Steps) -> Iterator[Conflict]:
    status = group.template.status
    for resource, allocatable in status.allocatable.items():
        capacity = status.capacity.get(resource)
        if capacity is not None and allocatable > capacity:
            of_capacity: Steps = (*at, "capacity", resource)
            yield Conflict(
                reads=((*at, "allocatable", resource), of_capacity),
                seen=show(quantity_text(allocatable)),
                wanted=f"<= {json_path(of_capacity)} ({quantity_text(capacity)})",
            )


def unsupported(settings: Settings) -> tuple[Problem, ...]:
    """Problems with which `serve` refuses to start, because the cluster would rely on something that cannot happen."""
    autoscaler = settings.autoscaler
    if settings.mode == "shadow":
        return ()  # it finds groups by labels
    if autoscaler.enabled and not autoscaler.node_groups and autoscaler.providers == Providers():
        wanted = "a group or a provider: with none of them no node can be added"
        return (Problem(path="autoscaler.nodeGroups", seen="none", wanted=wanted),)
    return ()


def notes(settings: Settings) -> list[str]:
    """One sentence for each setting of a file that has no effect; empty for the defaults."""
    return [
        *(f"{problem}; serve refuses to start with this" for problem in unsupported(settings)),
        *_ineffective(settings),
    ]


def _ineffective_by_mode(settings: Settings) -> Iterator[str]:
    if settings.mode == "shadow" and settings.notifications.webhook is not None:
        yield "notifications.webhook: has no effect with mode shadow: only a leader tells of alerts"
    if settings.mode != "shadow" and settings.history.file is not None:
        yield "history.file: has no effect unless mode is shadow: the history is in ConfigMaps"


def _ineffective(settings: Settings) -> Iterator[str]:
    if "autoscaler" in settings.model_fields_set and not settings.autoscaler.enabled and settings.autoscaler != Autoscaler():
        yield "autoscaler: has no effect while autoscaler.enabled is false: no node is added"
    if settings.autoscaler.slack != Slack() and not settings.feature_gates.resource_slack:
        yield "autoscaler.slack: has no effect while featureGates.ResourceSlack is false: no spare room is planned"
    yield from _ineffective_by_mode(settings)
    extender, migration = settings.extender, settings.migration
    if "percentage_of_nodes_to_score" in extender.model_fields_set and extender.bind:
        yield (
            "extender.percentageOfNodesToScore: has no effect while extender.bind is true: kube-scheduler chooses the node, "
            "and decides itself how many it scores"
        )
    if settings.preemption != Preemption() and not settings.feature_gates.async_preemption:
        yield "preemption: has no effect while featureGates.AsyncPreemption is false: no pod is deleted"
    if extender.bind and extender.hold_timeout < extender.http_timeout:
        yield (
            f"extender.holdTimeout: {format_duration(extender.hold_timeout)} is shorter than extender.httpTimeout "
            f"({format_duration(extender.http_timeout)}): room promised to a pod may go to another one while "
            "kube-scheduler still waits for its bind"
        )
    scale_down = settings.autoscaler.scale_down
    if scale_down.max_drain_parallelism > scale_down.max_scale_down_parallelism:
        yield (
            f"autoscaler.scaleDown.maxDrainParallelism: {scale_down.max_drain_parallelism} is more than "
            f"maxScaleDownParallelism ({scale_down.max_scale_down_parallelism}), which limits drains too"
        )
    for key, value in (("maxPerSource", migration.max_per_source), ("maxPerTarget", migration.max_per_target)):
        if value > migration.max_concurrent:
            yield f"migration.{key}: {value} is more than maxConcurrent ({migration.max_concurrent}), which limits it"
    yield from _consolidation_notes(settings)
    yield from _listener_notes(settings)


def _consolidation_notes(settings: Settings) -> Iterator[str]:
    consolidation, groups = settings.autoscaler.consolidation, settings.autoscaler.node_groups
    expires = consolidation.expire_after or any(group.scale_down.expire_after for group in groups)
    for key, said in (("drift", consolidation.drift), ("expireAfter", expires)):
        if said and not consolidation.enabled:
            yield f"autoscaler.consolidation.{key}: has no effect while consolidation.enabled is false: no node is replaced"


def _listener_notes(settings: Settings) -> Iterator[str]:
    extender, listeners = settings.extender, settings.listeners
    tls = listeners.extender.tls
    if tls is None and extender.scheduler_tls != SchedulerTLS():
        yield "extender.schedulerTLS: has no effect while listeners.extender.tls is not set"
    if tls is not None and tls.client_ca_file is not None and extender.scheduler_tls.cert_file is None:
        yield (
            "extender.schedulerTLS.certFile: not set, yet listeners.extender.tls.clientCAFile asks kube-scheduler "
            "for a client certificate: scheduler-config cannot write its file"
        )
    if not listeners.extender.address.is_loopback and (tls is None or tls.client_ca_file is None):
        yield (
            f"listeners.extender.address: {listeners.extender.address} is not on loopback and asks for no client "
            "certificate: anyone who can reach it can bind pods"
        )
