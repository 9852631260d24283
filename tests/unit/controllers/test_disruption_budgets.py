"""How many nodes disruption budgets allow, of which group, for which reason, and when by the clock of a time zone."""

from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Any

import pytest

from slackwater.controllers.scaledown.batch import RemovalBatch, over_budget
from slackwater.controllers.scaledown.disruption_budgets import GroupDisruptions, disruptions_of
from slackwater.controllers.scaledown.policy import GroupPolicy
from slackwater.model.disruption_budgets import DisruptionReason, NodeDisruptionBudget, schedule_problem
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, GroupOptions, Instance, InstanceId
from tests.support import installed
from tests.support.builders import a_node
from tests.support.removing import POOL, a_group, a_group_status
from tests.unit.controllers.test_scale_down_choice import a_plan, begun, reasons

EMPTY: DisruptionReason = "Empty"
NINE_TO_FIVE = NodeDisruptionBudget(
    nodes=0, schedule="0 9 * * mon-fri", duration=8 * 3600.0, time_zone="Europe/Berlin", reasons=("Underutilized",)
)


def at(text: str) -> UnixTime:
    return UnixTime(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def names(*of: str) -> set[NodeName]:
    return {NodeName(name) for name in of}


def disruptions(*budgets: NodeDisruptionBudget, nodes: int = 10, unready: Any = (), removing: Any = ()) -> GroupDisruptions:
    return GroupDisruptions(
        group=POOL,
        nodes=nodes,
        unready=names(*unready),
        removing=names(*removing),
        active=tuple((budget, inf) for budget in budgets),
    )


def allowed(found: GroupDisruptions, reason: DisruptionReason = EMPTY) -> int:
    """How many ready nodes may begin, one after another."""
    count = 0
    while found.refusal({NodeName(f"new{count}"): reason}) is None:
        found.begin(NodeName(f"new{count}"))
        count += 1
        assert count < 1000
    return count


# --- how many -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "nodes", "want"),
    [
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("5%", 10, 1),
        ("0%", 10, 0),
        ("100%", 7, 7),
        ("33%", 3, 1),
        (5, 10, 5),
        (0, 10, 0),
        (5, 2, 5),
    ],
)
def test_percentages_are_rounded_up(share: int | str, nodes: int, want: int) -> None:
    assert NodeDisruptionBudget(nodes=share).limit(nodes) == want
    assert allowed(disruptions(NodeDisruptionBudget(nodes=share), nodes=nodes)) == want


def test_nodes_in_removal_and_unready_nodes_count_once() -> None:
    budget = NodeDisruptionBudget(nodes=5)
    assert allowed(disruptions(budget, removing=("a", "b"), unready=("b", "c"))) == 2
    assert allowed(disruptions(budget, unready=tuple("abcdef"))) == 0


def test_the_least_of_the_budgets_for_the_reason_counts() -> None:
    budgets = (
        NodeDisruptionBudget(nodes=4),
        NodeDisruptionBudget(nodes=2, reasons=("Underutilized", "Drifted")),
        NodeDisruptionBudget(nodes="30%", reasons=("Empty",)),
    )
    assert allowed(disruptions(*budgets)) == 3
    assert allowed(disruptions(*budgets), "Underutilized") == 2
    assert allowed(disruptions(*budgets, removing=("a", "b")), "Underutilized") == 0  # whatever the reason of the others
    assert disruptions(NodeDisruptionBudget(nodes=0, reasons=("Drifted",))).refusal({NodeName("n"): "Empty"}) is None


def test_a_broken_node_does_not_block_its_own_removal_but_removals_of_broken_nodes_are_limited() -> None:
    broken = disruptions(NodeDisruptionBudget(nodes=1), unready=("x", "y"))
    assert broken.refusal({NodeName("healthy"): "Empty"}) is not None
    assert broken.refusal({NodeName("x"): "Empty"}) is None
    broken.begin(NodeName("x"))
    assert broken.refusal({NodeName("y"): "Empty"}) is not None
    assert disruptions(NodeDisruptionBudget(nodes=0), unready=("x",)).refusal({NodeName("x"): "Empty"}) is not None


def test_nodes_that_come_do_not_count_and_nodes_that_others_delete_do() -> None:
    labels = {"slackwater.dev/node-group": str(POOL)}
    found = [a_node(name, labels=labels) for name in ("up", "broken", "coming", "drained", "deleted")]
    deleted = Instance(id=InstanceId("m"), state="deleting", node=NodeName("deleted"))
    lost = Instance(id=InstanceId("l"), state="deleting")  # a machine without a node
    group = replace(a_group([]), instances=(deleted, lost))
    status = a_group_status(group, ready=("up", "drained"), unready=("broken",), starting=("coming",))
    budgets = {POOL: (NodeDisruptionBudget(nodes="50%"), replace(NINE_TO_FIVE, reasons=()))}
    drains = [NodeName("drained"), NodeName("gone")]
    [counted] = disruptions_of(budgets, {POOL: status}, found, drains, now=at("2026-11-28T12:00")).values()
    assert (counted.nodes, counted.removing, set(counted.unready)) == (4, names("drained", "deleted"), names("broken"))
    assert [budget.nodes for budget, _ in counted.active] == ["50%"]  # a Saturday
    assert disruptions_of({}, {POOL: status}, found, drains, now=at("2026-11-28T12:00")) == {}


def test_a_groups_own_list_replaces_its_providers_and_this_that_for_all() -> None:
    for_all, own = NodeDisruptionBudget(nodes=1), NodeDisruptionBudget(nodes=2)
    said = NodeDisruptionBudget(nodes=3)
    groups = {
        GroupName("own"): GroupPolicy(disruption_budgets=(own,)),
        GroupName("none"): GroupPolicy(disruption_budgets=()),
        GroupName("unsaid"): GroupPolicy(),
    }
    provided = [
        replace(a_group([]), name=GroupName(name), options=GroupOptions(disruption_budgets=of))
        for name, of in (
            ("own", (said,)),
            ("none", (said,)),
            ("unsaid", None),
            ("other", None),
            ("said", (said,)),
            ("free", ()),
        )
    ]
    policy = replace(installed.SCALE_DOWN, disruption_budgets=(for_all,), groups=groups)
    want = {"own": (own,), "unsaid": (for_all,), "other": (for_all,), "said": (said,)}
    assert policy.budgets_of(provided) == want
    assert installed.SCALE_DOWN.budgets_of(provided) == {"own": (said,), "none": (said,), "said": (said,)}


def test_groups_of_one_pool_share_their_budgets() -> None:
    """As the variants of a NodePool do: 10 % of 20 nodes are two, whichever variants they are of."""
    groups = [replace(a_group([]), name=GroupName(name), pool=pool) for name, pool in (("a", "p"), ("b", "p"), ("c", ""))]
    status = {each.name: a_group_status(each, ready=[f"{each.name}{n}" for n in range(10)]) for each in groups}
    found = disruptions_of(
        {each.name: (NodeDisruptionBudget(nodes="10%"),) for each in groups}, status, [], [], now=at("2026-11-28T12:00")
    )
    a, b, c = (found[each.name] for each in groups)
    assert [each.nodes for each in (a, b, c)] == [20, 20, 10]
    assert allowed(a) == 2
    assert b.refusal({NodeName("b0"): EMPTY}) is not None
    assert allowed(c) == 1


# --- when -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "hours", "moment", "want"),
    [
        ("0 9 * * mon-fri", 8, "2026-03-27T07:59:59", None),  # winter: UTC+1
        ("0 9 * * mon-fri", 8, "2026-03-27T08:00:00", "2026-03-27T16:00"),
        ("0 9 * * mon-fri", 8, "2026-03-27T15:59:59", "2026-03-27T16:00"),
        ("0 9 * * mon-fri", 8, "2026-03-27T16:00:00", None),
        ("0 9 * * mon-fri", 8, "2026-03-28T12:00:00", None),  # a Saturday
        ("0 9 * * mon-fri", 8, "2026-03-30T07:00:00", "2026-03-30T15:00"),  # summer: UTC+2
        # A window over the change is as long as it says.
        ("0 22 * * *", 8, "2026-03-29T04:59:59", "2026-03-29T05:00"),
        ("0 22 * * *", 8, "2026-03-29T05:00:00", None),
        ("0 22 * * *", 8, "2026-10-25T03:59:59", "2026-10-25T04:00"),
        ("0 22 * * *", 8, "2026-10-25T04:00:00", None),
        # 02:30 does not exist: at the first minute that does.
        ("30 2 * * *", 1, "2026-03-29T00:59:59", None),
        ("30 2 * * *", 1, "2026-03-29T01:00:00", "2026-03-29T02:00"),
        # 02:30 exists twice: at the first one.
        ("30 2 * * *", 1, "2026-10-25T00:29:59", None),
        ("30 2 * * *", 1, "2026-10-25T00:30:00", "2026-10-25T01:30"),
        ("30 2 * * *", 1, "2026-10-25T01:15:00", "2026-10-25T01:30"),
        ("30 2 * * *", 1, "2026-10-25T01:30:00", None),
        ("30 2 * * *", 24, "2026-10-26T00:29:59", "2026-10-26T00:30"),
        ("30 2 * * *", 24, "2026-10-26T01:15:00", None),  # an hour longer than a day until the next one
        # Steps follow the clock: in both passes, and not at all in the hour that is left out.
        ("*/30 2 * * *", 0.25, "2026-10-25T01:35:00", "2026-10-25T01:45"),
        ("*/30 2 * * *", 0.25, "2026-03-29T01:05:00", None),
        # Windows that meet or overlap are one.
        ("0 9,12 * * *", 3, "2026-11-27T08:30:00", "2026-11-27T14:00"),
        ("0 9,11 * * *", 3, "2026-11-27T08:30:00", "2026-11-27T13:00"),
        ("@daily", 2, "2026-11-26T23:30:00", "2026-11-27T01:00"),
        ("0 0 1 * mon", 1, "2026-11-29T23:30:00", "2026-11-30T00:00"),  # either day, as in cron
        ("* * * * *", 1, "2026-11-27T08:30:00", "inf"),
    ],
)
def test_a_budget_is_active_for_its_duration_from_each_firing(
    schedule: str, hours: float, moment: str, want: str | None
) -> None:
    budget = NodeDisruptionBudget(nodes=0, schedule=schedule, duration=hours * 3600.0, time_zone="Europe/Berlin")
    wanted = None if want is None else inf if want == "inf" else at(want)
    assert budget.active_until(at(moment)) == wanted


def test_a_schedule_without_a_zone_is_in_utc_and_none_is_always() -> None:
    budget = NodeDisruptionBudget(nodes=0, schedule="0 9 * * *", duration=3600.0)
    assert budget.active_until(at("2026-07-01T09:30:00")) == at("2026-07-01T10:00")
    assert NodeDisruptionBudget(nodes=0).active_until(at("2026-07-01T09:30:00")) == inf


@pytest.mark.parametrize(
    ("schedule", "want"),
    [
        ("0 9 * * mon-fri", None),
        ("*/15 0-6 1,15 jan-mar 7", None),
        ("@weekly", None),
        ("0 9 * *", "4 fields"),
        ("0 0 9 * * *", "6 fields"),
        ("@reboot", "known short forms are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"),
        ("60 9 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 9 * * fri-mon", "bad day-of-week"),
        ("0 9 31 2 *", "bad day-of-month"),
        ("0 9 * 13 *", "bad month"),
        ("* * */20 * 1L", "it never fires"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_said(schedule: str, want: str | None) -> None:
    assert schedule_problem(schedule) == want


# --- the batch ------------------------------------------------------------------------------------------------------------


def held_texts(batch: RemovalBatch) -> set[str]:
    return {kept.detail for kept in batch.held if kept.unremovable_reason == "DisruptionBudgetReached"}


def test_a_batch_takes_as_many_as_the_budget_allows_and_says_which_holds_the_others() -> None:
    found = disruptions(NodeDisruptionBudget(nodes="25%"), nodes=10, removing=("gone",))
    batch = begun(a_plan(empty=1, full=4), disruptions={POOL: found})
    assert (len(batch.empty), len(batch.drains), batch.status) == (1, 1, "started")
    assert reasons(batch) == {"DisruptionBudgetReached": 3}
    want = "pool: 3 of 10 nodes are being removed or not ready, at most 3 may be (budget nodes=25%)"
    assert held_texts(batch) == {want}


def test_in_a_window_for_drains_empty_nodes_go() -> None:
    end = at("2026-11-27T16:00")
    found = replace(disruptions(), active=((NINE_TO_FIVE, end),))
    batch = begun(a_plan(empty=2, full=2), disruptions={POOL: found})
    assert (len(batch.empty), len(batch.drains)) == (2, 0)
    assert held_texts(batch) == {
        "pool: 2 of 10 nodes are being removed or not ready, at most 0 may be until 2026-11-27T17:00+01:00 "
        '(budget nodes=0 reasons=Underutilized schedule="0 9 * * mon-fri" duration=8h0m0s timeZone=Europe/Berlin)'
    }


def test_a_node_that_goes_does_not_show_as_held_and_one_that_has_to_wait_anyway_does() -> None:
    plan, found = a_plan(empty=3), {POOL: disruptions(NodeDisruptionBudget(nodes=0))}
    batch = begun(plan, after=1, disruptions=found)
    assert reasons(batch) == {"NotUnneededLongEnough": 3}
    assert len(over_budget(plan, batch, found)) == 3
    found = {POOL: disruptions(NodeDisruptionBudget(nodes=1))}
    batch = begun(plan, disruptions=found)
    assert (len(batch.empty), batch.status) == (1, "started")
    assert set(over_budget(plan, batch, found)) == {one.node for one in plan.removable} - set(batch.nodes)
    assert over_budget(plan, begun(plan), {}) == {}
    assert begun(plan, disruptions={POOL: disruptions(NodeDisruptionBudget(nodes=0))}).status == "throttled"


def test_a_group_that_goes_as_a_whole_counts_with_all_its_nodes() -> None:
    whole = GroupOptions(all_or_nothing=True)
    batch = begun(a_plan(empty=3), options=whole, disruptions={POOL: disruptions(NodeDisruptionBudget(nodes=2), nodes=3)})
    assert (batch.nodes, reasons(batch)) == ((), {"DisruptionBudgetReached": 3})
    assert all("3 go at once, at most 2 may be" in text for text in held_texts(batch))
    batch = begun(a_plan(empty=3), options=whole, disruptions={POOL: disruptions(NodeDisruptionBudget(nodes="100%"), nodes=3)})
    assert len(batch.nodes) == 3


def test_a_broken_node_goes_where_a_healthy_one_may_not() -> None:
    plan = a_plan(empty=2)
    healthy, broken = (one.node for one in plan.removable)
    removable = tuple(replace(one, ready=one.node == healthy, ripe_after_seconds=0.0) for one in plan.removable)
    found = disruptions(NodeDisruptionBudget(nodes=1), unready=(broken,))
    batch = begun(replace(plan, removable=removable), disruptions={POOL: found})
    assert batch.nodes == (broken,)
