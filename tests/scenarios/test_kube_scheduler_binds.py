"""`extender.bind: false`: the hold taken at filter is the reservation, until the watch shows the bind or none can come."""

from dataclasses import replace

from slackwater.ledger.ledger import NodePolicy
from slackwater.model.effects import ReadPod
from slackwater.model.events import PodGone, PodRead
from slackwater.model.ids import NodeName
from slackwater.model.objects import Pod
from slackwater.model.particulars import ClaimMount, Particulars
from slackwater.model.reasons import Reason
from slackwater.world.policy import Policy
from tests.support.builders import a_pod, a_vertical, amounts
from tests.support.small_world import M, N, SmallWorld


class Cluster(SmallWorld):
    """kube-scheduler binds by itself."""

    def __init__(self) -> None:
        super().__init__(Policy(binds=False, nodes=NodePolicy()))

    def reserved(self, node: NodeName = N) -> int:
        return int(self.world.ledger.columns.reserved[0, self.world.nodes.row_of[node]])


def bound(pod: Pod, node: NodeName = N) -> Pod:
    return replace(pod, node=node, resource_version=pod.resource_version + 1)


def a_machine(name: str, *, cpu: str = "1", using: str = "3") -> Pod:
    return replace(a_pod(name, cpu=cpu), vertical=a_vertical(using=amounts(using, "4Gi")))


def test_the_watch_makes_the_hold_the_reservation() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    assert cluster.ask(pod, N) == [Reason.OK]
    assert (cluster.held(), cluster.reserved()) == (1000, 0)
    cluster.comes(bound(pod))
    assert (cluster.held(), cluster.reserved()) == (0, 1000)
    assert (cluster.world.tally.confirmed, cluster.world.tally.adopted) == (1, 0)


def test_a_bind_that_may_still_come_keeps_its_room_and_the_pod_is_read_before_it_is_given_away() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    assert not [effect for effect in cluster.after(60) if isinstance(effect, ReadPod)]
    assert cluster.after(20) == [ReadPod(pod.uid, pod.key)]
    assert cluster.held() == 3000, "nobody has said yet that it is not bound"
    other = cluster.comes(a_pod("other", cpu="2"))
    assert cluster.ask(other, N) == [Reason.HELD_FOR_OTHERS]

    woken = cluster.apply(PodRead(pod))
    assert cluster.held() == 0
    assert [effect.uid for effect in woken] == [other.uid]


def test_a_read_without_an_answer_is_asked_for_again() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    assert cluster.after(80) == [ReadPod(pod.uid, pod.key)]
    assert cluster.after(5) == []
    assert cluster.after(10) == [ReadPod(pod.uid, pod.key)]
    cluster.apply(PodRead(bound(pod)))
    assert (cluster.held(), cluster.reserved()) == (0, 3000)


def test_a_read_that_nobody_asked_for_gives_no_room_away() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    cluster.apply(PodRead(pod))
    assert cluster.held() == 3000


def test_a_pod_whose_volumes_are_waited_for_first_keeps_its_room_longer() -> None:
    cluster = Cluster()
    pod = a_pod("p", cpu="3")
    pod = cluster.comes(replace(pod, kind=replace(pod.kind, particulars=Particulars(claims=(ClaimMount("data"),)))))
    cluster.ask(pod, N)
    assert cluster.after(600) == []
    assert cluster.held() == 3000


def test_a_pod_that_is_asked_about_again_keeps_the_room_where_its_first_bind_may_still_land() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    assert cluster.ask(pod, M) == [Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (3000, 3000)
    assert cluster.ask(pod, N) == [Reason.OK], "its own room is no obstacle to it"
    assert (cluster.held(N), cluster.held(M)) == (3000, 3000)
    cluster.comes(bound(pod, M))
    assert (cluster.held(N), cluster.held(M), cluster.reserved(M)) == (0, 0, 3000)
    assert cluster.world.tally.confirmed == 1


def test_what_is_left_of_an_earlier_hold_ends_with_the_pod_too() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    cluster.ask(pod, M)
    cluster.apply(PodGone(pod.uid, pod.key))
    assert (cluster.held(N), cluster.held(M)) == (0, 0)


def test_ordinary_pods_among_themselves_are_kube_schedulers_business() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N, M)
    assert (cluster.held(N), cluster.held(M)) == (0, 0)


def test_a_pod_that_grows_does_not_meet_an_ordinary_one_whose_bind_nobody_has_shown_yet() -> None:
    """kube-scheduler itself knows the ordinary pod by then, but takes the machine for 1 CPU, not 3."""
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="2"))
    cluster.ask(pod, N, M)
    machine = cluster.comes(a_machine("vm"))
    assert cluster.ask(machine, N, M) == [Reason.HELD_FOR_OTHERS, Reason.HELD_FOR_OTHERS]
    cluster.comes(bound(pod, M))
    assert cluster.ask(machine, N, M) == [Reason.OK, Reason.NOT_ENOUGH_CPU]


def test_an_ordinary_pod_does_not_meet_one_that_grows_either() -> None:
    cluster = Cluster()
    machine = cluster.comes(a_machine("vm"))
    cluster.ask(machine, N, M)
    pod = cluster.comes(a_pod("p", cpu="2"))
    assert cluster.ask(pod, N, M) == [Reason.HELD_FOR_OTHERS, Reason.HELD_FOR_OTHERS]
    cluster.comes(bound(machine, N))
    assert cluster.ask(pod, N, M) == [Reason.NOT_ENOUGH_CPU, Reason.OK]
    assert cluster.held(M) == 2000


def test_where_pods_grow_every_hold_counts_on_each_row() -> None:
    cluster = Cluster()
    cluster.comes(a_machine("vm"))
    pod = cluster.comes(a_pod("p", cpu="2"))
    cluster.ask(pod, N, M)
    assert (cluster.held(N), cluster.held(M)) == (2000, 2000)
