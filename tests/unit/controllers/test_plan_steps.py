"""Limits count steps: the clock does not matter, every pod has its true reason, and a plan that was cut off goes on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUpPlan
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.ids import PodUid
from tests.support import installed
from tests.support.pools import Pools
from tests.support.scalingup import demand_of

POOLS = Pools()
UNTIMED = replace(installed.SCALE_UP, max_planning_time=0, plan_seconds=0.0)


def plan_of(
    steps: int,
    clock: Callable[[], float] = lambda: 0.0,
    *,
    upcoming: list[int] | None = None,
    cut_off: Mapping[PodUid, int] | None = None,
    seconds: float = 0.0,
) -> ScaleUpPlan:
    snapshot = POOLS.snapshot()
    policy = replace(UNTIMED, plan_steps=steps, plan_seconds=seconds)
    with snapshot.fork():
        demand = replace(demand_of(POOLS.pods), cut_off=cut_off or {})
        groups = POOLS.grown(upcoming or [0] * len(POOLS.groups))
        return plan_scale_up(snapshot, demand, groups, policy=policy, clock=clock)


@cache
def whole() -> ScaleUpPlan:
    plan = plan_of(0)
    assert plan.cut_by is None
    assert all((plan.schedulable, plan.scale_ups, plan.unhelpable))
    return plan


def reasons_of(plan: ScaleUpPlan) -> dict[PodUid, list[GroupRefusal | SkipReason]]:
    return {pod.uid: list(each.groups.values()) for each in plan.unhelpable for pod in each.pods}


def refused_for_good() -> dict[PodUid, list[GroupRefusal | SkipReason]]:
    static = {"TAINT_NOT_TOLERATED", "RESOURCES_SHORT", "RESOURCES_ABOVE_NODE"}
    return {
        uid: reasons
        for uid, reasons in reasons_of(whole()).items()
        if all(isinstance(why, GroupRefusal) and why.reason.name in static for why in reasons)
    }


@pytest.mark.parametrize("steps", [0, 10, 40])
def test_a_plan_is_the_same_with_any_clock(steps: int) -> None:
    random = Random(7)
    plans = [plan_of(steps, clock) for clock in (lambda: 0.0, lambda: random.uniform(-1e9, 1e9))]
    assert plans[0] == plans[1]
    assert plans[0].cut_by == ("steps" if steps else None)


@pytest.mark.parametrize("steps", [1, 10, 40, 60])
def test_every_pod_has_a_verdict_and_its_true_reason_with_few_steps(steps: int) -> None:
    plan, never = plan_of(steps), refused_for_good()
    placed = [pod.uid for pod, _ in plan.schedulable] + [pod.uid for each in plan.scale_ups for pod in each.pods]
    reasons = reasons_of(plan)
    assert sorted((*placed, *reasons)) == sorted(pod.uid for pod in POOLS.pods)
    assert len(never) > 20
    assert {uid: reasons[uid] for uid in never} == never
    cut = {pod.uid for each in plan.unhelpable if each.cut for pod in each.pods}
    assert cut
    assert cut.isdisjoint(never)


def test_plans_that_are_cut_off_reach_every_pod_in_the_end() -> None:
    upcoming, cut_off, judged, plans = [0] * len(POOLS.groups), dict[PodUid, int](), set[PodUid](), 0
    while len(judged) < len(POOLS.pods):
        plan = plan_of(30, upcoming=upcoming, cut_off=cut_off)
        cut = {pod.uid for each in plan.unhelpable if each.cut for pod in each.pods}
        cut_off = {uid: cut_off.get(uid, 0) + 1 for uid in cut}
        judged.update(pod.uid for pod in POOLS.pods if pod.uid not in cut)
        grown = {each.group: each.count for each in plan.scale_ups}
        upcoming = [now + grown.get(group.name, 0) for now, group in zip(upcoming, POOLS.groups, strict=True)]
        plans += 1
        assert plans < 30
    assert plans > 2
    assert sum(upcoming) <= 1.5 * whole().n_nodes


def test_the_time_limit_is_a_last_resort_that_says_so() -> None:
    seconds = iter(range(1_000))
    plan = plan_of(0, lambda: float(next(seconds)), seconds=5.0)
    assert plan.cut_by == "time"
    reasons = reasons_of(plan)
    assert {uid: reasons[uid] for uid in refused_for_good()} == refused_for_good()
    texts = {why.text for each in reasons.values() for why in each if isinstance(why, SkipReason)}
    assert texts == {"planning took too long: the next one goes on"}
