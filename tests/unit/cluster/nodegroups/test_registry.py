"""What the node group registry remembers of groups between loops, one rule at a time, with time as an argument."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import Delete, Grow, LowerTarget, NodeGroupPolicy, ScaleUpInfo
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName, GroupOptions, Instance, InstanceErrorKind, NodeGroup
from tests.support.builders import a_node
from tests.support.nodegroups import a_group, an_instance, observations

G = GroupName("g")
PROVISION_TIMEOUT = 900.0


def at(seconds: float) -> Instant:
    return Instant(seconds)


def many(count: int, *, state: str = "creating", tag: str = "") -> list[Instance]:
    return [an_instance(f"{tag}{number}", state=state) for number in range(count)]


def a_group_registry(*groups: NodeGroup, **policy: Any) -> NodeGroupRegistry:
    group_registry = NodeGroupRegistry(NodeGroupPolicy(**policy))
    group_registry.observe(groups, {}, at(0))
    return group_registry


def asked(scale_ups: Iterable[Grow]) -> list[tuple[str, int, int]]:
    return [(scale_up.group, scale_up.seen, scale_up.to) for scale_up in scale_ups]


# What is on its way


def test_nodes_count_as_coming_until_they_are_registered_and_as_starting_until_they_are_ready() -> None:
    group = a_group(target=5, instances=[an_instance("a"), an_instance("b"), an_instance("c", state="creating")])
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group_registry.observe([group], observations(started=["a"], half=["b"]), at(0))
    group_status = group_registry.group_status[G]
    assert (group_status.ready, group_status.starting, group_status.coming) == (("a",), ("b",), 3)
    assert group_status.upcoming == group_status.in_creation == 4


def test_a_node_that_was_ready_once_is_not_upcoming_again() -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group = a_group(instances=[an_instance("a")])
    group_registry.observe([group], observations(started=["a"]), at(0))
    group_registry.observe([group], observations(half=["a"]), at(10))
    assert (group_registry.group_status[G].unready, group_registry.group_status[G].upcoming) == (("a",), 0)


@pytest.mark.parametrize(("born", "used"), [(-PROVISION_TIMEOUT - 1, False), (-1.0, True)], ids=["old", "in use"])
def test_after_a_restart_an_old_or_used_node_is_not_taken_for_a_new_one(born: float, used: bool) -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group = a_group(instances=[an_instance("a")])
    group_registry.observe([group], observations(half=["a"], born=born, used=used), at(0))
    assert group_registry.group_status[G].unready == ("a",)
    group_registry.observe([group], observations(half=["a"], born=born, used=False), at(2 * PROVISION_TIMEOUT))
    assert group_registry.due_cleanups(at(2 * PROVISION_TIMEOUT)) == ()


def test_what_is_being_deleted_is_neither_there_nor_coming() -> None:
    group_registry = a_group_registry(a_group(instances=[an_instance("a", state="deleting")]))
    assert (group_registry.group_status[G].upcoming, group_registry.group_status[G].leaving) == (0, 1)


# Limits


def test_no_more_are_asked_for_than_may_be_on_their_way() -> None:
    group_registry = a_group_registry(a_group())
    granted = group_registry.grant([ScaleUpInfo(group=G, nodes=500)], at(0))
    assert asked(granted) == [("g", 0, 100)]
    assert [(queued.nodes, queued.waits_for) for queued in group_registry.queued] == [(400, "nodes in creation in the cluster")]


def test_as_nodes_become_ready_others_are_asked_for() -> None:
    group_registry = a_group_registry(a_group(instances=many(100)))
    assert group_registry.grant([ScaleUpInfo(group=G, nodes=400)], at(0)) == ()
    names = [str(number) for number in range(60)]
    group_registry.observe([a_group(instances=many(100, state="running"))], observations(started=names), at(10))
    assert asked(group_registry.grant([ScaleUpInfo(group=G, nodes=400)], at(10))) == [("g", 100, 160)]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        (NodeGroupPolicy(in_cluster=30), {"a": 30}),
        (NodeGroupPolicy(in_cluster=0, in_group={GroupName("a"): 10}, in_other_groups=20), {"a": 10, "b": 20}),
        (NodeGroupPolicy(in_cluster=0, in_other_groups=0), {"a": 40, "b": 40}),
    ],
    ids=["cluster", "group", "no limit"],
)
def test_the_limits_hold_for_the_cluster_and_the_group(policy: NodeGroupPolicy, want: dict[str, int]) -> None:
    group_registry = NodeGroupRegistry(policy)
    group_registry.observe([a_group("a"), a_group("b")], {}, at(0))
    wanted = [ScaleUpInfo(group=GroupName(name), nodes=40) for name in ("a", "b")]
    assert {scale_up.group: scale_up.nodes for scale_up in group_registry.grant(wanted, at(0))} == want


def test_more_important_growth_goes_first() -> None:
    group_registry = a_group_registry(a_group("a"), a_group("b"), in_cluster=50)
    wanted = [ScaleUpInfo(group=GroupName("a"), nodes=40, priority=1), ScaleUpInfo(group=GroupName("b"), nodes=40, priority=9)]
    assert asked(group_registry.grant(wanted, at(0))) == [("b", 0, 40), ("a", 0, 10)]


def test_two_scale_ups_of_one_group_are_one_call() -> None:
    group_registry = a_group_registry(a_group(max_size=60))
    wanted = [ScaleUpInfo(group=G, nodes=40, priority=1), ScaleUpInfo(group=G, nodes=40, priority=9)]
    granted = group_registry.grant(wanted, at(0))
    assert [(g.seen, g.to) for g in granted] == [(0, 60)]
    assert [(queued.nodes, queued.waits_for) for queued in group_registry.queued] == [(20, "the group's maximum size")]


def test_a_group_that_grows_as_a_whole_is_not_grown_in_part() -> None:
    group_registry = a_group_registry(a_group(options=GroupOptions(all_or_nothing=True)), in_cluster=5)
    granted = group_registry.grant([ScaleUpInfo(group=G, nodes=8)], at(0))
    assert granted == ()
    assert group_registry.queued[0].waits_for.startswith("nodes in creation in the cluster")


def test_a_group_that_is_switched_off_is_left_as_it_is() -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy(off=frozenset({G})))
    group_registry.observe([a_group(instances=[an_instance("x", state="creating", error="other")])], {}, at(0))
    assert group_registry.due_cleanups(at(0)) == ()
    assert group_registry.grant([ScaleUpInfo(group=G, nodes=1)], at(0)) == ()
    assert group_registry.group_status[G].closed(at(0)) == "switched off"


# Failures


def test_failed_instances_are_deleted_and_a_few_of_them_are_no_reason_to_stop() -> None:
    group_registry = a_group_registry(a_group())
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=G, nodes=100)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, None, "", at(0))
    failed = [an_instance(f"bad{number}", state="creating", error="other") for number in range(5)]
    group_registry.observe([a_group(instances=[*many(95), *failed])], {}, at(1))
    (cleanup,) = group_registry.due_cleanups(at(1))
    assert isinstance(cleanup, Delete)
    assert {lost.instance.id for lost in cleanup.lost} == {instance.id for instance in failed}
    assert (group_registry.group_status[G].in_creation, group_registry.group_status[G].upcoming) == (95, 100)
    assert group_registry.group_status[G].closed(at(1)) is None
    group_registry.observe([a_group(instances=many(95))], {}, at(2))
    assert group_registry.group_status[G].upcoming == 95, "deleted: to be replaced"


@pytest.mark.parametrize("kind", ["out-of-resources", "quota"])
def test_a_stock_out_closes_the_group_for_a_while(kind: InstanceErrorKind) -> None:
    group_registry = a_group_registry(a_group())
    group_registry.observe([a_group(instances=[*many(9), an_instance("x", state="creating", error=kind)])], {}, at(1))
    assert group_registry.group_status[G].closed(at(2)) == f"backing off after: E-{kind}"
    group_registry.observe([a_group(instances=many(9))], {}, at(2))
    assert group_registry.group_status[G].upcoming == 9
    assert group_registry.group_status[G].closed(at(302)) is None


def test_one_failure_after_another_closes_the_group_and_each_time_for_longer() -> None:
    group_registry, now = a_group_registry(a_group()), 0.0
    closed_for = []
    for number in range(6):
        (scale_up,) = group_registry.grant([ScaleUpInfo(group=G, nodes=1)], at(now))
        group_registry.grow_begun(scale_up, at(now))
        group_registry.grow_ended(scale_up, None, "", at(now))
        group_registry.observe(
            [a_group(instances=[an_instance(f"x{number}", state="creating", error="other")])], {}, at(now + 1)
        )
        group_registry.observe([a_group()], {}, at(now + 2))  # deleted
        backoff = group_registry.group_status[G].backoff
        closed_for.append(0.0 if backoff is None else backoff.seconds)
        now = max(now + 10, 0.0 if backoff is None else backoff.until)
    assert closed_for == [0, 300, 600, 1200, 1800, 1800]


def broken(count: int) -> list[Instance]:
    return [an_instance(f"bad{number}", state="creating", error="other") for number in range(count)]


@pytest.mark.parametrize(
    ("target", "least", "most", "want"), [(5, 3, 9, (2, False)), (5, 0, 9, (4, False)), (3, 3, 9, None), (3, 3, 3, (1, True))]
)
def test_no_cleanup_takes_a_group_below_its_minimum(target: int, least: int, most: int, want: tuple[int, bool] | None) -> None:
    """One machine of the target is well. At the minimum a group grows first; where it cannot, machines are replaced."""
    group = replace(a_group(instances=[an_instance("fine"), *broken(target - 1)]), min_size=least, max_size=most)
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group_registry.observe([group], observations(started=["fine"]), at(0))
    backed_off = group_registry.due_cleanups(at(0))
    cleanups = group_registry.due_cleanups(at(301))
    assert [(len(one.lost), one.replace) for one in cleanups if isinstance(one, Delete)] == ([] if want is None else [want])
    assert backed_off == (() if want == (1, True) else cleanups), "a replacement is a growth"
    group_registry.observe([group], observations(started=["fine"]), at(301))
    assert group_registry.group_status[G].dead == target - 1


def test_a_lost_machine_that_cannot_be_deleted_is_tried_more_and_more_rarely() -> None:
    bad = a_group(instances=broken(2))
    group_registry = a_group_registry(bad)
    tried = []
    for now in range(0, 8000, 10):
        group_registry.observe([bad], {}, at(now))
        for cleanup in group_registry.due_cleanups(at(now)):
            assert isinstance(cleanup, Delete)
            if any(lost.instance.id == bad.instances[0].id for lost in cleanup.lost):
                tried.append(now)
                group_registry.lost_not_deleted(G, bad.instances[0].id, "it has a lock", at(now))
    assert tried == [0, 300, 900, 2100, 4500]
    assert [len(one.lost) for one in group_registry.due_cleanups(at(8000)) if isinstance(one, Delete)] == [1], "the other"


def test_refused_deletions_let_the_group_wait_longer_each_time_until_one_succeeds() -> None:
    def why(now: float) -> str | None:
        return group_registry.cooling(G, at(now), after_add=0, after_delete=0, after_failure=0)

    group_registry = a_group_registry(a_group(instances=many(3)))
    assert not group_registry.last_deletion_refused(G)
    for refused_at, seconds in ((0, 300), (300, 600), (900, 1200), (2100, 2400)):
        group_registry.deletion_refused(G, "n1: it is locked", at(refused_at))
        assert why(refused_at) == f"a deletion was refused: n1: it is locked; tried again in {seconds} s"
        assert why(refused_at + seconds) is None
        assert group_registry.last_deletion_refused(G)
    group_registry.deleted(G, at(5000), ok=True)
    assert not group_registry.last_deletion_refused(G)
    group_registry.deletion_refused(G, "n2: it is locked", at(5001))
    assert why(5301) is None


def test_the_target_is_not_lowered_below_the_minimum() -> None:
    group = a_group(target=4, instances=[an_instance("fine")])
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    late = at(2 * PROVISION_TIMEOUT)
    for now in (at(0), late):
        group_registry.observe([replace(group, min_size=3)], observations(started=["fine"]), now)
    assert group_registry.due_cleanups(late) == (LowerTarget(group=G, provider=group.provider, seen=4, to=3),)
    group_registry.observe([replace(group, min_size=4)], observations(started=["fine"]), late)
    assert group_registry.due_cleanups(late) == ()
    assert group_registry.group_status[G].dead == 3, "growth brings the group to four that are there"


def test_a_failure_is_counted_once_however_long_its_deletion_takes() -> None:
    group_registry = a_group_registry(a_group())
    group = a_group(instances=[an_instance("x", state="creating", error="quota")])
    group_registry.observe([group], {}, at(1))
    group_registry.observe([group], {}, at(250))
    assert group_registry.group_status[G].closed(at(302)) is None


def test_an_instance_that_never_registers_is_deleted_and_still_counts_against_the_limit() -> None:
    group_registry = a_group_registry(a_group(instances=[an_instance("x")]))
    group_registry.observe([a_group(instances=[an_instance("x")])], {}, at(PROVISION_TIMEOUT + 1))
    (cleanup,) = group_registry.due_cleanups(at(PROVISION_TIMEOUT + 1))
    assert isinstance(cleanup, Delete)
    assert (cleanup.lost[0].code, group_registry.group_status[G].in_creation) == ("timeout", 1)


def test_a_lost_machine_whose_deletion_fails_is_replaced_after_a_while() -> None:
    group_registry = a_group_registry(a_group())
    failed = a_group(instances=[an_instance("x", state="creating", error="other")])
    group_registry.observe([failed], {}, at(1))
    group_registry.observe([failed], {}, at(60))
    assert group_registry.group_status[G].upcoming == 1
    group_registry.observe([failed], {}, at(61))
    assert group_registry.group_status[G].upcoming == 0
    assert len(group_registry.due_cleanups(at(61))) == 1


def test_a_node_that_registers_and_is_never_ready_is_deleted() -> None:
    group = a_group(instances=[an_instance("x")])
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group_registry.observe([group], observations(half=["x"], born=5.0), at(6))
    group_registry.observe([group], observations(half=["x"], born=5.0), at(PROVISION_TIMEOUT))
    assert group_registry.due_cleanups(at(PROVISION_TIMEOUT)) == ()
    group_registry.observe([group], observations(half=["x"], born=5.0), at(PROVISION_TIMEOUT + 6))
    assert [type(cleanup) for cleanup in group_registry.due_cleanups(at(PROVISION_TIMEOUT + 6))] == [Delete]


def test_a_provider_may_be_more_patient() -> None:
    group = a_group(instances=[an_instance("x")], options=GroupOptions(provision_seconds=5000.0))
    group_registry = a_group_registry(group)
    group_registry.observe([group], {}, at(4000))
    assert group_registry.due_cleanups(at(4000)) == ()


def test_growth_that_never_appears_is_given_up() -> None:
    group_registry = a_group_registry(a_group(target=3, instances=[an_instance("a")]))
    seen = observations(started=["a"])
    group_registry.observe([a_group(target=3, instances=[an_instance("a")])], seen, at(PROVISION_TIMEOUT + 1))
    assert group_registry.due_cleanups(at(PROVISION_TIMEOUT + 1)) == (LowerTarget(group=G, provider="cloud", seen=3, to=1),)
    assert group_registry.group_status[G].closed(at(PROVISION_TIMEOUT + 1)) == "backing off after: timeout"


# Calls


def test_a_refused_call_closes_the_group_and_another_one_may_grow() -> None:
    group_registry = a_group_registry(a_group("a"), a_group("b"))
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=GroupName("a"), nodes=5)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, "out-of-resources", "none left", at(1))
    group_registry.observe([a_group("a"), a_group("b")], {}, at(2))
    assert group_registry.group_status[GroupName("a")].closed(at(2)) == "backing off after: out-of-resources"
    assert group_registry.group_status[GroupName("b")].closed(at(2)) is None


@pytest.mark.parametrize("kind", ["conflict", "limit"])
def test_a_call_that_came_from_an_old_state_is_no_failure(kind: str) -> None:
    group_registry = a_group_registry(a_group())
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=G, nodes=5)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, kind, "", at(1))
    group_registry.observe([a_group(target=5)], {}, at(2))
    assert group_registry.group_status[G].closed(at(2)) is None


def test_a_growth_without_an_answer_counts_and_is_asked_for_again_at_the_same_size() -> None:
    group_registry = a_group_registry(a_group())
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=G, nodes=5)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, "unknown", "", at(5))
    group_registry.observe([a_group()], {}, at(10))
    assert group_registry.group_status[G].upcoming == 5
    granted = group_registry.grant([ScaleUpInfo(group=G, nodes=7)], at(10))
    assert asked(granted) == [("g", 0, 5)]
    assert group_registry.queued[0].waits_for == "a growth of it was not answered yet"

    group_registry.observe([a_group(target=5)], {}, at(20))
    assert group_registry.group_status[G].upcoming == 5
    assert asked(group_registry.grant([ScaleUpInfo(group=G, nodes=2)], at(20))) == [("g", 5, 7)]


def test_a_growth_that_is_never_answered_closes_the_group_in_the_end() -> None:
    group_registry = a_group_registry(a_group())
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=G, nodes=5)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, "unknown", "", at(5))
    group_registry.observe([a_group()], {}, at(61))
    assert group_registry.group_status[G].upcoming == 0
    assert group_registry.group_status[G].closed(at(61)) == "backing off after: no-answer"


def test_what_a_silent_provider_was_to_bring_is_still_expected() -> None:
    group_registry = a_group_registry(a_group("a", target=3), a_group("b", provider="other"))
    group_registry.observe([a_group("b", provider="other")], {}, at(10), silent=["cloud"])
    assert group_registry.group_status[GroupName("a")].upcoming == 3
    assert group_registry.group_status[GroupName("a")].closed(at(10)) == "its provider does not answer"
    group_registry.observe([a_group("a", target=3), a_group("b", provider="other")], {}, at(20))
    assert group_registry.group_status[GroupName("a")].closed(at(20)) is None


def test_a_group_that_cannot_be_read_keeps_what_was_known_of_it_and_is_not_changed() -> None:
    odd = replace(a_group("a"), unreadable="it is odd")
    group_registry = a_group_registry(a_group("a", target=3), a_group("b"))
    group_registry.observe([odd, a_group("b")], {}, at(10))
    status = group_registry.group_status[GroupName("a")]
    assert (status.upcoming, status.known, status.answered, status.group.target) == (3, False, True, 3)
    assert status.closed(at(10)) == "it cannot be read: it is odd"
    infos = [ScaleUpInfo(group=GroupName(name), nodes=1) for name in "ab"]
    assert asked(group_registry.grant(infos, at(10))) == [("b", 0, 1)]
    group_registry.observe([odd, a_group("b")], {}, at(5000))
    assert group_registry.due_cleanups(at(5000)) == ()
    group_registry.observe([a_group("a", target=3), a_group("b")], {}, at(5010))
    assert group_registry.group_status[GroupName("a")].known


def test_a_group_that_could_never_be_read_shows_its_nodes_and_is_not_changed() -> None:
    there = [an_instance("n"), an_instance("m", state="creating")]
    odd = replace(a_group("a", instances=there), unreadable="it is odd")
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    for seconds in (0, 5000):
        group_registry.observe([odd], observations(started=["n"]), at(seconds))
        status = group_registry.group_status[GroupName("a")]
        assert (status.ready, status.known, group_registry.due_cleanups(at(seconds))) == (("n",), False, ())


def test_a_readable_group_counts_more_than_another_of_its_name() -> None:
    odd = replace(a_group("a", provider="other"), unreadable="it is odd")
    for groups in ([odd, a_group("a")], [a_group("a"), odd]):
        group_registry = NodeGroupRegistry(NodeGroupPolicy())
        group_registry.observe(groups, {}, at(0))
        assert group_registry.group_status[GroupName("a")].known


def test_a_group_that_is_gone_is_forgotten() -> None:
    group_registry = a_group_registry(a_group("a"), a_group("b"))
    group_registry.observe([a_group("b")], {}, at(1))
    assert list(group_registry.group_status) == ["b"]


# Cool-downs


def test_cool_downs_are_a_groups_own() -> None:
    group_registry = a_group_registry(a_group("a"), a_group("b"))
    (scale_up,) = group_registry.grant([ScaleUpInfo(group=GroupName("a"), nodes=5)], at(0))
    group_registry.grow_begun(scale_up, at(0))
    group_registry.grow_ended(scale_up, None, "", at(0))
    group_registry.deleted(GroupName("b"), at(100), ok=False)

    def cooling(name: str, now: float) -> str | None:
        return group_registry.cooling(GroupName(name), at(now), after_add=600, after_delete=0, after_failure=180)

    assert cooling("a", 100) == "it has grown 100 s ago"
    assert cooling("a", 600) is None
    assert cooling("b", 101) == "a removal failed 1 s ago"
    assert cooling("b", 280) is None


def test_nodes_that_are_never_created_hold_no_place_for_ever_though_the_provider_will_not_lower_the_size() -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group = a_group(target=100)
    group_registry.observe([group], {}, at(0))
    assert group_registry.group_status[G].in_creation == 100
    group_registry.observe([group], {}, at(PROVISION_TIMEOUT + 1))
    (lower,) = group_registry.due_cleanups(at(PROVISION_TIMEOUT + 1))
    assert isinstance(lower, LowerTarget)
    assert (lower.seen, lower.to) == (100, 0)
    group_registry.observe([group], {}, at(PROVISION_TIMEOUT + 61))
    group_status = group_registry.group_status[G]
    assert (group_status.in_creation, group_status.upcoming, group_status.stuck) == (0, 0, 100)


def test_a_steady_stream_of_new_nodes_is_no_group_that_never_creates_any() -> None:
    """Two are always missing, each for a few seconds only."""
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    for turn in range(100):
        now = at(10.0 * turn)
        group_registry.observe([a_group(target=2 * turn + 2, instances=many(2 * turn, state="running"))], {}, now)
        assert group_registry.group_status[G].missing == 2
        assert not [cleanup for cleanup in group_registry.due_cleanups(now) if isinstance(cleanup, LowerTarget)]


def test_only_those_that_are_overdue_are_given_up() -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy())
    group_registry.observe([a_group(target=4)], {}, at(0))
    group_registry.observe([a_group(target=9)], {}, at(PROVISION_TIMEOUT - 10))
    group_registry.observe([a_group(target=9)], {}, at(PROVISION_TIMEOUT + 1))
    (lower,) = group_registry.due_cleanups(at(PROVISION_TIMEOUT + 1))
    assert isinstance(lower, LowerTarget)
    assert (lower.seen, lower.to) == (9, 5)


def test_a_lost_machine_takes_no_place_of_other_groups_and_for_a_while_one_of_its_own() -> None:
    group_registry = NodeGroupRegistry(NodeGroupPolicy(in_cluster=10, in_other_groups=10))
    groups = [a_group("a", instances=many(10, state="running")), a_group("b")]
    for now in (0.0, PROVISION_TIMEOUT + 1):
        group_registry.observe(groups, {}, at(now))
    assert (group_registry.group_status[GroupName("a")].in_time, group_registry.group_status[GroupName("a")].in_creation) == (
        0,
        10,
    )
    wanted = [ScaleUpInfo(group=GroupName("b"), nodes=10)]
    assert [(scale_up.group, scale_up.nodes) for scale_up in group_registry.grant(wanted, at(PROVISION_TIMEOUT + 1))] == [
        ("b", 10)
    ]
    group_registry.observe(groups, {}, at(PROVISION_TIMEOUT + 62))
    assert group_registry.group_status[GroupName("a")].in_creation == 0


# Whose group it is


@pytest.mark.parametrize(
    ("held_by", "handed_over", "want"),
    [
        (None, (), "its nodes are of Karpenter's NodePool p, and autoscaler.handedOver does not name the group"),
        (None, ("g",), ""),
        (None, None, ""),
        ("", (), ""),
        ("Karpenter's", (), "Karpenter's"),
        ("Karpenter's", ("g",), "Karpenter's"),
        ("Karpenter's", None, ""),
    ],
)
def test_what_the_provider_knows_of_another_autoscaler_counts_more_than_labels_and_names(
    held_by: str | None, handed_over: tuple[str, ...] | None, want: str
) -> None:
    """A shadow (None) plans as if all were handed over."""
    names = None if handed_over is None else frozenset(map(GroupName, handed_over))
    group_registry = NodeGroupRegistry(NodeGroupPolicy(handed_over=names))
    template = a_node("template", labels={"karpenter.sh/nodepool": "p"})
    group_registry.observe([replace(a_group(), held_by=held_by, template=template)], {}, at(0))
    assert (group_registry.group_status[G].owner, group_registry.group_status[G].closed(at(0)) or "") == (want, want)
