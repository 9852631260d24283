"""A cloud warns that a machine will stop: its pods leave before, wherever they go, and nothing gives that up."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import DrainOrder, Evict
from slackwater.model.ids import Instant, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.draining import EPOCH, Cluster, a_cluster
from tests.support.removing import machine, replica

NOTICE = 120.0


def stops(cluster: Cluster, name: str = "n1", *, in_seconds: float = NOTICE) -> None:
    at = UnixTime(EPOCH + cluster.now)
    order = DrainOrder(
        node=NodeName(name),
        uid=f"node-{name}",
        group=GroupName("pool"),
        empty=False,
        stamp=at,
        stops_at=UnixTime(at + in_seconds),
    )
    cluster.carry_out(cluster.drains.begin([order], Instant(cluster.now)))


def blocked(what: str) -> str:
    return "blocked" if what == "evict a" else "done"


def test_all_pods_leave_at_once_though_they_fit_nowhere_else() -> None:
    cluster = a_cluster([machine("n1")], [replica("a", "n1"), replica("b", "n1")])
    stops(cluster)
    cluster.tick(5)
    assert cluster.log == ["taint n1", "evict a", "evict b", "delete n1"]
    assert cluster.how_it_ended() == {"n1": "removed"}


def test_a_pod_that_its_budget_keeps_is_deleted_in_the_end() -> None:
    cluster = a_cluster([machine("n1")], [replica("a", "n1")], faults=blocked)
    stops(cluster)
    cluster.tick(85)
    assert set(cluster.log) == {"taint n1", "evict a"}
    assert 3 <= cluster.log.count("evict a") <= 10
    cluster.tick(15)
    assert cluster.log[-2:] == ["kill a", "delete n1"]


def test_a_pod_that_must_not_be_evicted_leaves_too_and_has_as_long_as_there_is() -> None:
    kept = replica("a", "n1")
    kept = structs.replace(kept, grace_seconds=600, eviction_facts=replace(kept.eviction_facts, safe_to_evict="false"))
    cluster = a_cluster([machine("n1")], [kept])
    stops(cluster, in_seconds=90.0)
    cluster.tick(1)
    (sent,) = [effect for effect in cluster.effects if isinstance(effect, Evict)]
    assert (sent.key.name, sent.force) == ("a", False)
    assert 80 <= (sent.grace_seconds or 0) <= 90


def test_nobody_gives_the_removal_up() -> None:
    cluster = a_cluster([machine("n1")], [replica("a", "n1")], ends_after=300.0)
    stops(cluster)
    cluster.tick(10)
    answer, effects = cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "", Instant(cluster.now))
    assert (answer, effects) == ("too-late", [])
    cluster.tick(NOTICE)
    assert cluster.log[-1] == "delete n1", "the provider is asked before its group replaces the machine"


def test_a_provider_that_refuses_changes_nothing() -> None:
    limits = replace(installed.DRAIN, removal_seconds=60.0)
    cluster = a_cluster([machine("n1")], [], faults=lambda what: "refused" if what == "delete n1" else "done", limits=limits)
    stops(cluster)
    cluster.tick(100)
    assert cluster.log == ["taint n1", "delete n1"]
    cluster.tick(100)
    assert cluster.how_it_ended() == {"n1": "NodeDeletionFailed"}, "it has not stopped after all"
    assert cluster.tainted() == []


@pytest.mark.parametrize("after", [0.0, 8.0], ids=["at once", "while it drains"])
def test_a_removal_under_way_goes_on_faster(after: float) -> None:
    cluster = a_cluster([machine("n1"), machine("n2")], [replica("a", "n1")], faults=blocked)
    cluster.begin("n1")
    cluster.tick(after)
    stops(cluster)
    cluster.tick(100)
    assert cluster.log[-2:] == ["kill a", "delete n1"]


def test_a_removal_that_is_rolled_back_begins_again() -> None:
    cluster = a_cluster(
        [machine("n1"), machine("n2")], [replica("a", "n1")], faults=lambda what: "refused" if what == "untaint n1" else "done"
    )
    cluster.begin("n1")
    cluster.carry_out(cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "", Instant(0.0))[1])
    cluster.tick(1)
    stops(cluster)
    cluster.tick(20)
    assert cluster.log[-2:] == ["evict a", "delete n1"]
