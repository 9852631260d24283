"""How long a group keeps the nodes that slack needed."""

from dataclasses import replace

import pytest

from slackwater.controllers.slack.state import KeptNodes, SlackLoad, SlackPurchase, kept_nodes
from slackwater.model.ids import UnixTime
from slackwater.model.nodegroups import GroupName
from tests.support.builders import amounts
from tests.support.slackening import a_rule

POOL = GroupName("pool")
LOAD = SlackLoad(used=amounts("20", "20Gi"), asked=amounts("5", "5Gi"), rules=(a_rule(0.25),), headroom=2)
BOUGHT = {POOL: SlackPurchase(nodes=8, piece=amounts("1", "1Gi"))}


def after(load: SlackLoad, *, seconds: float, before: dict[GroupName, KeptNodes] | None = None) -> dict[GroupName, KeptNodes]:
    begun = kept_nodes({}, LOAD, BOUGHT, now=UnixTime(0.0), keep_seconds=3600.0) if before is None else before
    return kept_nodes(begun, load, {}, now=UnixTime(seconds), keep_seconds=3600.0)


@pytest.mark.parametrize(
    ("used", "seconds", "want_kept"),
    [
        ("20", 1e6, True),  # as much as then: without end
        ("19", 1e6, True),  # less by no more than what found no room
        ("15", 3599.0, True),  # less by no more than the slack: a wave
        ("15", 3600.0, False),
        ("14", 1.0, False),  # less by more than the slack
    ],
)
def test_nodes_stay_while_pods_request_as_much_and_for_an_hour_within_the_slack(
    used: str, seconds: float, want_kept: bool
) -> None:
    assert (POOL in after(replace(LOAD, used=amounts(used, "20Gi")), seconds=seconds)) == want_kept


def test_a_wave_within_the_slack_keeps_them_for_ever() -> None:
    trough, kept = replace(LOAD, used=amounts("16", "16Gi")), None
    for half_hour in range(1, 40):
        kept = after(trough if half_hour % 2 else LOAD, seconds=1800.0 * half_hour, before=kept)
        assert kept[POOL].nodes == 8


@pytest.mark.parametrize(
    ("used", "seconds", "want_empty_too"), [("20", 3599.0, True), ("20", 3600.0, False), ("16", 3599.0, True)]
)
def test_empty_nodes_go_an_hour_after_the_purchase_while_pods_request_as_much(
    used: str, seconds: float, want_empty_too: bool
) -> None:
    assert after(replace(LOAD, used=amounts(used, "20Gi")), seconds=seconds)[POOL].empty_too == want_empty_too


@pytest.mark.parametrize("now", [replace(LOAD, rules=()), replace(LOAD, headroom=1)])
def test_nodes_go_at_once_where_less_room_is_asked_for(now: SlackLoad) -> None:
    assert after(now, seconds=1.0) == {}


def test_none_are_kept_where_that_is_switched_off() -> None:
    assert kept_nodes({}, LOAD, BOUGHT, now=UnixTime(0.0), keep_seconds=0.0) == {}
