"""Which pods wait to be nominated, in which order, and how fast they are nominated."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from slackwater.controllers.nomination.aimd_window import NominationWindow, WindowPolicy
from slackwater.controllers.nomination.backlog import Backlog, Eligibility
from slackwater.controllers.nomination.state import SchedulerActivity
from slackwater.model.changes import PodChange
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import ClaimMount, ClaimUse, PodConstraints, PodTerm
from slackwater_protocol.names import GATE
from tests.support.builders import a_pod
from tests.support.containers import sizes

OURS = Eligibility(scheduler_name="slackwater")
POLICY = WindowPolicy(most=64, max_miss_share=0.2, slow_seconds=1.0)
T0 = Instant(100.0)


def a_backlog() -> Backlog:
    """Pods have their turn in the order in which they are first asked about."""
    turns: dict[PodUid, int] = {}
    return Backlog(OURS.nominated, lambda uid: turns.setdefault(uid, len(turns)))


def seen(*pods: Pod) -> list[PodChange]:
    return [PodChange(pod.uid, pod) for pod in pods]


def names(pods: list[Pod]) -> list[str]:
    return [pod.key.name for pod in pods]


def asking(pod: Pod, **asks: Any) -> Pod:
    return replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(**asks)))


def test_the_more_important_pod_comes_first_and_of_equals_the_older_one() -> None:
    backlog = a_backlog()
    backlog.take(seen(a_pod("b"), a_pod("a"), a_pod("high", priority=10)))
    backlog.take(seen(a_pod("c")))

    assert names(backlog.some(2, T0)) == ["high", "b"]
    assert names(backlog.some(10, T0)) == ["a", "c"]
    assert backlog.some(10, T0) == []


def test_a_pod_that_changed_keeps_its_turn_and_one_that_went_has_none() -> None:
    backlog = a_backlog()
    backlog.take(seen(a_pod("a"), a_pod("b"), a_pod("c")))
    backlog.take(seen(a_pod("a", labels={"new": "one"})))
    backlog.take([PodChange(a_pod("b").uid, None)])

    found = backlog.some(10, T0)
    assert names(found) == ["a", "c"]
    assert found[0].labels == (("new", "one"),)


def test_a_pod_that_left_and_came_back_is_taken_once() -> None:
    backlog = a_backlog()
    backlog.take(seen(a_pod("a")))
    backlog.discard(a_pod("a").uid)
    backlog.take(seen(a_pod("b"), a_pod("a")))
    assert names(backlog.some(10, T0)) == ["a", "b"]


def test_pods_that_fit_nowhere_come_back_after_a_back_off_that_grows_until_a_pod_is_placed() -> None:
    backlog, pod, now = a_backlog(), a_pod("a"), T0
    backlog.take(seen(pod))
    rests = []
    for _ in range(7):
        backlog.park(backlog.some(10, now), now)
        began = now
        while not backlog.due(now):
            assert backlog.some(10, now) == []
            now = Instant(now + 0.25)
        rests.append(now - began)
    assert rests == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]

    backlog.placed()
    backlog.park(backlog.some(10, now), now)
    assert backlog.due(Instant(now + 0.5))


def test_new_pods_do_not_wait_for_those_that_back_off() -> None:
    backlog = a_backlog()
    backlog.take(seen(a_pod("a")))
    backlog.park(backlog.some(10, T0), T0)
    backlog.take(seen(a_pod("b")))
    assert backlog.ready == 1
    assert names(backlog.some(10, T0)) == ["b"]


def test_pods_behind_a_gate_may_be_taken_alone_and_have_their_turn_among_the_others() -> None:
    backlog = a_backlog()
    gated = replace(a_pod("b"), gates=(GATE,))
    backlog.take(seen(a_pod("a"), gated, a_pod("c"), replace(a_pod("d"), gates=(GATE,))))
    assert names(backlog.behind_gates(1, T0)) == ["b"]
    backlog.take(seen(gated))
    assert names(backlog.some(10, T0)) == ["a", "b", "c", "d"]


def test_a_pod_whose_gate_has_opened_is_not_behind_it() -> None:
    backlog = a_backlog()
    backlog.take(seen(replace(a_pod("a"), gates=(GATE,)), a_pod("b")))
    backlog.take(seen(a_pod("a")))
    assert backlog.behind_gates(10, T0) == []
    assert names(backlog.some(10, T0)) == ["a", "b"]
    assert len(backlog) == 0


TERM = PodTerm(topology_key="zone", selector=(), namespaces=("default",), namespace_selector=())


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("bound", on="n"),
        a_pod("ended", ended=True),
        a_pod("leaving", deleting=True),
        a_pod("asks-nothing", missing_request="app: cpu"),
        replace(a_pod("nominated"), nominated_node=NodeName("n")),
        replace(a_pod("gated"), gates=("theirs",)),
        replace(a_pod("gated-twice"), gates=(GATE, "theirs")),
        replace(a_pod("odd"), vertical_problem="not a number"),
        replace(a_pod("other"), kind=replace(a_pod("other").kind, scheduler_name="default-scheduler")),
        asking(a_pod("claims"), claims=(ClaimMount("data"),)),
        asking(a_pod("devices"), resource_claims=(ClaimUse(name="gpu", claim="gpu"),)),
        asking(a_pod("namespaces"), anti_affinity=(TERM,)),
    ],
    ids=lambda pod: pod.key.name,
)
def test_a_pod_is_left_alone_that_is(pod: Pod) -> None:
    assert not OURS.nominated(pod)
    backlog = a_backlog()
    backlog.take(seen(pod))
    assert len(backlog) == 0


def test_pods_behind_our_own_gate_are_nominated_where_configured() -> None:
    gated = replace(a_pod("gated"), gates=(GATE,))
    assert OURS.nominated(gated)
    assert not replace(OURS, gated=False).nominated(gated)


def test_a_request_may_be_missing_where_it_counts_as_zero() -> None:
    assert replace(OURS, missing_requests_refused=False).nominated(a_pod("a", missing_request="app: cpu"))


def test_the_window_grows_with_hits_up_to_the_maximum() -> None:
    nomination_window = NominationWindow()
    widths = []
    for _ in range(200):
        nomination_window.note_hit(POLICY, T0)
        widths.append(nomination_window.allowed(POLICY, T0))
    assert widths == sorted(widths)
    assert widths[-1] == POLICY.most


def test_the_window_is_halved_where_many_are_missed_and_pauses_for_longer_each_time() -> None:
    nomination_window, now, pauses = NominationWindow(), T0, []
    for _ in range(300):
        nomination_window.note_miss(POLICY, now, made_at=now)
        began = now
        while nomination_window.allowed(POLICY, now) == 0:
            now = Instant(now + 0.5)
        if now > began:
            pauses.append(now - began)
    assert nomination_window.width == 1
    assert pauses[:3] == [1.0, 2.0, 4.0]
    assert max(pauses) == 30.0


def test_a_few_misses_among_many_hits_do_not_slow_it_down() -> None:
    nomination_window = NominationWindow()
    for number in range(200):
        if number % 10:
            nomination_window.note_hit(POLICY, T0)
        else:
            nomination_window.note_miss(POLICY, T0, made_at=T0)
    assert nomination_window.width == POLICY.most


def test_it_recovers_from_one_on_with_each_hit() -> None:
    nomination_window, now = NominationWindow(), T0
    for _ in range(100):
        nomination_window.note_miss(POLICY, now, made_at=now)
    now = Instant(now + 60)
    assert nomination_window.allowed(POLICY, now) == 1
    nomination_window.note_hit(POLICY, now)
    assert nomination_window.allowed(POLICY, now) > 1


def test_slow_writes_slow_it_down() -> None:
    nomination_window, before = NominationWindow(), NominationWindow().width
    for _ in range(19):
        nomination_window.written(5.0, POLICY, T0)
    assert nomination_window.width == before
    nomination_window.written(5.0, POLICY, T0)
    assert nomination_window.width < before


def test_what_was_on_its_way_when_it_was_halved_does_not_halve_it_again() -> None:
    nomination_window, later = NominationWindow(), Instant(T0 + 1)
    widths = set()
    for _ in range(200):
        nomination_window.note_miss(POLICY, later, made_at=T0)
        widths.add(nomination_window.width)
    assert widths == {32, 16}
    for _ in range(20):
        nomination_window.note_miss(POLICY, later, made_at=later)
    assert nomination_window.width == 8


def test_kube_scheduler_is_at_work_for_a_second_after_each_pod_that_it_takes() -> None:
    activity = SchedulerActivity()
    assert not activity.at_work(T0)
    activity.taken(T0)
    assert activity.at_work(Instant(T0 + 0.9))
    assert not activity.at_work(Instant(T0 + 1.0))
    assert activity.idle_at(60.0, Instant(T0 + 1.0)) == T0 + 60
    assert activity.idle_at(60.0, Instant(T0 + 60.0)) is None


def test_a_backlog_keeps_nothing_of_pods_that_have_left() -> None:
    """Where kube-scheduler is given one node when it asks, hardly any pod is ever taken from the backlog."""
    turns = count()
    backlog = Backlog(OURS.nominated, lambda _: next(turns))
    waiting = [a_pod(f"waits-{number}") for number in range(3)]
    backlog.take(seen(*waiting))
    for number in range(10_000):
        pod = replace(a_pod(f"p{number}"), gates=(GATE,) if number % 2 else ())
        backlog.take(seen(pod))
        backlog.discard(pod.uid)
    assert sum(sizes(backlog).values()) < 500
    assert names(backlog.some(10, T0)) == ["waits-0", "waits-1", "waits-2"]


def test_a_backlog_that_drops_old_entries_keeps_its_order_and_its_parked_pods() -> None:
    backlog = a_backlog()
    parked, gated, first, changed = (a_pod(name) for name in ("a", "gated", "b", "c"))
    gated = replace(gated, gates=(GATE,))
    backlog.take(seen(parked, gated, first, changed))
    backlog.park(backlog.some(1, T0), T0)
    backlog.take(seen(replace(changed, gates=(GATE,))))
    backlog.take(seen(changed))
    for number in range(1_000):
        pod = a_pod(f"p{number}")
        backlog.take(seen(pod))
        backlog.discard(pod.uid)
    assert names(backlog.some(10, T0)) == ["gated", "b", "c"]
    assert names(backlog.some(10, Instant(T0 + 60))) == ["a"]
