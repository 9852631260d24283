"""Slack as the configuration says it: rules, and the times at which schedules are due."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slackwater.app.policies import slack_policy_of, slo_classes_of
from slackwater.app.settings import SettingsError, loads
from slackwater.model.ids import UnixTime
from slackwater.model.start_time_slo import PodClass
from tests.support import installed
from tests.support.builders import amounts
from tests.support.configuration import HEADER

WORK = '{name: work, days: [Mon, Fri], start: "07:30", end: "19:00", timeZone: Europe/Berlin, extraCapacity: {minRate: 0.2}}'
NIGHT = '{name: night, days: [Fri], start: "22:00", end: "02:00", extraCapacity: {min: {cpu: "4"}}}'


def at(text: str) -> UnixTime:
    return UnixTime(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def rules(text: str, moment: str | None = None) -> list[str]:
    policy = slack_policy_of(loads(HEADER + text), at=None if moment is None else at(moment))
    assert policy is not None
    return [rule.name for rule in policy.rules if rule.asks]


def test_rules_are_what_the_file_says() -> None:
    text = "autoscaler: {scaleDown: {unneededTime: 1m}, slack: {maxNodes: 3, "
    text += "extraCapacity: {minRate: 0.1, granularity: 4, sizing: v1}, groups: "
    text += '[{name: b, nodeLabels: {pool: b}, extraCapacity: {min: {cpu: "2", memory: 1Gi}}}]}}'
    policy = slack_policy_of(loads(HEADER + text))
    assert policy is not None
    assert (policy.max_nodes, policy.shrink_delay) == (3, 60.0)
    assert policy.rules == (
        replace(installed.SLACK_RULE, name="cluster", min_rate=100_000, granularity=4, sizing="v1"),
        replace(
            installed.SLACK_RULE, name="b", min=amounts("2", "1Gi"), node_labels=(("pool", "b"),), granularity=4, sizing="v1"
        ),
    )


def test_the_gate_switches_it_off() -> None:
    assert slack_policy_of(loads(HEADER + "featureGates: {ResourceSlack: false}")) is None


@pytest.mark.parametrize(
    ("moment", "want"),
    [
        ("2026-11-20T06:29:00", []),  # a Friday; Berlin is an hour ahead of UTC
        ("2026-11-20T06:30:00", ["work"]),
        ("2026-11-20T17:59:59", ["work"]),
        ("2026-11-20T18:00:00", []),
        ("2026-07-17T05:30:00", ["work"]),  # two hours in summer
        ("2026-11-19T12:00:00", []),  # a Thursday
        ("2026-11-20T22:00:00", ["night"]),
        ("2026-11-21T01:59:00", ["night"]),  # Saturday, but it began on Friday
        ("2026-11-21T02:00:00", []),
        ("2026-11-20T01:00:00", []),
    ],
)
def test_schedules_are_due_by_their_own_clock(moment: str, want: list[str]) -> None:
    text = f"autoscaler: {{slack: {{schedules: [{WORK}, {NIGHT}]}}}}"
    assert rules(text, moment) == want
    assert rules(text) == []  # a file has no clock


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (WORK.replace("Europe/Berlin", "Mars/Olympus"), "timeZone"),
        (WORK.replace("07:30", "7:30"), "start"),
        (WORK.replace("name: work", "name: cluster"), "name"),
        (WORK.replace("Mon,", "Mo,"), "days"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused(text: str, want: str) -> None:
    with pytest.raises(SettingsError, match=rf"autoscaler\.slack\.schedules\[0\]\.{want}"):
        loads(HEADER + f"autoscaler: {{slack: {{schedules: [{text}]}}}}")


SLO = "{name: web, percent: 99.5, within: 10s, pods: {namespaces: [shop], labels: {tier: web}, minPriority: 5}}"


def test_a_slo_is_what_the_file_says() -> None:
    text = f"autoscaler: {{scanInterval: 20s, slack: {{startTimeSLOs: [{SLO}]}}}}"
    settings = loads(HEADER + text)
    policy = slack_policy_of(settings)
    assert policy is not None
    assert (policy.node_start_seconds, policy.scan_interval, policy.unneeded_time) == (120, 20, 600)
    assert slo_classes_of(settings) == (
        PodClass(
            name="web",
            share_ppm=995_000,
            within=10.0,
            namespaces=("shop",),
            labels=(("tier", "web"),),
            min_priority=5,
        ),
    )
    assert slo_classes_of(loads(HEADER + text + "\nfeatureGates: {ResourceSlack: false}")) == ()
    assert slo_classes_of(loads(HEADER)) == ()


def test_a_node_of_an_impatient_group_counts_for_how_long_nodes_stay() -> None:
    text = "autoscaler: {nodeGroups: [{name: a}, {name: b, scaleDown: {unneededTime: 1m}}]}"
    policy = slack_policy_of(loads(HEADER + text))
    assert policy is not None
    assert policy.unneeded_time == 60


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (SLO.replace("99.5", "100"), "percent: got 100, want > 0 and < 100"),
        (SLO.replace("99.5", "0"), "percent: got 0, want > 0 and < 100"),
        (SLO.replace("10s", '"0"'), "within"),
        (SLO.replace("name: web", "name: cluster"), "name"),
        (SLO.replace("minPriority: 5", "minPriority: 5, maxPriority: 4"), r"pods\.minPriority"),
    ],
)
def test_a_slo_that_means_nothing_is_refused(text: str, want: str) -> None:
    with pytest.raises(SettingsError, match=rf"autoscaler\.slack.startTimeSLOs\[0\]\.{want}"):
        loads(HEADER + f"autoscaler: {{slack: {{startTimeSLOs: [{text}]}}}}")
