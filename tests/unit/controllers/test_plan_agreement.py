"""A node goes once every plan of the planned time had it go, and none of them came to save much more."""

from collections.abc import Mapping

from slackwater.controllers.consolidation.agreement import Agreement
from slackwater.controllers.consolidation.outcome import ConsolidationMove, ConsolidationPlan, LeavingNode
from slackwater.model.disruption_budgets import DisruptionReason
from slackwater.model.ids import Instant, NodeName
from slackwater.model.nodegroups import GroupName

WAIT = 15.0


def a_plan(saved: Mapping[str, int], reason: DisruptionReason = "Underutilized") -> ConsolidationPlan:
    """Each of these nodes goes and saves so much of 100."""
    moves = tuple(
        ConsolidationMove(
            leaving=(LeavingNode(NodeName(name), GroupName("a"), micros),),
            coming=(),
            pods=(),
            after=(),
            reason=reason,
            saved=micros,
            disruption=1.0,
            ratio=1.0,
            moving_cost=0,
            risky=False,
        )
        for name, micros in saved.items()
    )
    return ConsolidationPlan(moves=moves, cost=100)


def going(*plans: tuple[float, ConsolidationPlan]) -> list[str]:
    """The nodes that may go after these plans, each made at a time."""
    agreement = Agreement()
    for at, plan in plans:
        agreement.note(plan, Instant(at))
    at, plan = plans[-1]
    ripe_at = agreement.ripe_at(plan, WAIT)
    return [each.name for move in plan.moves for each in move.leaving if ripe_at[each.name] <= at]


def test_a_node_goes_once_every_plan_of_the_planned_time_has_it_go() -> None:
    plan = a_plan({"n1": 5})
    assert going((0.0, plan), (14.0, plan)) == []
    assert going((0.0, plan), (15.0, plan)) == ["n1"]
    assert going((0.0, plan), (10.0, a_plan({})), (15.0, plan)) == []


def test_while_plans_come_to_save_more_none_goes() -> None:
    first, more = a_plan({"n1": 5}), a_plan({"n1": 5, "n2": 5})
    assert going((0.0, first), (10.0, more), (20.0, more)) == []
    assert going((0.0, first), (10.0, more), (25.0, more)) == ["n1", "n2"]


def test_a_little_more_delays_nothing_and_neither_does_less() -> None:
    assert going((0.0, a_plan({"n1": 5})), (15.0, a_plan({"n1": 5, "n2": 1}))) == ["n1"]
    assert going((0.0, a_plan({"n1": 5, "n2": 9})), (15.0, a_plan({"n1": 5}))) == ["n1"]


def test_a_node_does_not_wait_for_ever() -> None:
    plans = [(10.0 * at, a_plan({"n1": 5, f"n{at + 2}": 5 * at})) for at in range(7)]
    assert going(*plans[:6]) == []
    assert going(*plans) == ["n1"]


def test_nodes_that_are_due_go_whatever_other_plans_save() -> None:
    first, more = a_plan({"n1": -5}, "Drifted"), a_plan({"n2": 50})
    both = ConsolidationPlan(moves=(*first.moves, *more.moves), cost=100)
    assert going((0.0, first), (10.0, both), (20.0, both)) == ["n1"]
