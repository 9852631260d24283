"""Who waits to be told where to go, in which order, and how fast they are told."""

from dataclasses import replace
from typing import Any

import pytest

from slackwater.decide.steering.backlog import Backlog
from slackwater.decide.steering.eligible import Eligibility
from slackwater.decide.steering.pace import Pace, PacePolicy
from slackwater.decide.steering.searches import Searches
from slackwater.model.changes import PodChange
from slackwater.model.ids import Instant, NodeName
from slackwater.model.objects import Pod
from slackwater.model.particulars import ClaimMount, Particulars, PodTerm
from slackwater_protocol.names import GATE
from tests.support.builders import a_pod

OURS = Eligibility(scheduler_name="slackwater")
POLICY = PacePolicy(most=64, max_miss_share=0.2, slow_seconds=1.0)
T0 = Instant(100.0)


def seen(*pods: Pod) -> list[PodChange]:
    return [PodChange(pod.uid, pod) for pod in pods]


def names(pods: list[Pod]) -> list[str]:
    return [pod.key.name for pod in pods]


def asking(pod: Pod, **asks: Any) -> Pod:
    return replace(pod, kind=replace(pod.kind, particulars=Particulars(**asks)))


def test_the_more_important_pod_comes_first_and_of_equals_who_came_first() -> None:
    backlog = Backlog(OURS)
    backlog.take(seen(a_pod("b"), a_pod("a"), a_pod("high", priority=10)))
    backlog.take(seen(a_pod("c")))

    assert names(backlog.some(2, T0)) == ["high", "b"]
    assert names(backlog.some(10, T0)) == ["a", "c"]
    assert backlog.some(10, T0) == []


def test_a_pod_that_changed_keeps_its_turn_and_one_that_went_has_none() -> None:
    backlog = Backlog(OURS)
    backlog.take(seen(a_pod("a"), a_pod("b"), a_pod("c")))
    backlog.take(seen(a_pod("a", labels={"new": "one"})))
    backlog.take([PodChange(a_pod("b").uid, None)])

    found = backlog.some(10, T0)
    assert names(found) == ["a", "c"]
    assert found[0].labels == (("new", "one"),)


def test_a_pod_that_left_and_came_back_is_taken_once() -> None:
    backlog = Backlog(OURS)
    backlog.take(seen(a_pod("a")))
    backlog.discard(a_pod("a").uid)
    backlog.take(seen(a_pod("b"), a_pod("a")))
    assert names(backlog.some(10, T0)) == ["b", "a"]


def test_pods_that_fit_nowhere_come_back_after_a_rest_that_grows_until_somebody_finds_a_place() -> None:
    backlog, pod, now = Backlog(OURS), a_pod("a"), T0
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


def test_new_pods_do_not_wait_for_those_that_rest() -> None:
    backlog = Backlog(OURS)
    backlog.take(seen(a_pod("a")))
    backlog.park(backlog.some(10, T0), T0)
    backlog.take(seen(a_pod("b")))
    assert backlog.ready == 1
    assert names(backlog.some(10, T0)) == ["b"]


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
        asking(a_pod("devices"), resource_claims=("gpu",)),
        asking(a_pod("namespaces"), anti_affinity=(TERM,)),
    ],
    ids=lambda pod: pod.key.name,
)
def test_a_pod_is_left_alone_that_is(pod: Pod) -> None:
    assert not OURS(pod)
    backlog = Backlog(OURS)
    backlog.take(seen(pod))
    assert len(backlog) == 0


def test_pods_behind_our_own_gate_are_told_where_that_is_wanted() -> None:
    gated = replace(a_pod("gated"), gates=(GATE,))
    assert OURS(gated)
    assert not replace(OURS, gated=False)(gated)


def test_a_request_may_be_missing_where_it_counts_as_zero() -> None:
    assert replace(OURS, missing_requests_refused=False)(a_pod("a", missing_request="app: cpu"))


def test_the_pace_grows_while_nominations_are_met_up_to_the_most() -> None:
    pace = Pace()
    widths = []
    for _ in range(200):
        pace.met(POLICY, T0)
        widths.append(pace.allowed(T0))
    assert widths == sorted(widths)
    assert widths[-1] == POLICY.most


def test_the_pace_is_halved_where_many_are_missed_and_stops_for_longer_each_time() -> None:
    pace, now, pauses = Pace(), T0, []
    for _ in range(300):
        pace.missed(POLICY, now)
        began = now
        while pace.allowed(now) == 0:
            now = Instant(now + 0.5)
        if now > began:
            pauses.append(now - began)
    assert pace.width == 1
    assert pauses[:3] == [1.0, 2.0, 4.0]
    assert max(pauses) == 30.0


def test_a_few_misses_among_many_hits_do_not_slow_it_down() -> None:
    pace = Pace()
    for number in range(200):
        (pace.missed if number % 10 == 0 else pace.met)(POLICY, T0)
    assert pace.width == POLICY.most


def test_it_recovers_from_one_on_by_what_is_met() -> None:
    pace, now = Pace(), T0
    for _ in range(100):
        pace.missed(POLICY, now)
    now = Instant(now + 60)
    assert pace.allowed(now) == 1
    pace.met(POLICY, now)
    assert pace.allowed(now) > 1


def test_slow_writes_slow_it_down() -> None:
    pace, before = Pace(), Pace().width
    for _ in range(19):
        pace.written(5.0, POLICY, T0)
    assert pace.width == before
    pace.written(5.0, POLICY, T0)
    assert pace.width < before


def test_while_a_nomination_is_written_kube_scheduler_takes_as_many_pods_as_it_searches_for_in_that_time() -> None:
    searches, now = Searches(), T0
    assert searches.meanwhile(0.05, now) == 0
    for _ in range(100):
        now = Instant(now + 0.005)
        searches.begun(now)
    assert 20 <= searches.meanwhile(0.05, now) <= 23
    assert searches.meanwhile(0.05, Instant(now + 1.0)) == 0, "it has nothing to do, or takes what it was told"
