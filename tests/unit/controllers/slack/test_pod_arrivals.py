"""The book of arrivals: when pods came and went, whether they were in time, and what a restart keeps."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from slackwater.controllers.slack.pod_arrivals import MOST_MINUTES, ArrivalLog
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.start_time_slo import Observed, PodClass, SLOAttainment
from tests.support.builders import a_pod

BEGAN = 1_767_225_600  # a whole minute
WEB = PodClass(name="web", share_ppm=950_000, within=10.0, namespaces=("shop",), labels=(("tier", "web"),))
REST = PodClass(name="rest", share_ppm=500_000, within=60.0, min_priority=5)


def at(seconds: float) -> UnixTime:
    return UnixTime(BEGAN + seconds)


def web(name: str, created: int, *, on: str | None = None, ended: bool = False) -> Pod:
    text = datetime.fromtimestamp(BEGAN + created, UTC).isoformat()
    return structs.replace(a_pod(name, namespace="shop", labels={"tier": "web"}, on=on, ended=ended), created_at=text)


def bound(pod: Pod) -> Pod:
    return structs.replace(pod, node=NodeName("n"))


def a_log(now: float = 0.0) -> ArrivalLog:
    return ArrivalLog([WEB, REST], at(now))


def of_web(book: ArrivalLog, now: float) -> Observed:
    return book.observed(at(now))[0]


def kept(book: ArrivalLog, now: float) -> tuple[int, int, int]:
    found: SLOAttainment = of_web(book, now).kept
    return found.in_time, found.late, found.waiting


def test_pods_are_counted_in_the_minute_of_their_creation_and_once() -> None:
    book = a_log()
    for pod in (web("a", 5), web("b", 59), web("c", 61)):
        book.seen(pod, at(62))
        book.seen(bound(pod), at(63))
    seen = of_web(book, 125)
    assert (seen.arrivals.tolist(), seen.departures.tolist()) == ([2, 1], [0, 0])
    book.gone(web("a", 5).uid, at(126))
    book.gone(web("a", 5).uid, at(127))
    assert of_web(book, 127).moved == -1
    assert of_web(book, 180).departures.tolist() == [0, 0, 1]
    assert of_web(book, 180).moved == 0


def test_a_pod_is_in_time_late_or_waits() -> None:
    book = a_log()
    quick, slow, waits, goes = web("quick", 1), web("slow", 1), web("waits", 14), web("goes", 2)
    for pod in (quick, slow, waits, goes):
        book.seen(pod, at(15 if pod is waits else 2.5))
    book.seen(bound(quick), at(11))
    book.gone(goes.uid, at(5))
    assert kept(book, 11.2) == (1, 1, 0 + 1)
    book.seen(bound(slow), at(30))
    assert kept(book, 23) == (1, 1, 1)
    assert kept(book, 31) == (1, 2, 0)


def test_an_ended_pod_has_gone_before_its_object_is_deleted() -> None:
    book = a_log()
    book.seen(web("a", 1), at(1))
    book.seen(web("a", 1, on="n", ended=True), at(65))
    book.gone(web("a", 1).uid, at(200))
    assert of_web(book, 240).departures.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "other",
    [
        structs.replace(web("p", 1), eviction_facts=EvictionFacts(owner=Owner("apps", "DaemonSet", "d"))),
        structs.replace(web("p", 1), eviction_facts=EvictionFacts(mirror_pod=True)),
        structs.replace(web("p", 1), labels=()),
        a_pod("p", labels={"tier": "web"}),
        a_pod("p", priority=4),
    ],
    ids=["daemon", "mirror", "other-labels", "other-namespace", "low-priority"],
)
def test_others_are_of_no_class(other: Pod) -> None:
    book = a_log()
    book.seen(other, at(1))
    assert [each.arrivals.sum() for each in book.observed(at(120))] == [0, 0]


def test_a_pod_is_of_the_first_class_that_it_fits() -> None:
    book = a_log()
    book.seen(structs.replace(web("p", 1), priority=9), at(1))
    book.seen(a_pod("q", priority=9, on=None), at(1))  # created before the book was opened: of no minute
    assert [each.arrivals.sum() for each in book.observed(at(60))] == [1, 0]


def test_pods_that_were_there_before_are_no_arrivals_but_count_for_the_requests() -> None:
    book = a_log(100)
    book.seen(web("old", 1, on="n"), at(100))
    seen = of_web(book, 200)
    assert (seen.arrivals.sum(), kept(book, 200), [share.count for share in seen.mix]) == (0, (0, 0, 0), [1])


def test_the_mix_has_the_pods_that_came_since_it_was_asked_for_last() -> None:
    book, small, large = a_log(), web("a", 1), web("c", 3)
    book.seen(small, at(1))
    assert [share.count for share in of_web(book, 2).mix] == [1]
    book.seen(structs.replace(small, uid=PodUid("b")), at(3))
    book.seen(large, at(3))
    assert [(share.kind, share.count) for share in of_web(book, 4).mix] == [(small.kind, 2), (large.kind, 1)]


def test_a_restart_goes_on_where_the_last_one_saved() -> None:
    book = a_log()
    before = [web("a", 5), web("b", 70)]
    for pod in before:
        book.seen(pod, at(71))
        book.seen(bound(pod), at(72))
    saved = book.saved(at(100))
    after = a_log(250)
    after.restore(saved, at(250))
    for pod in (*before, web("c", 130)):  # c came while nobody looked, and stands already
        after.seen(bound(pod), at(250))
    seen = of_web(after, 300)
    assert seen.arrivals.tolist() == [1, 1, 1, 0, 0]
    assert kept(after, 300) == (1, 1, 0)


def test_what_makes_no_sense_changes_nothing() -> None:
    book = a_log()
    book.seen(web("a", 5), at(6))
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        book.restore({"at": BEGAN, "classes": {"web": {"arrivals": {"end": BEGAN // 60, "counts": [1, "x"]}}}}, at(6))
    assert of_web(book, 60).arrivals.tolist() == [1]


def test_memory_is_bounded_by_the_minutes_that_are_kept() -> None:
    book = a_log()
    book.seen(web("a", 5), at(6))
    later = (MOST_MINUTES + 10) * 60
    book.seen(web("b", later), at(later))
    seen = of_web(book, later + 60)
    assert (len(seen.arrivals), int(seen.arrivals.sum()), int(seen.arrivals[-1])) == (MOST_MINUTES - 1, 1, 1)
