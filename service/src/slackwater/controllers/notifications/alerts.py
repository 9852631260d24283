"""The alerts: what Prometheus is asked, and the same question to a `MetricHistory`, side by side.

`make docs` writes deploy/monitoring/alerts.yaml from `ALERTS`. Where `holds` is None the leader cannot judge the alert, because
it is about a service that does not lead or does not run. Two replicas report the same cluster, so an expression asks the leader
alone, except where each replica has a fault of its own. tests/alerts plays the same stories to promtool and to `holds`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from slackwater.controllers.notifications.metric_history import Labels, Matching, MetricHistory

#: The series for which an alert holds, each with its value.
Found = Mapping[Labels, float]
Severity = Literal["critical", "warning", "info"]
_LEADER: Final = "and on (instance) slackwater_leader == 1"
#: The bound of a filter call's time as the histogram's label has it, and the share of calls that have to keep it.
_QUICK: Final = "0.05"
_QUICK_SHARE: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. `minutes`: for how long its condition has to hold. `reads`: the metrics that `holds` reads."""

    name: str
    group: Literal["slackwater", "slackwater-autoscaler"] = "slackwater"
    expression: str
    minutes: int = 0
    severity: Severity = "warning"
    summary: str
    description: str
    reads: tuple[str, ...] = ()
    holds: Callable[[MetricHistory], Found] | None = None


def _of_leader(expression: str) -> str:
    return f"({expression}) {_LEADER}"


def _now(name: str, test: Callable[[float], bool], matching: Matching = lambda _: True) -> Callable[[MetricHistory], Found]:
    return lambda history: {labels: value for labels, value in history.now(name, matching) if test(value)}


def _grew(
    name: str, minutes: int, *, above: float = 0.0, matching: Matching = lambda _: True, by: tuple[str, ...] = ()
) -> Callable[[MetricHistory], Found]:
    def holds(history: MetricHistory) -> Found:
        growth = history.growth(name, minutes, matching, by=by)
        return {labels: value for labels, value in growth.items() if value > above}

    return holds


def _share(
    part: str, whole: str, minutes: int, above: float, *, beside: float = 0.0, of: Matching = lambda _: True
) -> Callable[[MetricHistory], Found]:
    """Is the growth of the matching series of `part` a larger share of `whole`'s than `above`, and `beside` a second more?"""

    def holds(history: MetricHistory) -> Found:
        grown = sum(history.growth(part, minutes, of).values())
        allowed = above * sum(history.growth(whole, minutes).values()) + beside * 60 * minutes
        return {(): grown} if grown > allowed else {}

    return holds


def _slow(history: MetricHistory) -> Found:
    bucket = "slackwater_extender_request_duration_seconds_bucket"

    def calls(le: str) -> float:
        return sum(history.growth(bucket, 5, lambda labels: labels["verb"] == "filter" and labels["le"] == le).values())

    every = calls("+Inf")
    return {(): every} if calls(_QUICK) < _QUICK_SHARE * every else {}


def _stuck(history: MetricHistory) -> Found:
    loops = "slackwater_autoscaler_loops_total"
    if not history.covers(10):
        return {}
    growth = history.growth(loops, 10)
    return {labels: value for labels, value in history.now(loops) if value > 0 and growth[()] == 0}


_BUCKET: Final = "slackwater_extender_request_duration_seconds_bucket"
_CALLS, _PREEMPTIONS = "slackwater_extender_requests_total", "slackwater_goroutines_execution_total"
_REFUSED, _CONFIRMED = "slackwater_bind_refusals_total", "slackwater_binds_confirmed_total"
_FAILED, _WRITES = "slackwater_permit_write_failures_total", "slackwater_permit_writes_total"
_OVER_TOTAL, _BROKEN = "slackwater_admissions_over_total", "slackwater_event_source_broken_objects_total"
_DISPUTED, _LOOPS, _PAUSED = "slackwater_pods_disputed", "slackwater_autoscaler_loops_total", "slackwater_paused"
_SAFE, _PENDING = "cluster_autoscaler_cluster_safe_to_autoscale", "slackwater_autoscaler_pending_pods"
_BACKOFF, _GIVEN_UP = "cluster_autoscaler_node_group_backoff_status", "cluster_autoscaler_failed_scale_downs_total"
_ALIVE: Final = "slackwater_event_source_alive"
_NEEDED: Final = frozenset({"nodes", "pods", "poddisruptionbudgets"})

ALERTS: Final = (
    Alert(
        name="SlackwaterNotSynced",
        expression="slackwater_synced == 0",
        minutes=5,
        severity="critical",
        summary="Slackwater has not listed everything, and answers kube-scheduler with 503.",
        description="/readyz of {{ $labels.instance }} names what is missing.",
    ),
    Alert(
        name="SlackwaterNoLeader",
        expression="(max by (job, namespace) (slackwater_leader) == 0) unless on (job, namespace) slackwater_shadow == 1",
        minutes=5,
        severity="critical",
        summary="No replica leads: nothing is decided, and the other alerts about the cluster are silent.",
        description="/statusz of each replica has the Lease and its holder.",
    ),
    Alert(
        name="SlackwaterEventSourceSilent",
        expression='slackwater_event_source_alive{resource=~"nodes|pods|poddisruptionbudgets"} == 0',
        minutes=1,
        severity="critical",
        summary="Slackwater hears nothing of {{ $labels.resource }}; it decides by its last cluster state.",
        description="slackwater_event_source_breaks_total says why its watches break.",
        reads=(_ALIVE,),
        holds=_now(_ALIVE, lambda alive: alive == 0, lambda labels: labels["resource"] in _NEEDED),
    ),
    Alert(
        name="SlackwaterFilterSlow",
        expression=f'histogram_quantile(0.99, sum by (le, instance) (rate({_BUCKET}{{verb="filter"}}[5m]) {_LEADER})) > 0.05',
        minutes=10,
        summary="One filter call in a hundred takes longer than 50 ms.",
        description="Scheduling throughput falls with it. Is Slackwater's CPU limited, or its node busy?",
        reads=(_BUCKET,),
        holds=_slow,
    ),
    Alert(
        name="SlackwaterExtenderErrors",
        expression=f'sum by (instance, verb, code) (rate({_CALLS}{{code!="200"}}[5m]) {_LEADER}) > 0',
        minutes=5,
        summary="{{ $labels.verb }} is answered with {{ $labels.code }}.",
        description="kube-scheduler reports SchedulerError on these pods and tries them again.",
        reads=(_CALLS,),
        holds=_grew(_CALLS, 5, matching=lambda labels: labels["code"] != "200", by=("verb", "code")),
    ),
    Alert(
        name="SlackwaterBindsRefused",
        expression=f"sum by (instance) (rate({_REFUSED}[15m]) {_LEADER}) > "
        f"0.001 * sum by (instance) (rate({_CONFIRMED}[15m])) + 0.01",
        minutes=15,
        summary="More than one bind in a thousand is refused.",
        description="By reason in slackwater_bind_refusals_total; docs/reasons.md explains each.",
        reads=(_REFUSED, _CONFIRMED),
        holds=_share(_REFUSED, _CONFIRMED, 15, 0.001, beside=0.01),
    ),
    Alert(
        name="SlackwaterOverTotal",
        expression=_of_leader(f"increase({_OVER_TOTAL}[15m]) > 0"),
        summary="Somebody else bound pods to a node without room for them.",
        description="slackwater_reserve_should_deny_total names the node.",
        reads=(_OVER_TOTAL,),
        holds=_grew(_OVER_TOTAL, 15),
    ),
    Alert(
        name="SlackwaterBrokenObjects",
        expression=_of_leader(f"increase({_BROKEN}[1h]) > 0"),
        summary="Slackwater skipped {{ $labels.resource }} that it cannot read.",
        description="The log names each: object cannot be read.",
        reads=(_BROKEN,),
        holds=_grew(_BROKEN, 60, by=("resource",)),
    ),
    Alert(
        name="SlackwaterPreemptionsFail",
        expression=f'sum by (instance) (rate({_PREEMPTIONS}{{operation="preemption",result="error"}}[30m]) {_LEADER}) > '
        f'0.01 * sum by (instance) (rate({_PREEMPTIONS}{{operation="preemption"}}[30m]))',
        minutes=30,
        summary="More than one preemption in a hundred fails.",
        description="A victim cannot be deleted, stays too long, or its node goes.",
        reads=(_PREEMPTIONS,),
        holds=_share(_PREEMPTIONS, _PREEMPTIONS, 30, 0.01, of=lambda labels: labels["result"] == "error"),
    ),
    Alert(
        name="SlackwaterPermitWritesFail",
        expression=f"sum by (instance) (rate({_FAILED}[15m]) {_LEADER}) > 0.05 * sum by (instance) (rate({_WRITES}[15m]))",
        minutes=15,
        summary="More than one write of a permit in twenty fails; agents wait for room longer.",
        description="Does somebody else write the annotation slackwater.dev/permit?",
        reads=(_FAILED, _WRITES),
        holds=_share(_FAILED, _WRITES, 15, 0.05),
    ),
    Alert(
        name="SlackwaterPodsDisputed",
        expression=_of_leader(f"{_DISPUTED} > 0"),
        minutes=5,
        summary="kube-scheduler keeps refusing {{ $value }} pods that fit by the rules that Slackwater knows.",
        description="The Event SchedulerDisagrees on these pods has kube-scheduler's message; slackwater explain pod "
        "NAMESPACE/NAME names the nodes.",
        reads=(_DISPUTED,),
        holds=_now(_DISPUTED, lambda pods: pods > 0),
    ),
    Alert(
        name="SlackwaterAutoscalerStuck",
        group="slackwater-autoscaler",
        expression=f"(increase({_LOOPS}[10m]) == 0 and {_LOOPS} > 0) {_LEADER}",
        minutes=5,
        severity="critical",
        summary="The autoscaler's loop has not ended for ten minutes.",
        description="Look for a loop that failed in the log, and at the autoscaler in /statusz.",
        reads=(_LOOPS,),
        holds=_stuck,
    ),
    Alert(
        name="SlackwaterUnsafeToAutoscale",
        group="slackwater-autoscaler",
        expression=_of_leader(f"{_SAFE} == 0"),
        minutes=10,
        severity="critical",
        summary="Too many nodes are unready; no node is removed until they are back.",
        description="Nodes are still added for pods that wait. Removals go on by themselves.",
        reads=(_SAFE,),
        holds=_now(_SAFE, lambda safe: safe == 0),
    ),
    Alert(
        name="SlackwaterPodsUnhelpable",
        group="slackwater-autoscaler",
        expression=_of_leader(f'{_PENDING}{{outcome="unhelpable"}} > 0'),
        minutes=30,
        severity="info",
        summary="{{ $value }} pods fit no node that any group could add.",
        description="slackwater explain pod NAMESPACE/NAME says what would help.",
        reads=(_PENDING,),
        holds=_now(_PENDING, lambda pods: pods > 0, lambda labels: labels["outcome"] == "unhelpable"),
    ),
    Alert(
        name="SlackwaterGroupBacksOff",
        group="slackwater-autoscaler",
        expression=_of_leader(f"{_BACKOFF} == 1"),
        minutes=30,
        summary="Node group {{ $labels.node_group }} gets no nodes: {{ $labels.reason }}.",
        description="Its provider refuses machines, or they do not become nodes in time.",
        reads=(_BACKOFF,),
        holds=_now(_BACKOFF, lambda backs_off: backs_off == 1),
    ),
    Alert(
        name="SlackwaterDrainsGivenUp",
        group="slackwater-autoscaler",
        expression=f"sum by (instance, reason) (increase({_GIVEN_UP}[1h]) {_LEADER}) > 3",
        summary="Removals of nodes are rolled back: {{ $labels.reason }}.",
        description="docs/evacuation.md explains the reason.",
        reads=(_GIVEN_UP,),
        holds=_grew(_GIVEN_UP, 60, above=3, by=("reason",)),
    ),
    Alert(
        name="SlackwaterPaused",
        group="slackwater-autoscaler",
        expression=_of_leader(f"{_PAUSED} == 1"),
        minutes=60,
        summary="{{ $labels.activity }} has been paused for an hour.",
        description="`slackwater pause` says since when, by whom and why; `slackwater resume {{ $labels.activity }}` ends it.",
        reads=(_PAUSED,),
        holds=_now(_PAUSED, lambda paused: paused == 1),
    ),
)
#: The metrics that the leader samples.
SAMPLED: Final = frozenset(name for alert in ALERTS for name in alert.reads)
