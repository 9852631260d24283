"""`extender.bind: false`: the hold taken at filter is the reservation, until the watch shows the bind or none can come."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.model.effects import Activate, Bind, Effect, ReadPod
from slackwater.model.events import BindEnded, NodeSeen, PodGone, PodRead
from slackwater.model.ids import NodeName
from slackwater.model.ledger import NodePolicy
from slackwater.model.objects import Pod
from slackwater.model.permits import PersistedPermit
from slackwater.model.pod_constraints import ClaimMount, PodConstraints
from slackwater.model.reasons import Reason
from slackwater.model.resources import NOTHING
from slackwater.model.scheduler_profile import FilterProfile
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing
from tests.support.small_state_machine import M, N, SmallStateMachine


class Cluster(SmallStateMachine):
    """kube-scheduler binds by itself."""

    def __init__(self, nodes: NodePolicy | None = None, **policy: Any) -> None:
        super().__init__(replace(installed.POLICY, bind=False, nodes=nodes or installed.NODES, **policy))

    def reads(self, effects: list[Effect], pod: Pod) -> None:
        """The API server answers what was asked: the pod has no node."""
        if ReadPod(pod.uid, pod.key) in effects:
            self.apply(PodRead(pod))

    def reserved(self, node: NodeName = N) -> int:
        return int(self.state_machine.state.ledger.columns.reserved[0, self.state_machine.state.nodes.row_of[node]])


#: Our accounting is stricter than kube-scheduler's.
SYSTEM = replace(installed.NODES, system=amounts("1", "0"))


def of_another_profile(pod: Pod) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, scheduler_name="other"))


def bound(pod: Pod, node: NodeName = N) -> Pod:
    return structs.replace(pod, node=node, resource_version=pod.resource_version + 1)


def a_machine(name: str, *, cpu: str = "1", using: str = "3") -> Pod:
    return structs.replace(a_pod(name, cpu=cpu), vertical=a_vertical(using=amounts(using, "4Gi")))


def test_the_watch_makes_the_hold_the_reservation() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="1"))
    assert cluster.ask(pod, N) == [Reason.OK]
    assert (cluster.held(), cluster.reserved()) == (1000, 0)
    cluster.comes(bound(pod))
    assert (cluster.held(), cluster.reserved()) == (0, 1000)
    assert (cluster.state_machine.state.event_counts.confirmed, cluster.state_machine.state.event_counts.adopted) == (1, 0)


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
    assert [effect.uid for effect in woken if isinstance(effect, Activate)] == [other.uid]


def test_a_read_without_an_answer_is_asked_for_again() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    assert cluster.after(80) == [ReadPod(pod.uid, pod.key)]
    assert cluster.after(5) == []
    assert cluster.after(10) == [ReadPod(pod.uid, pod.key)]
    cluster.apply(PodRead(bound(pod)))
    assert (cluster.held(), cluster.reserved()) == (0, 3000)


def test_an_unrequested_read_releases_no_room() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    cluster.apply(PodRead(pod))
    assert cluster.held() == 3000


def test_a_pod_whose_volumes_are_waited_for_first_keeps_its_room_longer() -> None:
    cluster = Cluster()
    pod = a_pod("p", cpu="3")
    pod = cluster.comes(
        structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))
    )
    cluster.ask(pod, N)
    assert cluster.after(600) == []
    assert cluster.held() == 3000


def test_a_pod_that_is_asked_about_again_keeps_the_room_where_its_first_bind_may_still_land() -> None:
    cluster = Cluster(SYSTEM)
    pod = cluster.comes(a_pod("p", cpu="2"))
    cluster.ask(pod, N)
    assert cluster.ask(pod, M) == [Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (2000, 2000)
    assert cluster.ask(pod, N) == [Reason.OK], "its own room is no obstacle to it"
    assert (cluster.held(N), cluster.held(M)) == (2000, 2000)
    cluster.comes(bound(pod, M))
    assert (cluster.held(N), cluster.held(M), cluster.reserved(M)) == (0, 0, 2000)
    assert cluster.state_machine.state.event_counts.confirmed == 1


def test_where_kube_scheduler_counts_as_we_do_a_former_try_holds_nothing_and_other_nodes_come_first() -> None:
    cluster = Cluster()
    first, second = cluster.comes(a_pod("first", cpu="3")), cluster.comes(a_pod("second", cpu="3"))
    assert cluster.ask(first, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    assert cluster.ask(second, N) == [Reason.HELD_FOR_OTHERS]
    assert cluster.ask(first, N, M) == [Reason.NODE_NOT_CHOSEN, Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (0, 3000)
    assert [effect.uid for effect in cluster.after(0.1) if isinstance(effect, Activate)] == [second.uid]
    assert cluster.ask(first, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN], "each was named once"


def test_what_is_left_of_an_earlier_hold_ends_with_the_pod_too() -> None:
    cluster = Cluster(SYSTEM)
    pod = cluster.comes(a_pod("p", cpu="3"))
    cluster.ask(pod, N)
    cluster.ask(pod, M)
    assert (cluster.held(N), cluster.held(M)) == (3000, 3000)
    cluster.apply(PodGone(pod.uid, pod.key))
    assert (cluster.held(N), cluster.held(M)) == (0, 0)


def test_a_pod_whose_profile_is_not_known_is_left_to_kube_scheduler_without_a_hold() -> None:
    cluster = Cluster()
    pod = cluster.comes(of_another_profile(a_pod("p", cpu="3")))
    assert cluster.ask(pod, N, M) == [Reason.OK, Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (0, 0)
    assert cluster.ask(pod, N) == [Reason.OK], "there is nothing to choose"
    assert cluster.held(N) == 3000


@pytest.mark.parametrize("cause", ["nodes.system", "a profile that is known"])
def test_a_pod_of_another_profile_is_named_one_node_where_our_count_is_stricter_or_the_profile_is_known(cause: str) -> None:
    cluster = Cluster(SYSTEM) if cause == "nodes.system" else Cluster(profiles={"other": FilterProfile()})
    pod = cluster.comes(of_another_profile(a_pod("p", cpu="2")))
    assert cluster.ask(pod, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    assert (cluster.held(N), cluster.held(M)) == (2000, 0)


def test_a_pod_that_grows_does_not_meet_an_ordinary_one_whose_bind_the_watch_has_not_shown() -> None:
    """kube-scheduler itself knows the ordinary pod by then, but takes the machine for 1 CPU, not 3."""
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="2"))
    assert cluster.ask(pod, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    machine = cluster.comes(a_machine("vm"))
    assert cluster.ask(machine, N, M) == [Reason.HELD_FOR_OTHERS, Reason.OK]
    cluster.comes(bound(pod, N))
    assert cluster.ask(cluster.comes(a_machine("second")), N, M) == [Reason.NOT_ENOUGH_CPU, Reason.HELD_FOR_OTHERS]


def test_an_ordinary_pod_does_not_meet_one_that_grows_either() -> None:
    cluster = Cluster()
    machine = cluster.comes(a_machine("vm"))
    assert cluster.ask(machine, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    pod = cluster.comes(a_pod("p", cpu="2"))
    assert cluster.ask(pod, N, M) == [Reason.HELD_FOR_OTHERS, Reason.OK]
    cluster.comes(bound(machine, N))
    assert cluster.ask(pod, N, M) == [Reason.NOT_ENOUGH_CPU, Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (0, 2000)


def test_where_pods_grow_one_node_is_named_and_room_is_held_there_alone() -> None:
    cluster = Cluster()
    cluster.comes(a_machine("vm"))
    pod = cluster.comes(a_pod("p", cpu="2"))
    assert cluster.ask(pod, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    assert (cluster.held(N), cluster.held(M)) == (2000, 0)


def test_where_our_total_is_smaller_one_node_is_named_and_room_is_held_there_alone() -> None:
    cluster = Cluster(replace(installed.NODES, system=amounts("1", "0")))
    first, second = cluster.comes(a_pod("first", cpu="2")), cluster.comes(a_pod("second", cpu="2"))
    assert cluster.ask(first, N, M) == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    assert cluster.ask(second, N, M) == [Reason.HELD_FOR_OTHERS, Reason.OK]
    assert (cluster.held(N), cluster.held(M)) == (2000, 2000)


def test_a_pod_that_comes_back_is_named_another_node_but_no_third_one_while_binds_may_come_to_two() -> None:
    cluster = Cluster(replace(installed.NODES, system=amounts("1", "0")))
    third = NodeName("o")
    cluster.apply(NodeSeen(a_node("o")))
    pod = cluster.comes(a_pod("p", cpu="1"))
    named = []
    for _ in range(15):
        codes = cluster.ask(pod, N, M, third)
        (at,) = [at for at, code in enumerate(codes) if code == Reason.OK]
        named.append((N, M, third)[at])
        assert sum(cluster.held(node) for node in (N, M, third)) <= 2000
        for effect in cluster.after(10):
            assert effect == ReadPod(pod.uid, pod.key)
            cluster.apply(PodRead(pod))
    assert named[:8] == [N, M, M, M, M, M, M, M]
    assert named[8:] == [third] * 7


def test_every_try_of_a_pod_ends_75_seconds_after_it_and_a_read() -> None:
    """Retried every 30 s for twelve minutes, it has room on two nodes at most, at any time."""
    cluster = Cluster(SYSTEM)
    nodes = [NodeName(f"n{number}") for number in range(25)]
    for node in nodes:
        cluster.apply(NodeSeen(a_node(node)))
    pod = cluster.comes(a_pod("p", cpu="2"))
    for number in range(25):
        assert cluster.ask(pod, nodes[number]) == [Reason.OK]
        assert sum(cluster.held(node) for node in nodes) <= 3 * 2000, f"after {30 * number} s"
        for _ in range(30):
            cluster.reads(cluster.after(1), pod)
    cluster.reads(cluster.after(60), pod)
    assert len(cluster.state_machine.state.holds) == 0


def test_volumes_that_are_waited_for_again_leave_nothing_for_eleven_minutes_behind() -> None:
    """kube-scheduler asks again: its earlier wait is over, and a bind that it sent then is over 75 s later."""
    cluster = Cluster(SYSTEM)
    pod = a_pod("p", cpu="3")
    pod = cluster.comes(
        structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))
    )
    cluster.ask(pod, N)
    cluster.after(100)
    cluster.ask(pod, M)
    assert (cluster.held(N), cluster.held(M)) == (3000, 3000)
    cluster.reads(cluster.after(76), pod)
    assert (cluster.held(N), cluster.held(M)) == (0, 3000)


def test_room_that_others_gave_back_is_not_granted_while_their_persisted_permits_have_it() -> None:
    cluster = Cluster()
    text = PersistedPermit(permit=amounts("3", "4Gi"), permit_limit=amounts("3", "4Gi")).text()
    machine = structs.replace(a_pod("vm", on=N, cpu="1"), vertical=a_vertical(using=amounts("3", "4Gi"), permit=text))
    cluster.comes(machine)
    uid, claim = machine.uid, cluster.state_machine.state.reservations.get(machine.uid)
    assert claim is not None
    assert cluster.reserved(N) == 3000
    less = replace(claim.pod_resources, reserved=amounts("1", "4Gi"), buffer=NOTHING)
    cluster.state_machine.state.reservations.recount(uid, less)
    cluster.state_machine.permit_limits.persisted_permits.mark(uid)
    beside, fits = cluster.comes(a_pod("p", cpu="2")), cluster.comes(a_pod("q", cpu="1"))
    assert cluster.ask(beside, N, M) == [Reason.HELD_FOR_OTHERS, Reason.OK]
    assert cluster.ask(fits, N) == [Reason.OK]


def test_a_scheduler_whose_file_still_has_a_bind_verb_is_served_and_counted() -> None:
    cluster = Cluster()
    pod = cluster.comes(a_pod("p", cpu="3"))
    assert cluster.ask(pod, N) == [Reason.OK]
    answer = cluster.state_machine.bind(pod.uid, pod.key, N, cluster.now)
    assert (answer.reason, answer.effect) == (Reason.OK, Bind(pod.uid, pod.key, N))
    assert (cluster.held(), cluster.reserved()) == (0, 3000)
    cluster.apply(BindEnded(pod.uid, N, "bound", ""))
    cluster.comes(bound(pod))
    assert (cluster.held(), cluster.reserved()) == (0, 3000)
    assert cluster.state_machine.state.event_counts.unexpected_binds == 1
    assert cluster.ask(cluster.comes(a_pod("other", cpu="2")), N) == [Reason.NOT_ENOUGH_CPU]


def test_a_scheduler_whose_file_has_no_bind_verb_yet_takes_no_room_twice() -> None:
    """`extender.bind: true`, but kube-scheduler binds by an older file: the pod counts when the watch shows it."""
    cluster = SmallStateMachine(replace(installed.POLICY, bind=True))
    pod = cluster.comes(a_pod("p", cpu="3"))
    assert cluster.ask(pod, N) == [Reason.OK]
    cluster.comes(bound(pod))
    assert cluster.held() == 0
    assert cluster.state_machine.state.event_counts.adopted == 1
    assert cluster.ask(cluster.comes(a_pod("other", cpu="2")), N) == [Reason.NOT_ENOUGH_CPU]


def test_room_that_persisted_permits_block_is_asked_back_and_then_fits() -> None:
    """What was refused for a permit on record causes the write that lowers it; after the write the pod fits."""
    cluster = Growing(replace(installed.POLICY, bind=False))
    cluster.has_node(a_node("n", cpu="4"))
    machine = cluster.has_machine("vm", on="n", vertical=a_vertical(using=amounts("1", "4Gi"), maximum=amounts("4", "16Gi")))
    cluster.ask(machine, amounts("3", "4Gi"))
    cluster.passes(5)
    cluster.write()
    cluster.ask(machine, amounts("1", "4Gi"))
    wanted = cluster.store(structs.replace(a_pod("wanted", cpu="2", memory="1Gi")))
    rows = cluster.state_machine.state.nodes.rows_of(["n"])
    assert cluster.state_machine.filter(wanted, rows, cluster.state_machine_now()).tolist() == [Reason.HELD_FOR_OTHERS]
    cluster.passes(0.1)
    assert len(cluster.writes()) == 1
    cluster.write()
    assert cluster.state_machine.filter(wanted, rows, cluster.state_machine_now()).tolist() == [Reason.OK]
