"""What Prometheus itself makes of deploy/monitoring: each alert fires when it should, in the right words, and not before.

Each case is a little time line for `promtool test rules`: series with a sample a minute, when the alert must be quiet, and when
it must be there with which labels. Its words are those of the rule with the labels put in.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.program import ask

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
CHART = MONITORING.parent / "chart" / "files" / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]}
_AT = {"instance": "slackwater:10298", "job": "slackwater"}
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
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in {**labels, **_AT}.items())
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


_INSTANCE = {"instance": _AT["instance"]}
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
        labels=_AT,
    ),
    Story(
        alert="SlackwaterNotSynced",
        what="a start that takes four minutes, and a service that is gone",
        series=reported_by("slackwater_synced", "0x3 1x10 stale"),
        quiet=(3, 6, 20),
    ),
    Story(
        alert="SlackwaterEventSourceSilent",
        what="pods are not heard of",
        series=reported_by(_ALIVE, "1x5 0x10", resource="pods") | reported_by(_ALIVE, "1x15", resource="nodes"),
        quiet=(5, 6),
        loud=(7, 12),
        labels={**_AT, "resource": "pods"},
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
        labels=_AT,
    ),
    Story(
        alert="SlackwaterBrokenObjects",
        what="a pod that cannot be read",
        series=reported_by("slackwater_event_source_broken_objects_total", "0x5 1x100", resource="pods"),
        quiet=(5, 90),
        loud=(7, 50),
        labels={**_AT, "resource": "pods"},
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
        labels=_AT,
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
        labels=_AT,
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
        labels=_AT,
    ),
    Story(
        alert="SlackwaterPodsUnhelpable",
        what="three pods fit nowhere",
        series=reported_by(_PENDING, "3x60", outcome="unhelpable"),
        quiet=(29,),
        loud=(31, 60),
        labels={**_AT, "outcome": "unhelpable"},
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
        labels={**_AT, "node_group": "pool-a", "reason": "STOCKOUT"},
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
        labels={**_AT, "activity": "scale-down"},
    ),
    Story(
        alert="SlackwaterPaused",
        what="half an hour of maintenance",
        series=reported_by("slackwater_paused", "0x5 1x30 0x60", activity="all"),
        quiet=(4, 34, 90),
    ),
]


def words(story: Story) -> dict[str, str]:
    """What the alert says, with the labels and the value put in."""

    def put(found: re.Match[str]) -> str:
        return story.value if found[1] == "$value" else story.labels[found[1].removeprefix("$labels.")]

    return {name: re.sub(r"{{ (.*?) }}", put, text) for name, text in RULES[story.alert]["annotations"].items()}


def _there(story: Story) -> dict[str, Any]:
    return {"exp_labels": {**story.labels, **RULES[story.alert]["labels"]}, "exp_annotations": words(story)}


def as_test(story: Story) -> dict[str, Any]:
    wanted: list[tuple[int, list[Any]]] = [(minute, []) for minute in story.quiet]
    wanted += [(minute, [_there(story)]) for minute in story.loud]
    return {
        "name": f"{story.alert}: {story.what}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in story.series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": story.alert, "exp_alerts": alerts} for minute, alerts in sorted(wanted)
        ],
    }


@pytest.mark.parametrize("file", [ALERTS, CHART], ids=["deploy/monitoring", "deploy/chart"])
def test_prometheus_reads_the_rules(promtool: Path, file: Path) -> None:
    code, said = ask(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(file))
    assert (code, f"SUCCESS: {len(RULES)} rules found" in said) == (0, True), said


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert}: {story.what}")
def test_an_alert_is_there_when_it_should_be_and_not_before(promtool: Path, story: Story, tmp_path: Path) -> None:
    file = tmp_path / "test.yaml"
    body = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [as_test(story)]}
    file.write_text(yaml.safe_dump(body), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 0, said


def test_every_alert_has_an_input_series() -> None:
    assert {story.alert for story in STORIES if story.loud and story.quiet} == RULES.keys()


def test_a_rule_that_says_something_else_fails(promtool: Path, tmp_path: Path) -> None:
    """These tests can fail: the threshold of one rule is moved."""
    rules, file = tmp_path / "alerts.yaml", tmp_path / "test.yaml"
    rules.write_text(ALERTS.read_text("utf-8").replace("> 0.05\n", "> 5\n"), "utf-8")
    slow = next(story for story in STORIES if story.alert == "SlackwaterFilterSlow" and story.loud)
    body = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [as_test(slow)]}
    file.write_text(yaml.safe_dump(body), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 1
    assert "SlackwaterFilterSlow" in said
