"""A pod is evicted only while it fits on another node, and nobody else of its rank gets that room meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slackwater.controllers.scaledown.replica_plan import put_kept_room, with_drains_rolled_back
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.effects import Activate, DrainOrder
from slackwater.model.events import BudgetSeen, NodeGone
from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod, Taint
from slackwater.model.pod_constraints import PodConstraints, PodTerm
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.model.selectors import Requirement
from slackwater_protocol.names import TO_BE_DELETED_TAINT
from tests.support import installed
from tests.support.builders import a_budget, a_pod
from tests.support.draining import EPOCH, Cluster, a_cluster, all_well
from tests.support.removing import machine, replica

GPU = "x.io/gpu"
LIMITS = replace(installed.DRAIN, settle_time=1.0, retry_interval=5.0, eviction_timeout=60.0)


def a_drain(pod: Pod | None = None) -> Cluster:
    """A drain of n1, whose pod `a` fits on n2 alone and is blocked by its budget."""
    named = {name: {"kubernetes.io/hostname": name} for name in ("n1", "n2")}
    n2 = structs.replace(machine("n2", labels=named["n2"]), scalars=(("pods", 110), (GPU, 1)))
    nodes = [machine("n1", labels=named["n1"]), n2]
    cluster = a_cluster(nodes, [pod or replica("a", "n1")], elsewhere=False, limits=LIMITS)
    cluster.faults = lambda what: "blocked" if what.startswith("evict") else "done"
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1", destinations={"a": "n2"})
    cluster.tick(4)
    assert cluster.log == ["taint n1", "evict a"]
    return cluster


def open_budget(cluster: Cluster) -> None:
    cluster.faults = all_well
    cluster.tell(BudgetSeen(a_budget("web", allowed=1, app="web")))


def with_gpu(pod: Pod) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(scalars=((GPU, 1),))))


def apart_from(pod: Pod, app: str) -> Pod:
    term = PodTerm(
        namespaces=("default",),
        selector=(Requirement(key="app", operator="In", values=(app,)),),
        topology_key="kubernetes.io/hostname",
    )
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(anti_affinity=(term,))))


def filled(cluster: Cluster) -> None:
    cluster.add(a_pod("other", on="n2", cpu="3500m"))


def tainted(cluster: Cluster) -> None:
    cluster._put(structs.replace(cluster.nodes["n2"], taints=(Taint("down", "", "NoSchedule"),)))


def cordoned(cluster: Cluster) -> None:
    cluster._put(structs.replace(cluster.nodes["n2"], unschedulable=True))


def gone(cluster: Cluster) -> None:
    del cluster.nodes["n2"]
    cluster.tell(NodeGone(NodeName("n2")))


def device_taken(cluster: Cluster) -> None:
    cluster.add(with_gpu(a_pod("other", on="n2", cpu="100m")))


def repelled(cluster: Cluster) -> None:
    cluster.add(a_pod("other", on="n2", cpu="100m", labels={"app": "loud"}))


@pytest.mark.parametrize(
    ("pod", "taken"),
    [
        (replica("a", "n1"), filled),
        (replica("a", "n1"), tainted),
        (replica("a", "n1"), cordoned),
        (replica("a", "n1"), gone),
        (with_gpu(replica("a", "n1")), device_taken),
        (apart_from(replica("a", "n1"), "loud"), repelled),
    ],
    ids=["filled", "tainted", "cordoned", "gone", "device", "anti-affinity"],
)
def test_a_pod_whose_destination_is_gone_is_not_evicted_and_the_drain_is_rolled_back(
    pod: Pod, taken: Callable[[Cluster], None]
) -> None:
    cluster = a_drain(pod)
    taken(cluster)
    open_budget(cluster)
    cluster.tick(40)
    assert cluster.log == ["taint n1", "evict a"]
    cluster.tick(40)
    assert cluster.log == ["taint n1", "evict a", "untaint n1"]
    assert cluster.how_it_ended() == {"n1": UnremovableReason.NO_PLACE}
    assert list(cluster.state_machine.state.holds.destinations) == []


def test_a_pod_that_finds_another_destination_in_time_is_evicted() -> None:
    cluster = a_drain()
    filled(cluster)
    open_budget(cluster)
    cluster.tick(40)
    cluster._put(machine("n3"))
    cluster.tick(20)
    assert cluster.log == ["taint n1", "evict a", "evict a", "delete n1"]


def verdict(cluster: Cluster, pod: Pod, on: str = "n2") -> Reason:
    row = cluster.state_machine.state.nodes.row_of[NodeName(on)]
    return Reason(int(cluster.state_machine.filter(pod, np.array([row], np.intp), Instant(cluster.now))[0]))


def test_pods_of_the_same_rank_do_not_get_the_room_and_more_important_ones_do() -> None:
    cluster = a_drain()
    cluster.add(twin := a_pod("late", cpu="3500m"))
    cluster.add(urgent := structs.replace(a_pod("urgent", cpu="3500m"), priority=10))
    assert verdict(cluster, twin) is Reason.HELD_FOR_OTHERS
    assert verdict(cluster, urgent) is Reason.OK


def in_zone(pod: Pod) -> Pod:
    """The pod with the label that the API server copies from its node when it is bound (KEP-4742)."""
    return structs.replace(pod, labels=(*pod.labels, ("topology.kubernetes.io/zone", "a")))


@pytest.mark.parametrize("leaving", [replica("a", "n1", "3"), in_zone(replica("a", "n1", "3"))], ids=["", "in a zone"])
def test_the_replacement_of_an_evicted_pod_gets_its_room_and_nobody_else(leaving: Pod) -> None:
    cluster = a_drain(leaving)
    successor = replica("b", None, "3")
    cluster.add(successor)
    assert verdict(cluster, successor) is Reason.HELD_FOR_OTHERS  # its pod has not left yet
    open_budget(cluster)
    cluster.tick(1)
    assert cluster.pods[PodUid("uid-a")].deleting
    cluster.add(other := a_pod("other", cpu="2"))
    assert verdict(cluster, other) is Reason.HELD_FOR_OTHERS
    assert verdict(cluster, successor) is Reason.OK
    cluster.add(structs.replace(successor, node=NodeName("n2"), resource_version=successor.resource_version + 100))
    assert list(cluster.state_machine.state.holds.destinations) == []


@pytest.mark.parametrize("end", ["cancelled", "deadline", "node gone"])
def test_the_room_ends_with_the_drain_and_who_waited_for_it_is_activated(end: str) -> None:
    cluster = a_drain()
    cluster.add(waiting := a_pod("waiting", cpu="3500m"))
    assert verdict(cluster, waiting) is Reason.HELD_FOR_OTHERS
    if end == "cancelled":
        _, effects = cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "", Instant(cluster.now))
        cluster.carry_out(effects)
    elif end == "node gone":
        cluster.tell(NodeGone(NodeName("n1")))
    cluster.tick(2 if end != "deadline" else 80)
    assert list(cluster.state_machine.state.holds.destinations) == []
    assert any(isinstance(each, Activate) and each.uid == waiting.uid for each in cluster.effects)
    assert verdict(cluster, waiting) is Reason.OK


def free_for(cluster: Cluster, pod: Pod, *rolled_back: str) -> list[str]:
    """The nodes on which a plan would find room for the pod, while the drains of the nodes `rolled_back` are given up."""
    replica = cluster.destinations.replica()
    with with_drains_rolled_back(replica, tuple(map(NodeName, rolled_back))), replica.snapshot.fork():
        put_kept_room(replica)
        snapshot = replica.snapshot
        return [snapshot.facts.nodes[row].name for row in feasible(snapshot, snapshot.kind_id(pod.kind, pod.labels)).rows]


@pytest.mark.parametrize("leaving", [replica("a", "n1", "3"), in_zone(replica("a", "n1", "3"))], ids=["", "in a zone"])
def test_plans_count_the_room_as_used_until_the_pod_leaves_and_then_leave_it_to_its_replacement(leaving: Pod) -> None:
    cluster = a_drain(leaving)
    other, successor = a_pod("other", cpu="2"), replica("b", None, "3")
    assert (free_for(cluster, other), free_for(cluster, other, "n1")) == ([], ["n2"])
    open_budget(cluster)
    cluster.tick(1)
    assert (free_for(cluster, other), free_for(cluster, successor)) == ([], [])  # no replacement is pending yet
    cluster.add(successor)
    assert free_for(cluster, successor) == ["n2"]  # so that no node is bought for it


def test_a_drain_that_goes_on_after_a_restart_finds_its_destinations_anew() -> None:
    cluster = a_cluster([machine("n1"), machine("n2")], [replica("a", "n1")], elsewhere=False, limits=LIMITS)
    filled(cluster)
    uid, now = cluster.nodes["n1"].uid, UnixTime(EPOCH)
    order = DrainOrder(node=NodeName("n1"), uid=uid, group=GroupName("pool"), empty=False, stamp=now)
    cluster._put(structs.replace(cluster.nodes["n1"], taints=(Taint(TO_BE_DELETED_TAINT, "1", "NoSchedule"),)))
    cluster.state_machine.resume_drains([order], Instant(cluster.now), now)
    cluster.tick(10)
    assert evicted(cluster) == []
    cluster.delete(PodUid("uid-other"))
    cluster.tick(10)
    assert evicted(cluster) == ["a"]


def evicted(cluster: Cluster) -> list[str]:
    return [what.removeprefix("evict ") for what in cluster.log if what.startswith("evict ")]


def test_a_check_that_is_not_answered_is_made_again_and_evicts_nobody() -> None:
    cluster = a_drain()
    open_budget(cluster)
    cluster.destinations.answers = False
    cluster.tick(20)
    assert evicted(cluster) == ["a"]  # the one before
    cluster.destinations.answers = True
    cluster.tick(10)
    assert evicted(cluster) == ["a", "a"]
