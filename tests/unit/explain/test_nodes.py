"""What a person learns of a node that is still there."""

import math
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.policy import GroupPolicy
from slackwater.explain.nodes import NodeContext, explain_node
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import BudgetRule, Pod
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.builders import a_budget, a_node, a_pod
from tests.support.explaining import StatusSources
from tests.support.scalingup import a_group

OWNED = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))
N1 = NodeName("n1")
POOL = GroupName("pool")


def owned(name: str, on: str, **more: Any) -> Pod:
    return structs.replace(a_pod(name, on=on, **more), eviction_facts=OWNED)


def a_pool(*running_pods: Pod, smallest: int = 0, **more: Any) -> StatusSources:
    nodes = tuple(structs.replace(a_node(f"n{number}"), scalars=(("pods", 110),)) for number in (1, 2, 3))
    group = a_group(POOL, size=3, smallest=smallest)
    return StatusSources(nodes=nodes, running_pods=running_pods, groups=(group,), pool=POOL, **more)


def test_a_budget_without_slack_is_named_and_one_more_replica_helps() -> None:
    reported = a_pool(
        owned("web-1", "n1", labels={"app": "web"}),
        owned("web-2", "n1", labels={"app": "web"}),
        budgets=(a_budget("web", allowed=0, app="web"),),
    )
    answer = explain_node(reported.explain_input(), N1)
    (reason,) = answer.reasons
    assert reason.code == "NotEnoughPdb"
    assert reason.objects == ("PodDisruptionBudget default/web", "pod default/web-1", "pod default/web-2")
    words = "one more ready replica of ReplicaSet default/web, so that PodDisruptionBudget default/web allows a disruption"
    assert [remedy.change for remedy in answer.remedies] == [words]


@pytest.mark.parametrize(
    ("rule", "lacking", "words"),
    [
        ((0, False, True), 0, "raise maxUnavailable of {} above 0"),
        ((0, True, True), 0, "raise maxUnavailable of {} above 0%"),
        ((100, True, False), 0, "lower minAvailable of {} from 100%, so that it allows a disruption"),
        (
            (99, True, False),
            1,
            "lower minAvailable of {} from 99%, or add replicas of ReplicaSet default/web, so that it allows a disruption",
        ),
        ((4, False, False), 2, "3 more ready replicas of ReplicaSet default/web, so that {} allows a disruption"),
        ((1, False, True), 0, "one more ready replica of ReplicaSet default/web, so that {} allows a disruption"),
    ],
)
def test_what_a_budget_needs_follows_from_its_rule(rule: tuple[int, bool, bool], lacking: int, words: str) -> None:
    """Replicas help no budget that allows no disruption of any number of pods."""
    amount, percent, unavailable = rule
    budget = structs.replace(
        a_budget("web", allowed=0, app="web"),
        rule=BudgetRule(amount=amount, percent=percent, unavailable=unavailable),
        lacking=lacking,
    )
    reported = a_pool(owned("web-1", "n1", labels={"app": "web"}), budgets=(budget,))
    answer = explain_node(reported.explain_input(), N1)
    assert [remedy.change for remedy in answer.remedies] == [words.format("PodDisruptionBudget default/web")]


def test_of_several_budgets_all_but_one_have_to_go() -> None:
    budgets = tuple(a_budget(name, allowed=5, app="web") for name in ("own", "more", "most"))
    reported = a_pool(owned("web-1", "n1", labels={"app": "web"}), budgets=budgets)
    answer = explain_node(reported.explain_input(), N1)
    (reason,) = answer.reasons
    assert (reason.code, reason.objects[0]) == ("MultiplePdbs", "PodDisruptionBudget default/own")
    assert [remedy.change for remedy in answer.remedies] == [
        f"delete PodDisruptionBudget default/{first} and PodDisruptionBudget default/{second}"
        for first, second in (("more", "most"), ("own", "most"), ("own", "more"))
    ]


def test_a_pod_that_must_not_be_disrupted_is_named_with_what_protects_it() -> None:
    protected = structs.replace(owned("job", "n1"), eviction_facts=replace(OWNED, do_not_disrupt=math.inf))
    answer = explain_node(a_pool(protected).explain_input(), N1)
    (reason,) = answer.reasons
    assert (reason.code, reason.objects) == ("DoNotDisruptAnnotation", ("pod default/job", "ReplicaSet default/web"))
    assert [remedy.change for remedy in answer.remedies] == [
        "remove annotation karpenter.sh/do-not-disrupt from pod default/job",
        "delete pod default/job from node n1",
    ]


def test_every_unremovable_reason_is_in_the_minimal_set() -> None:
    reported = a_pool(
        a_pod("bare", on="n1", cpu="3"), smallest=3, scale_down=replace(installed.SCALE_DOWN, utilization_threshold=0.5)
    )
    answer = explain_node(reported.explain_input(), N1)
    assert [reason.code for reason in answer.reasons] == ["NotUnderutilized", "NodeGroupMinSizeReached", "NotReplicated"]
    (found,) = answer.minimal
    assert len(found.blockers) == 3
    assert list(found.remedy.changes) == [
        "raise the utilization threshold of group pool from 0.5 to 0.75",
        "lower min of group pool from 3 to 2",
        "annotate pod default/bare with cluster-autoscaler.kubernetes.io/safe-to-evict: true",
    ]
    assert len(answer.remedies) == 1


def test_every_setting_that_keeps_a_node_is_reported() -> None:
    unready = structs.replace(a_node("n1"), ready=False, keep="example.com/keep")
    off = replace(installed.SCALE_DOWN, unready_enabled=False, groups={POOL: GroupPolicy(enabled=False)})
    reported = replace(a_pool(scale_down=off), nodes=(unready, a_node("n2")))
    answer = explain_node(reported.explain_input(), N1)
    want = ["ScaleDownDisabledForGroup", "ScaleDownDisabledAnnotation", "ScaleDownUnreadyDisabled"]
    assert [reason.code for reason in answer.reasons] == want


def test_a_pod_that_fits_nowhere_else_is_reported_with_its_reason() -> None:
    reported = a_pool(
        owned("big", "n1", cpu="1500m"), owned("x", "n2", cpu="3"), owned("y", "n3", cpu="2750m"),
        scale_down=replace(installed.SCALE_DOWN, utilization_threshold=0.9),
    )  # fmt: skip
    answer = explain_node(reported.explain_input(), N1)
    (reason,) = answer.reasons
    assert (reason.code, reason.objects, reason.short) == ("NoPlaceToMovePods", ("pod default/big",), {"milliCPU": 250})
    assert [remedy.change for remedy in answer.remedies] == [
        "lower the request of pod default/big for cpu by 250m, from 1500m to 1250m"
    ]


def test_a_node_that_can_go_says_what_it_waits_for() -> None:
    word = NodeContext(unneeded_seconds=12.0, waits=[(UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, "12 s, more than 600 s")])
    answer = explain_node(a_pool(owned("web", "n1")).explain_input(), N1, word)
    assert answer.state == "removable"
    assert [reason.code for reason in answer.reasons] == ["NotUnneededLongEnough", "removable"]
    assert answer.facts["unneededSeconds"] == 12.0


def test_a_node_of_no_group_has_no_remedy() -> None:
    reported = replace(a_pool(owned("web", "n1")), pool=None)
    answer = explain_node(reported.explain_input(), N1)
    assert [reason.code for reason in answer.reasons] == ["NotAutoscaled"]
    assert answer.remedies == ()


def test_a_removal_under_way_is_reported() -> None:
    answer = explain_node(a_pool().explain_input(), N1, NodeContext(begun="evicting"))
    assert (answer.state, answer.reasons[0].detail) == ("leaving", "evicting")


def test_of_a_removable_node_it_is_said_where_its_pods_would_go() -> None:
    reported = a_pool(owned("web-1", "n1"), owned("web-2", "n1"))
    answer = explain_node(reported.explain_input(), N1)
    assert answer.state == "removable"
    assert {move["pod"] for move in answer.facts["moves"]} == {"default/web-1", "default/web-2"}
    assert {move["node"] for move in answer.facts["moves"]} <= {"n2", "n3"}
    assert explain_node(reported.explain_input(), NodeName("n2")).facts["moves"] == []


def test_what_removing_a_node_would_do_is_said_although_it_has_to_stay() -> None:
    """Somebody may remove it all the same: a pod without a controller would be lost, others would move."""
    facts = explain_node(a_pool(a_pod("bare", on="n1"), owned("web-1", "n1")).explain_input(), N1).facts
    assert (facts["lost"], [move["pod"] for move in facts["moves"]]) == (["default/bare"], ["default/web-1"])
    full = tuple(a_pod(f"full-{n}", on=f"n{n}", cpu="4") for n in (2, 3))
    assert "moves" not in explain_node(a_pool(owned("web-1", "n1"), *full).explain_input(), N1).facts, "it finds no place"


def test_with_consolidation_a_node_in_use_is_left_to_it_and_its_threshold_says_nothing() -> None:
    scale_down = replace(installed.SCALE_DOWN, only_empty=True)
    reported = a_pool(owned("web-1", "n1", cpu="3"), scale_down=scale_down)
    planned = (UnremovableReason.LEFT_TO_CONSOLIDATION, "plans replace it since 60 s; that begins after 600 s")
    answer = explain_node(reported.explain_input(), N1, NodeContext(waits=(planned,)))
    assert [(reason.code, reason.detail) for reason in answer.reasons] == [
        ("LeftToConsolidation", "plans replace it since 60 s; that begins after 600 s"),
    ]
    assert (answer.state, answer.remedies) == ("needed", ())
    assert [reason.code for reason in explain_node(reported.explain_input(), N1).reasons] == ["LeftToConsolidation"]
    assert explain_node(reported.explain_input(), NodeName("n2")).state == "removable"


@pytest.mark.parametrize("full", [False, True], ids=["room elsewhere", "no room elsewhere"])
def test_with_consolidation_a_remedy_is_what_lets_a_plan_replace_the_node(*, full: bool) -> None:
    """A plan brings new nodes, so a lack of room on the others is no obstacle."""
    scale_down = replace(installed.SCALE_DOWN, only_empty=True)
    others = tuple(a_pod(f"full-{n}", on=f"n{n}", cpu="4") for n in (2, 3)) if full else ()
    reported = a_pool(a_pod("bare", on="n1"), owned("web-1", "n1"), *others, scale_down=scale_down)
    answer = explain_node(reported.explain_input(), N1)
    assert [remedy.change for remedy in answer.remedies] == [
        "annotate pod default/bare with cluster-autoscaler.kubernetes.io/safe-to-evict: true",
        "delete pod default/bare from node n1",
    ]
