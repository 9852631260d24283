"""The real demand: which pods are one and the same, whatever happens to their nodes."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from slackwater.app.counterfactual.demand import LAG, Arrived, Changed, Demand, DemandEvent, Ended, arrivals
from slackwater.model.changes import PodChange
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.objects import Pod
from tests.support.builders import a_pod

REPLICA_SET, STATEFUL_SET, JOB = (
    Owner("apps", "ReplicaSet", "web"),
    Owner("apps", "StatefulSet", "db"),
    Owner("batch", "Job", "j"),
)


def at(seconds: float) -> UnixTime:
    return UnixTime(1_000.0 + seconds)


def owned(name: str, owner: Owner = REPLICA_SET, *, uid: str = "", on: str | None = None) -> Pod:
    return structs.replace(a_pod(name, on=on, uid=uid or name), eviction_facts=EvictionFacts(owner=owner))


def there(pod: Pod) -> PodChange:
    return PodChange(pod.uid, pod)


def gone(uid: str) -> PodChange:
    return PodChange(PodUid(uid), None)


def known(demand: Demand, until: UnixTime) -> list[tuple[str, str]]:
    return [(type(event).__name__, event.place) for event in demand.due(until)]


def a_demand(*pods: Pod) -> Demand:
    demand = Demand()
    demand.begin(pods, at(0))
    return demand


def test_an_evicted_pod_and_its_successor_are_one() -> None:
    demand = a_demand(owned("web-1", on="n"))
    demand.take([there(structs.replace(owned("web-1", on="n"), deleting=True)), there(owned("web-2"))], at(10))
    demand.take([gone("web-1")], at(40))
    assert known(demand, at(100)) == [("Changed", "web-1")]


def test_a_pod_without_a_successor_has_ended_when_it_left() -> None:
    pod = owned("web-1", on="n")
    demand = a_demand(pod)
    demand.take([gone("web-1")], at(10))
    assert list(demand.due(at(9))) == []
    assert list(demand.due(at(10))) == [Ended(at(10), pod.uid, pod)]


def test_a_successor_that_comes_too_late_is_new() -> None:
    demand = a_demand(owned("web-1", on="n"))
    demand.take([gone("web-1")], at(0))
    assert known(demand, at(1)) == [("Ended", "web-1")]
    demand.take([there(owned("web-2"))], at(1 + LAG))
    assert known(demand, at(1 + LAG)) == [("Arrived", "web-2")]


def test_a_place_that_is_left_twice_ends_once() -> None:
    demand = a_demand(owned("web-1", on="n"))
    demand.take([gone("web-1"), there(owned("web-2"))], at(5))
    demand.take([gone("web-2")], at(8))
    assert known(demand, at(100)) == [("Changed", "web-1"), ("Ended", "web-1")]


def test_a_pod_of_a_stateful_set_takes_the_place_with_its_name() -> None:
    demand = a_demand(owned("db-0", STATEFUL_SET, uid="a", on="n"), owned("db-1", STATEFUL_SET, uid="b", on="n"))
    demand.take([there(structs.replace(owned("db-1", STATEFUL_SET, uid="b", on="n"), deleting=True))], at(1))
    demand.take([gone("a"), gone("b")], at(31))
    demand.take([there(owned("db-1", STATEFUL_SET, uid="c"))], at(32))
    assert known(demand, at(100)) == [("Ended", "a"), ("Changed", "b")]


def test_a_job_pod_says_how_long_it_ran() -> None:
    demand = a_demand()
    demand.take([there(owned("j-1", JOB))], at(0))
    placed = owned("j-1", JOB, on="n")
    demand.take([there(placed)], at(20))
    demand.take([gone("j-1")], at(120))
    assert list(demand.due(at(120)))[-1] == Ended(at(120), placed.uid, placed, 100.0)


def test_pods_of_nodes_are_no_demand_and_a_pod_without_a_controller_ends_with_itself() -> None:
    daemon = owned("log-1", Owner("apps", "DaemonSet", "log"), on="n")
    demand = a_demand(daemon)
    demand.take([gone("log-1"), there(structs.replace(daemon, uid=PodUid("log-2"))), there(a_pod("bare", uid="bare"))], at(1))
    demand.take([gone("bare")], at(2))
    demand.take([there(a_pod("bare", uid="bare-2"))], at(3))
    assert known(demand, at(100)) == [("Arrived", "bare"), ("Ended", "bare"), ("Arrived", "bare-2")]


def test_an_old_pod_that_still_ends_does_not_end_the_place() -> None:
    old = structs.replace(owned("web-1", on="n"), deleting=True)
    demand = a_demand(owned("web-1", on="n"))
    demand.take([there(old), there(owned("web-2"))], at(1))
    demand.take([there(structs.replace(old, ready=False))], at(2))
    demand.take([gone("web-1")], at(20))
    assert known(demand, at(100)) == [("Changed", "web-1")]


@pytest.mark.parametrize("owner", [REPLICA_SET, JOB], ids=["ReplicaSet", "Job"])
@given(steps=st.lists(st.tuples(st.booleans(), st.floats(0.5, 2 * LAG)), max_size=30))
def test_places_are_as_many_as_pods(owner: Owner, steps: list[tuple[bool, float]]) -> None:
    """Whatever comes and goes, and however late it is known: there is a place for each pod, and times never go back."""
    demand, living, now, number, events = Demand(), list[str](), 0.0, 0, list[DemandEvent]()
    for comes, pause in steps:
        now += pause
        if comes or not living:
            number += 1
            living.append(f"p{number}")
            demand.take([there(owned(living[-1], owner))], at(now))
        else:
            demand.take([gone(living.pop(0))], at(now))
        events += demand.due(at(now - LAG))
    events += demand.due(at(now + LAG))
    assert len(living) == _count(events, Arrived) - _count(events, Ended)
    assert [event.at for event in events] == sorted(event.at for event in events)
    places = {event.place for event in events if isinstance(event, Arrived)}
    assert {event.place for event in events if isinstance(event, Ended | Changed)} <= places


def _count(events: Iterable[DemandEvent], kind: type[DemandEvent]) -> int:
    return sum(isinstance(event, kind) for event in events)


def test_pods_came_in_the_order_of_writing_at_the_times_that_were_counted() -> None:
    """The count has other pods too: of ten that came by the second time, six came by the first."""
    made = [structs.replace(owned(f"web-{n}"), created_at="2027-01-15T08:00:00Z", resource_version=100 - n) for n in range(5)]
    events = [Arrived(at(9), pod.uid, pod) for pod in made]
    found = [(came, [str(event.place) for event in some]) for came, some in arrivals(events, [(at(1), 6), (at(2), 10)])]
    assert found == [(at(1), ["web-4", "web-3", "web-2"]), (at(2), ["web-1", "web-0"])]


def test_without_a_count_pods_came_when_they_were_made() -> None:
    pod = structs.replace(owned("web"), created_at="2027-01-15T08:00:00Z")
    [(came, [event])] = arrivals([Arrived(at(9), pod.uid, pod)], ())
    assert (came, event.pod) == (1_800_000_000.5, pod)
