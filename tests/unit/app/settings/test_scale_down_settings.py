"""What the file says of removing nodes, and what the core is told."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from slackwater.app.policies import policy_of, scale_down_policy_of
from slackwater.app.settings import Settings, SettingsError, loads
from slackwater.controllers.scaledown.drains.pod_evictions import PriorityGroup
from slackwater.controllers.scaledown.policy import GroupPolicy
from slackwater.model.nodegroups import GroupName
from tests.support import installed


def settings(scale_down: dict[str, Any] | None = None, **more: Any) -> Settings:
    header = {"apiVersion": "config.slackwater.dev/v1alpha1", "kind": "SlackwaterConfiguration"}
    autoscaler = {"scaleDown": scale_down or {}, **more.pop("autoscaler", {})}
    return loads(yaml.safe_dump({**header, "autoscaler": autoscaler, **more}))


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
