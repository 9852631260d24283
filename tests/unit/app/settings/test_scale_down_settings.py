"""What the file says of removing nodes, and what the core is told."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from slackwater.app.policies import policy_of, scale_down_policy_of
from slackwater.app.settings import Settings, SettingsError, loads
from slackwater.controllers.scaledown.policy import GroupPolicy, PriorityGroup
from slackwater.model.disruption_budgets import NodeDisruptionBudget
from slackwater.model.nodegroups import GroupName
from tests.support import installed
from tests.support.configuration import HEAD
from tests.support.nodegroups import a_group


def settings(scale_down: dict[str, Any] | None = None, **more: Any) -> Settings:
    autoscaler = {"scaleDown": scale_down or {}, **more.pop("autoscaler", {})}
    return loads(yaml.safe_dump({**HEAD, "autoscaler": autoscaler, **more}))


def test_durations_become_seconds_shares_stay_and_the_names_are_those_of_the_file() -> None:
    policy = scale_down_policy_of(
        settings({"maxDrainBackoff": "90m", "utilizationThreshold": 0.25, "delayAfterFailure": "1500ms"})
    )
    assert (policy.max_drain_backoff, policy.utilization_threshold, policy.delay_after_failure) == (5400.0, 0.25, 1.5)


def test_without_the_gate_one_node_is_drained_at_a_time() -> None:
    policy = scale_down_policy_of(settings(featureGates={"ParallelDrain": False}))
    assert (policy.max_drain_parallelism, policy.parallel_drain, policy.max_scale_down_parallelism) == (1, False, 10)


def test_a_group_may_say_otherwise() -> None:
    groups = [
        {"name": "a", "scaleDown": {"utilizationThreshold": 0.3, "unneededTime": "1h"}},
        {"name": "b", "scaleDown": {"enabled": False}},
        {"name": "c", "enabled": False},
    ]
    policy = scale_down_policy_of(settings(autoscaler={"nodeGroups": groups}))
    assert policy.groups == {
        GroupName("a"): GroupPolicy(utilization_threshold=0.3, unneeded_time=3600.0),
        GroupName("b"): GroupPolicy(enabled=False),
        GroupName("c"): GroupPolicy(enabled=False),
    }


def test_priority_groups_are_ordered_and_take_the_place_of_the_one() -> None:
    limits = policy_of(
        settings({"drain": {"priorityGroups": [{"priority": 5, "time": "10s"}, {"priority": -5, "time": "1m"}]}})
    ).drain
    assert limits.priority_groups == (PriorityGroup(priority=-5, time=60.0), PriorityGroup(priority=5, time=10.0))
    assert [limits.group_of(priority) for priority in (-9, -5, 4, 5, 9)] == [0, 0, 0, 1, 1]


def test_minima_and_blocking_rules_are_read() -> None:
    found = settings({"minimum": {"nodes": 3, "cpu": "16", "memory": "1Gi"}, "blockedBy": {"fixedMachines": False}})
    assert scale_down_policy_of(found).minimum == replace(installed.MINIMUM, nodes=3, cpu=16_000, memory=1 << 30)
    assert not policy_of(found).blocked_by.fixed_machines
    still = policy_of(settings(migration={"enabled": False}))
    assert (still.blocked_by.machines_migrate, still.drain.migrate) == (False, False)


@pytest.mark.parametrize(
    ("file", "want"),
    [
        ({"maxDrainParallelism": 0}, "autoscaler.scaleDown.maxDrainParallelism"),
        ({"choice": "cheapest"}, "autoscaler.scaleDown.choice"),
        ({"drain": {"priorityGroups": [{"priority": 1.5, "time": "1s"}]}}, "autoscaler.scaleDown.drain.priorityGroups[0]"),
    ],
)
def test_a_wrong_value_is_named(file: dict[str, Any], want: str) -> None:
    with pytest.raises(SettingsError, match=want.replace("[", r"\[")):
        settings(file)


def test_disruption_budgets_are_read_and_a_group_may_have_its_own() -> None:
    window = {"nodes": 0, "schedule": "0 9 * * mon-fri", "duration": "8h", "timeZone": "Europe/Berlin", "reasons": ["Empty"]}
    groups = [{"name": "a", "scaleDown": {"disruptionBudgets": [{"nodes": "5"}]}}, {"name": "b"}]
    policy = scale_down_policy_of(
        settings({"disruptionBudgets": [window, {"nodes": "25%"}, {}]}, autoscaler={"nodeGroups": groups})
    )
    want = NodeDisruptionBudget(
        nodes=0, reasons=("Empty",), schedule="0 9 * * mon-fri", duration=28_800.0, time_zone="Europe/Berlin"
    )
    assert policy.disruption_budgets == (want, NodeDisruptionBudget(nodes="25%"), NodeDisruptionBudget(nodes="10%"))
    a, b = GroupName("a"), GroupName("b")
    assert policy.budgets_of(a_group(name) for name in (a, b)) == {
        a: (NodeDisruptionBudget(nodes=5),),
        b: policy.disruption_budgets,
    }


NINE, EIGHT_HOURS = {"schedule": "0 9 * * *"}, {"duration": "8h"}


@pytest.mark.parametrize(
    ("budget", "key", "want"),
    [
        (NINE, "duration", "a duration such as .8h"),
        ({"timeZone": "Europe/Berlin"}, "schedule", "whose times are those of the time zone"),
        (EIGHT_HOURS, "schedule", "a schedule of cron such as .0 9"),
        ({**EIGHT_HOURS, "schedule": "0 25 * * *"}, "schedule", r"\(bad hour\)"),
        ({**EIGHT_HOURS, "schedule": "0 9 * *"}, "schedule", r"\(4 fields\)"),
        ({**EIGHT_HOURS, "schedule": "TZ=UTC 0 9 * *"}, "schedule", "a schedule of cron such as"),
        ({**EIGHT_HOURS, "schedule": "9" * 300}, "schedule", "at most 256 characters"),
        ({**NINE, "duration": "30s"}, "duration", ">= 1m"),
        ({**NINE, **EIGHT_HOURS, "timeZone": "Mars/Olympus"}, "timeZone", "such as Europe/Berlin"),
        ({"nodes": "101%"}, "nodes", "a percentage such as .10%"),
        ({"nodes": -1}, "nodes", "a whole number >= 0"),
        ({"nodes": "ten"}, "nodes", "a whole number >= 0"),
        ({"nodes": 0.5}, "nodes", "a whole number >= 0"),
        ({"nodes": True}, "nodes", "a whole number >= 0"),
        ({"reasons": ["Consolidated"]}, r"reasons\[0\]", "Underutilized"),
    ],
)
def test_a_disruption_budget_that_means_nothing_is_refused(budget: dict[str, Any], key: str, want: str) -> None:
    with pytest.raises(SettingsError, match=rf"autoscaler\.scaleDown\.disruptionBudgets\[1\]\.{key}.*{want}"):
        settings({"disruptionBudgets": [{}, budget]})
    groups = [{"name": "a", "scaleDown": {"disruptionBudgets": [budget]}}]
    with pytest.raises(SettingsError, match=rf"nodeGroups\[0\]\.scaleDown\.disruptionBudgets\[0\]\.{key}.*{want}"):
        settings(autoscaler={"nodeGroups": groups})
