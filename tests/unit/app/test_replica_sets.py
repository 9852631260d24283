"""Which pods end on our side when a ReplicaSet is scaled down: as many as really do, by the controller's order here."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from slackwater.app.counterfactual.demand import Arrived, Changed, Ended
from slackwater.app.counterfactual.pods_here import PodsHere
from slackwater.app.counterfactual.replica_sets import ReplicaSets, ending_order
from slackwater.app.offline.cluster import read_cluster
from slackwater.app.rounds.virtual_cluster import VirtualCluster
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import PodUid, UnixTime
from slackwater.model.objects import Pod
from tests.support.builders import a_pod
from tests.support.containers import sizes

NOW = UnixTime(1_800_000_000.0)
WEB = Owner("apps", "ReplicaSet", "web")


def of_web(name: str, *, on: str | None = "n", ready: bool = True, cost: int = 0, made: str = "2026-01-01T00:00:00Z") -> Pod:
    return structs.replace(
        a_pod(name, on=on, uid=name),
        ready=ready,
        created_at=made,
        eviction_facts=EvictionFacts(owner=WEB, deletion_cost=cost),
    )


def order_of(*pods: Pod) -> list[PodUid]:
    there = {pod.uid: pod for pod in pods}
    return sorted(there, key=ending_order(there, NOW))


def test_the_controllers_order() -> None:
    """Each rule decides where all before it are equal; the source is in the module's text."""
    waits, unready, cheap = of_web("waits", on=None), of_web("unready", ready=False), of_web("cheap", cost=-1)
    crowded = [of_web(f"crowded-{number}", on="m") for number in range(2)]
    young, old = of_web("young", on="a", made="2027-01-15T07:59:50Z"), of_web("an-old", on="b")
    expected = ["waits", "unready", "cheap", "crowded-0", "crowded-1", "young", "an-old"]
    assert order_of(old, young, *reversed(crowded), cheap, unready, waits) == expected


def test_ages_count_by_powers_of_two() -> None:
    """Two pods of 100 and 120 seconds are of one age: their UIDs decide."""
    assert order_of(of_web("b", made="2027-01-15T07:58:20Z"), of_web("a", made="2027-01-15T07:58:00Z")) == ["a", "b"]


class Sides:
    """A real ReplicaSet and ours, by hand. Every pod waits, so readiness and costs decide."""

    def __init__(self) -> None:
        self.cluster = VirtualCluster(read_cluster(Raw(b'{"apiVersion": "v1", "kind": "List", "items": []}')))
        self.sets, self.real = ReplicaSets(), dict[PodUid, Pod]()

    @property
    def ours(self) -> set[PodUid]:
        return set(self.cluster.replica.pending)

    def arrive(self, pod: Pod) -> None:
        self.sets.here(Arrived(NOW, pod.uid, pod))
        self.cluster.add_pods([pod])
        self.real[pod.uid] = pod

    def here_of(self, place: PodUid) -> PodUid:
        return self.sets.here(Changed(NOW, place, self.real[place])).place

    def end(self, *places: str) -> list[PodUid]:
        events = [Ended(NOW, PodUid(place), self.real.pop(PodUid(place))) for place in places]
        ended = [event.place for event in self.sets.ended(events, self.cluster, PodsHere(), NOW)]
        for place in ended:
            pod = self.cluster.find(place)
            assert pod is not None
            self.cluster.drop(pod)
        return ended


def test_the_pod_that_stays_stands_for_the_real_one_whose_pod_ended_here() -> None:
    sides = Sides()
    sides.arrive(of_web("dear", on=None, cost=1))
    sides.arrive(of_web("cheap", on=None))
    assert sides.end("dear") == ["cheap"]
    assert sides.here_of(PodUid("cheap")) == "dear"
    assert sides.end("cheap") == ["dear"]


def test_nothing_is_kept_of_a_place_whose_pod_had_failed_here() -> None:
    sides = Sides()
    for name, cost in (("dear", 2), ("third", 1), ("cheap", 0)):
        sides.arrive(of_web(name, on=None, cost=cost))
    assert sides.end("dear") == ["cheap"]
    failed = sides.cluster.find(PodUid("dear"))
    assert failed is not None
    sides.cluster.drop(failed)
    assert sides.end("third") == ["third"], "that the failed one is gone is noticed with the next end"
    cheap = PodUid("cheap")
    (event,) = sides.sets.ended([Ended(NOW, cheap, sides.real[cheap])], sides.cluster, PodsHere(), NOW)
    assert event.place == "cheap"
    assert sizes(sides.sets) == {}


def test_pods_of_other_owners_end_as_they_really_do() -> None:
    sides = Sides()
    for name in ("db-0", "db-1"):
        pod = structs.replace(of_web(name, on=None), eviction_facts=EvictionFacts(owner=Owner("apps", "StatefulSet", "db")))
        sides.arrive(pod)
    assert sides.end("db-1") == ["db-1"]


@given(st.data())
def test_each_side_has_as_many_and_every_real_place_has_one_here(data: st.DataObject) -> None:
    sides = Sides()
    for number in range(data.draw(st.integers(1, 12))):
        ready, cost = data.draw(st.booleans()), data.draw(st.integers(0, 2))
        sides.arrive(of_web(f"p{number}", on=None, ready=ready, cost=cost))
        if data.draw(st.booleans()):
            sides.end(*data.draw(st.lists(st.sampled_from(sorted(sides.real)), unique=True, min_size=1)))
        assert {sides.here_of(place) for place in sides.real} == sides.ours
        assert len(sides.ours) == len(sides.real)
