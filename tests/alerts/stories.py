"""Time lines of the alerts' metrics: when each alert has to be there, with which labels, and when not.

`test_alerts.py` plays them to promtool, tests/unit/controllers/notifications to what the leader judges itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

AT = {"instance": "slackwater:10298", "job": "slackwater"}
_BUCKET = "slackwater_extender_request_duration_seconds_bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`series`: values of each, as promtool writes them. Minutes: when nothing is to be heard, and when the alert is there."""

    alert: str
    what: str
    series: Mapping[str, str]
    quiet: tuple[int, ...] = ()
    loud: tuple[int, ...] = ()
    #: Beside the severity.
    labels: Mapping[str, str] = field(default_factory=dict)
    value: str = ""


def reported_by(metric: str, values: str, **labels: str) -> dict[str, str]:
    """One series as it is scraped from one replica."""
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in {**labels, **AT}.items())
    return {f"{metric}{{{inside}}}": values}


def took(verb: str, *, quick: int, slow: int) -> dict[str, str]:
    """So many calls a minute within 50 ms, and beyond."""
    whole = quick + slow
    steps = {"0.05": quick, "0.1": whole, "+Inf": whole}
    return {
        series: values
        for le, step in steps.items()
        for series, values in reported_by(_BUCKET, f"0+{step}x40", verb=verb, le=le).items()
    }


_INSTANCE = {"instance": AT["instance"]}
_REFUSED, _CONFIRMED = "slackwater_bind_refusals_total", "slackwater_binds_confirmed_total"
_PREEMPTIONS = "slackwater_goroutines_execution_total"
_FAILED, _WRITES = "slackwater_permit_write_failures_total", "slackwater_permit_writes_total"
_LOOPS, _GIVEN_UP = "slackwater_autoscaler_loops_total", "cluster_autoscaler_failed_scale_downs_total"
_BACKOFF, _PENDING = "cluster_autoscaler_node_group_backoff_status", "slackwater_autoscaler_pending_pods"
_DISPUTED = "slackwater_pods_disputed"
_SAFE, _ALIVE = "cluster_autoscaler_cluster_safe_to_autoscale", "slackwater_event_source_alive"

STORIES = [
    Story(
        alert="SlackwaterNotSynced",
        what="a service that never gets ready",
        series=reported_by("slackwater_synced", "0x30"),
        quiet=(0, 4),
        loud=(5, 30),
        labels=AT,
    ),
    Story(
        alert="SlackwaterNotSynced",
        what="a start that takes four minutes, and a service that is gone",
        series=reported_by("slackwater_synced", "0x3 1x10 stale"),
        quiet=(3, 6, 20),
    ),
    Story(
        alert="SlackwaterNoLeader",
        what="nobody takes the Lease",
        series=reported_by("slackwater_leader", "1x5 0x30") | reported_by("slackwater_shadow", "0x36"),
        quiet=(5, 10),
        loud=(11, 30),
        labels={"job": AT["job"]},
    ),
    Story(
        alert="SlackwaterNoLeader",
        what="a shadow, which never leads",
        series=reported_by("slackwater_leader", "0x30") | reported_by("slackwater_shadow", "1x30"),
        quiet=(10, 30),
    ),
    Story(
        alert="SlackwaterEventSourceSilent",
        what="pods are not heard of",
        series=reported_by(_ALIVE, "1x5 0x10", resource="pods") | reported_by(_ALIVE, "1x15", resource="nodes"),
        quiet=(5, 6),
        loud=(7, 12),
        labels={**AT, "resource": "pods"},
    ),
    Story(
        alert="SlackwaterEventSourceSilent",
        what="NeonVM is not installed",
        series=reported_by(_ALIVE, "0x30", resource="virtualmachines") | reported_by(_ALIVE, "1x30", resource="pods"),
        quiet=(10, 30),
    ),
    Story(
        alert="SlackwaterFilterSlow",
        what="two calls in a hundred take too long",
        series=took("filter", quick=98, slow=2),
        quiet=(5, 10),
        loud=(12, 30),
        labels=_INSTANCE,
    ),
    Story(
        alert="SlackwaterFilterSlow",
        what="one in a thousand, and binds that are slow",
        series=took("filter", quick=999, slow=1) | took("bind", quick=1, slow=99),
        quiet=(12, 30),
    ),
    Story(
        alert="SlackwaterExtenderErrors",
        what="binds are answered with 500",
        series=reported_by("slackwater_extender_requests_total", "0+1x30", verb="bind", code="500")
        | reported_by("slackwater_extender_requests_total", "0+100x30", verb="filter", code="200"),
        quiet=(3,),
        loud=(7, 20),
        labels={**_INSTANCE, "verb": "bind", "code": "500"},
    ),
    Story(
        alert="SlackwaterExtenderErrors",
        what="one bad answer long ago",
        series=reported_by("slackwater_extender_requests_total", "0 1x40", verb="bind", code="500"),
        quiet=(5, 10, 20),
    ),
    Story(
        alert="SlackwaterBindsRefused",
        what="one bind in ten is refused",
        series=reported_by(_REFUSED, "0+10x60", reason="over_total") | reported_by(_CONFIRMED, "0+90x60"),
        quiet=(10,),
        loud=(20, 50),
        labels=_INSTANCE,
    ),
    Story(
        alert="SlackwaterBindsRefused",
        what="one in six thousand",
        series=reported_by(_REFUSED, "0+1x60", reason="over_total") | reported_by(_CONFIRMED, "0+6000x60"),
        quiet=(20, 50),
    ),
    Story(
        alert="SlackwaterOverTotal",
        what="a foreign bind without room",
        series=reported_by("slackwater_admissions_over_total", "0x5 1x40"),
        quiet=(5, 30),
        loud=(7, 15),
        labels=AT,
    ),
    Story(
        alert="SlackwaterBrokenObjects",
        what="a pod that cannot be read",
        series=reported_by("slackwater_event_source_broken_objects_total", "0x5 1x100", resource="pods"),
        quiet=(5, 90),
        loud=(7, 50),
        labels={**AT, "resource": "pods"},
    ),
    Story(
        alert="SlackwaterPreemptionsFail",
        what="one in ten fails",
        series=reported_by(_PREEMPTIONS, "0+9x90", operation="preemption", result="success")
        | reported_by(_PREEMPTIONS, "0+1x90", operation="preemption", result="error"),
        quiet=(25,),
        loud=(35, 80),
        labels=_INSTANCE,
    ),
    Story(
        alert="SlackwaterPreemptionsFail",
        what="none is tried",
        series=reported_by(_PREEMPTIONS, "0x90", operation="preemption", result="success")
        | reported_by(_PREEMPTIONS, "0x90", operation="preemption", result="error"),
        quiet=(35, 80),
    ),
    Story(
        alert="SlackwaterPermitWritesFail",
        what="one write in ten fails",
        series=reported_by(_FAILED, "0+1x60") | reported_by(_WRITES, "0+10x60"),
        quiet=(10,),
        loud=(20, 50),
        labels=_INSTANCE,
    ),
    Story(
        alert="SlackwaterPermitWritesFail",
        what="one in a hundred",
        series=reported_by(_FAILED, "0+1x60") | reported_by(_WRITES, "0+100x60"),
        quiet=(20, 50),
    ),
    Story(
        alert="SlackwaterPodsDisputed",
        what="two pods stay refused",
        series=reported_by(_DISPUTED, "0x5 2x30"),
        quiet=(5, 10),
        loud=(11, 30),
        labels=AT,
        value="2",
    ),
    Story(
        alert="SlackwaterPodsDisputed",
        what="a disagreement that ends within four minutes",
        series=reported_by(_DISPUTED, "0x5 1x3 0x30"),
        quiet=(9, 20),
    ),
    Story(
        alert="SlackwaterAutoscalerStuck",
        what="loops that end until the tenth minute",
        series=reported_by(_LOOPS, "0+6x10 60x30"),
        quiet=(10, 23),
        loud=(26, 40),
        labels=AT,
    ),
    Story(
        alert="SlackwaterAutoscalerStuck",
        what="an autoscaler that is off",
        series=reported_by(_LOOPS, "0x40"),
        quiet=(26, 40),
    ),
    Story(
        alert="SlackwaterUnsafeToAutoscale",
        what="too many nodes are unready",
        series=reported_by(_SAFE, "1x5 0x30"),
        quiet=(5, 14),
        loud=(17, 30),
        labels=AT,
    ),
    Story(
        alert="SlackwaterPodsUnhelpable",
        what="three pods fit nowhere",
        series=reported_by(_PENDING, "3x60", outcome="unhelpable"),
        quiet=(29,),
        loud=(31, 60),
        labels={**AT, "outcome": "unhelpable"},
        value="3",
    ),
    Story(
        alert="SlackwaterPodsUnhelpable",
        what="pods that get nodes",
        series=reported_by(_PENDING, "3x60", outcome="helped") | reported_by(_PENDING, "0x60", outcome="unhelpable"),
        quiet=(31, 60),
    ),
    Story(
        alert="SlackwaterGroupBacksOff",
        what="a provider without machines",
        series=reported_by(_BACKOFF, "1x60", node_group="pool-a", reason="STOCKOUT")
        | reported_by(_BACKOFF, "0x60", node_group="pool-b", reason="STOCKOUT"),
        quiet=(29,),
        loud=(31, 60),
        labels={**AT, "node_group": "pool-a", "reason": "STOCKOUT"},
    ),
    Story(
        alert="SlackwaterDrainsGivenUp",
        what="a removal is rolled back every ten minutes",
        series=reported_by(_GIVEN_UP, " ".join(f"{number}x9" for number in range(12)), reason="NoPlaceToMovePods"),
        quiet=(25,),
        loud=(60, 110),
        labels={**_INSTANCE, "reason": "NoPlaceToMovePods"},
    ),
    Story(
        alert="SlackwaterDrainsGivenUp",
        what="one in an hour",
        series=reported_by(_GIVEN_UP, "0x10 1x100", reason="NoPlaceToMovePods"),
        quiet=(15, 60),
    ),
    Story(
        alert="SlackwaterPaused",
        what="scale-down was paused and forgotten",
        series=reported_by("slackwater_paused", "1x120", activity="scale-down"),
        quiet=(0, 59),
        loud=(60, 90),
        labels={**AT, "activity": "scale-down"},
    ),
    Story(
        alert="SlackwaterPaused",
        what="half an hour of maintenance",
        series=reported_by("slackwater_paused", "0x5 1x30 0x60", activity="all"),
        quiet=(4, 34, 90),
    ),
]
