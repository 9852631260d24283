"""Removals of nodes, from the taint to the deletion, and back where anything goes wrong: on virtual time, in the real world."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.policy import PriorityGroup
from slackwater.model.effects import CreateMigration, DrainOrder, Evict
from slackwater.model.events import BudgetSeen, MachineSeen, NodeGone, NodeSeen
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason
from slackwater.model.vertical import Machine
from tests.support import installed
from tests.support.builders import a_budget, a_vertical, amounts
from tests.support.draining import EPOCH, Cluster, a_cluster
from tests.support.removing import machine, replica

TWO = [machine("n1"), machine("n2")]


def evictions(cluster: Cluster) -> list[str]:
    return [what.removeprefix("evict ") for what in cluster.log if what.startswith("evict ")]


def test_a_node_is_tainted_emptied_and_deleted() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1"), replica("b", "n1"), replica("c", "n2")])
    cluster.begin("n1")
    cluster.tick(20)
    assert cluster.log == ["taint n1", "evict a", "evict b", "delete n1"]
    assert cluster.how_it_ended() == {"n1": "removed"}
    assert (cluster.ended[0].evicted, [pod.key.name for pod in cluster.evicted]) == (2, ["a", "b"])
    assert cluster.drains.nodes == {}


def test_the_taint_carries_the_time_and_the_node_is_cordoned() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")])
    cluster.begin("n1")
    taint = cluster.nodes["n1"].taints[0]
    assert (taint.key, taint.value, taint.effect) == ("ToBeDeletedByClusterAutoscaler", str(int(EPOCH)), "NoSchedule")
    assert cluster.nodes["n1"].unschedulable


def test_all_of_a_batch_are_tainted_before_the_first_eviction() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1"), replica("b", "n2")])
    cluster.begin("n1", "n2")
    cluster.tick(4.5)
    assert cluster.log == ["taint n1", "taint n2"]  # schedulers have to see the taints
    cluster.tick(1)
    assert cluster.log == ["taint n1", "taint n2", "evict a", "evict b"]


def test_a_node_whose_taint_is_late_holds_the_whole_batch_up() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1"), replica("b", "n2")])
    orders = [
        DrainOrder(node=NodeName(name), uid=f"node-{name}", group=GroupName("pool"), empty=False, stamp=UnixTime(EPOCH))
        for name in ("n1", "n2")
    ]
    first, second = cluster.drains.begin(orders, Instant(0.0))
    cluster.carry_out([first])
    cluster.tick(30)
    assert evictions(cluster) == []
    cluster.carry_out([second])
    cluster.tick(6)
    assert evictions(cluster) == ["a", "b"]


def test_a_taint_that_fails_gives_up_the_whole_batch() -> None:
    cluster = a_cluster(
        TWO, [replica("a", "n1"), replica("b", "n2")], faults=lambda what: "refused" if what == "taint n2" else "done"
    )
    cluster.begin("n1", "n2")
    cluster.tick(20)
    assert cluster.log == ["taint n1", "taint n2", "untaint n2", "untaint n1"]
    assert cluster.how_it_ended() == {"n1": "TaintFailed", "n2": "TaintFailed"}
    assert (cluster.tainted(), [node.unschedulable for node in cluster.nodes.values()]) == ([], [False] * 3)


def test_one_drain_a_node() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")])
    cluster.begin("n1")
    cluster.begin("n1")
    cluster.tick(20)
    assert cluster.log.count("taint n1") == cluster.log.count("delete n1") == 1


def test_a_node_that_is_no_longer_empty_is_not_deleted_as_empty() -> None:
    cluster = a_cluster(TWO)
    cluster.begin("n1", empty=True)
    cluster.add(replica("late", "n1"))
    cluster.tick(20)
    assert cluster.how_it_ended() == {"n1": "NoLongerEmpty"}
    assert (cluster.tainted(), evictions(cluster)) == ([], [])


def test_lower_priorities_leave_first_and_the_others_wait_until_they_are_gone() -> None:
    limits = replace(
        installed.DRAIN, priority_groups=(PriorityGroup(priority=0, time=60), PriorityGroup(priority=1000, time=10))
    )
    pods = [replica("important", "n1", priority=2000), replica("plain", "n1"), replica("low", "n1", priority=-5)]
    cluster = a_cluster(TWO, pods, limits=limits)
    cluster.begin("n1")
    cluster.tick(6.5)
    assert sorted(evictions(cluster)) == ["low", "plain"]
    cluster.tick(10)
    assert evictions(cluster)[2:] == ["important"]


def test_a_pod_gets_its_own_time_to_end_or_its_groups_if_that_is_shorter() -> None:
    limits = replace(installed.DRAIN, priority_groups=(PriorityGroup(priority=0, time=60),))
    cluster = a_cluster(TWO, [replica("slow", "n1", grace_seconds=3600), replica("quick", "n1")], limits=limits)
    cluster.begin("n1")
    cluster.tick(6)
    asked = [effect for effect in cluster.effects if isinstance(effect, Evict)]
    assert {effect.key.name: effect.grace_seconds for effect in asked} == {"slow": 60, "quick": None}


def test_a_blocked_eviction_is_asked_again_and_delays_its_own_node_alone() -> None:
    blocked = {"evict a": 3}

    def faults(what: str) -> str:
        blocked[what] = blocked.get(what, 0) - 1
        return "blocked" if blocked[what] >= 0 else "done"

    limits = replace(installed.DRAIN, retry_interval=10)
    cluster = a_cluster([*TWO, machine("n3")], [replica("a", "n1"), replica("b", "n2")], faults=faults, limits=limits)
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1", "n2")
    cluster.tick(10)
    assert cluster.how_it_ended() == {"n2": "removed"}
    cluster.tick(40)
    assert evictions(cluster).count("a") == 4
    assert cluster.how_it_ended()["n1"] == "removed"


def test_it_is_asked_again_as_soon_as_the_budget_allows_it() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], faults=lambda what: "blocked" if what == "evict a" else "done")
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1")
    cluster.tick(6)
    assert evictions(cluster) == ["a"]
    cluster.faults = lambda what: "done"
    cluster.tell(
        BudgetSeen(
            a_budget(
                "web",
                allowed=1,
                app="web",
            )
        )
    )
    cluster.tick(1.5)
    assert evictions(cluster) == ["a", "a"]


def test_an_eviction_that_is_blocked_for_too_long_is_rolled_back() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], faults=lambda what: "blocked" if what == "evict a" else "done")
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1")
    cluster.tick(140)
    assert cluster.how_it_ended() == {"n1": "EvictionTimeout"}
    assert cluster.ended[0].detail == "default/a: blocked"
    assert (cluster.tainted(), cluster.nodes["n1"].unschedulable) == ([], False)


def test_an_eviction_that_the_api_server_will_not_have_is_rolled_back_at_once() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], faults=lambda what: "refused" if what == "evict a" else "done")
    cluster.begin("n1")
    cluster.tick(8)
    assert cluster.how_it_ended() == {"n1": "EvictionRefused"}
    assert (cluster.tainted(), cluster.nodes["n1"].unschedulable) == ([], False)


def test_a_second_budget_in_the_middle_stops_the_drain_before_more_pods_go() -> None:
    """The Eviction API answers 500 for ever: who waits for it has evicted the others in vain."""
    groups = (PriorityGroup(priority=-100, time=30.0), PriorityGroup(priority=0, time=30.0))
    pods = [structs.replace(replica("low", "n1"), priority=-1, labels=()), replica("a", "n1"), replica("b", "n1")]
    cluster = a_cluster(TWO, pods, limits=replace(installed.DRAIN, priority_groups=groups))
    cluster.tell(BudgetSeen(a_budget("web", allowed=1, app="web")))
    cluster.begin("n1")
    cluster.tick(6)
    assert evictions(cluster) == ["low"]
    cluster.tell(BudgetSeen(a_budget("all", allowed=9)))
    cluster.tick(5)
    assert evictions(cluster) == ["low"]
    assert cluster.how_it_ended() == {"n1": "MultiplePdbs"}
    assert cluster.ended[0].detail == "default/a"


def test_with_force_a_pod_that_cannot_be_evicted_is_deleted() -> None:
    limits = replace(installed.DRAIN, force=True)
    cluster = a_cluster(
        TWO, [replica("a", "n1")], faults=lambda what: "blocked" if what == "evict a" else "done", limits=limits
    )
    cluster.tell(BudgetSeen(a_budget("web", allowed=0, app="web")))
    cluster.begin("n1")
    cluster.tick(150)
    assert "kill a" in cluster.log
    assert cluster.how_it_ended() == {"n1": "removed"}


def test_pods_that_do_not_end_in_time_are_rolled_back() -> None:
    limits = replace(installed.DRAIN, priority_groups=(PriorityGroup(priority=0, time=60),), headroom_seconds=30)
    cluster = a_cluster(TWO, [replica("a", "n1")], limits=limits, ends_after=1e9)
    cluster.begin("n1")
    cluster.tick(94)
    assert cluster.ended == []
    cluster.tick(4)
    assert cluster.how_it_ended() == {"n1": "DrainTimeout"}


def test_a_pod_that_must_not_be_moved_and_came_meanwhile_is_rolled_back() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")])
    cluster.begin("n1")
    cluster.add(replica("alone", "n1", owner=None))
    cluster.tick(20)
    assert (cluster.how_it_ended(), evictions(cluster)) == ({"n1": "NotReplicated"}, [])


def test_a_deletion_waits_for_annotations_and_not_for_ever() -> None:
    cluster = a_cluster([structs.replace(TWO[0], deletion_delayed=True), TWO[1]])
    cluster.begin("n1", empty=True)
    cluster.tick(100)
    assert "delete n1" not in cluster.log
    cluster.tick(40)
    assert cluster.how_it_ended() == {"n1": "removed"}


def test_daemon_sets_pods_are_evicted_and_the_drain_does_not_wait_for_them() -> None:
    daemon = replica("daemon", "n1", owner=Owner("apps", "DaemonSet", "agent"))
    cluster = a_cluster(TWO, [replica("a", "n1"), daemon], ends_after=5.0)
    cluster.begin("n1")
    cluster.tick(12)
    assert cluster.log == ["taint n1", "evict a", "evict daemon", "delete n1"]
    assert cluster.how_it_ended() == {"n1": "removed"}


def test_a_provider_that_will_not_delete_the_node_gives_it_back() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], faults=lambda what: "refused" if what == "delete n1" else "done")
    cluster.begin("n1")
    cluster.tick(20)
    assert (cluster.how_it_ended(), cluster.tainted()) == ({"n1": "NodeDeletionFailed"}, [])


def test_a_provider_that_gives_no_answer_is_asked_again() -> None:
    answers = iter(["unknown", "unknown", "done"])
    cluster = a_cluster(TWO, faults=lambda what: next(answers) if what == "delete n1" else "done")
    cluster.begin("n1", empty=True)
    cluster.tick(20)
    assert (cluster.log.count("delete n1"), cluster.how_it_ended()) == (3, {"n1": "removed"})


def test_a_roll_back_that_fails_is_tried_until_it_is_done() -> None:
    answers = iter(["unknown", "refused", "done"])

    def faults(what: str) -> str:
        return next(answers) if what == "untaint n1" else "refused" if what == "delete n1" else "done"

    cluster = a_cluster(TWO, faults=faults)
    cluster.begin("n1", empty=True)
    cluster.tick(60)
    assert cluster.log.count("untaint n1") == 3
    assert (cluster.how_it_ended(), cluster.tainted()) == ({"n1": "NodeDeletionFailed"}, [])


def test_a_person_cancels_a_drain_and_the_node_is_as_before() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1"), replica("b", "n1")], ends_after=100.0)
    cluster.begin("n1")
    cluster.tick(8)
    answer, effects = cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "asked for", Instant(cluster.now))
    cluster.carry_out(effects)
    cluster.tick(1)
    assert (answer, cluster.how_it_ended(), cluster.tainted()) == ("cancelled", {"n1": "Cancelled"}, [])
    assert not cluster.nodes["n1"].unschedulable


def test_what_was_asked_of_the_provider_cannot_be_cancelled() -> None:
    cluster = a_cluster(TWO)
    cluster.begin("n1", empty=True)
    cluster.provider_answers = False
    cluster.tick(10)
    now = Instant(cluster.now)
    assert cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "", now) == ("too-late", [])
    assert cluster.drains.cancel(NodeName("n2"), UnremovableReason.CANCELLED, "", now) == ("none", [])


def test_a_node_that_others_delete_needs_nothing_more() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], ends_after=100.0)
    cluster.begin("n1")
    cluster.tick(8)
    del cluster.nodes["n1"]
    cluster.tell(NodeGone(NodeName("n1")))
    cluster.tick(1)
    assert cluster.how_it_ended() == {"n1": "gone"}


def test_a_node_of_the_same_name_is_another_node() -> None:
    cluster = a_cluster(TWO, [replica("a", "n1")], ends_after=100.0)
    cluster.begin("n1")
    cluster.tick(8)
    cluster.tell(NodeGone(NodeName("n1")))
    cluster.nodes["n1"] = structs.replace(machine("n1"), uid="another")
    cluster.tell(NodeSeen(cluster.nodes["n1"]))
    cluster.tick(60)
    assert (cluster.how_it_ended(), "delete n1" in cluster.log) == ({"n1": "gone"}, False)


def test_a_removal_goes_on_after_a_restart_and_its_deadline_runs_from_the_taint() -> None:
    for age, want in ((100.0, "removed"), (3600.0, "DrainTimeout")):
        cluster = a_cluster(TWO, [replica("a", "n1")])
        order = DrainOrder(
            node=NodeName("n1"), uid="node-n1", group=GroupName("pool"), empty=False, stamp=UnixTime(EPOCH - age)
        )
        cluster.drains.resume([order], Instant(0.0), UnixTime(EPOCH))
        cluster.tick(30)
        assert cluster.how_it_ended() == {"n1": want}


def test_what_goes_on_is_counted_by_what_it_disturbs() -> None:
    cluster = a_cluster([*TWO, machine("n3")], [replica("a", "n1")], ends_after=100.0)
    cluster.begin("n1")
    cluster.begin("n2", empty=True)
    assert cluster.drains.under_way() == (2, 1)
    cluster.provider_answers = False
    cluster.tick(6)
    assert cluster.drains.under_way() == (2, 1)
    assert cluster.drains.nodes == {"n1": EPOCH, "n2": EPOCH}


def a_machine_pod(name: str, on: str, *, auto_migrate: bool = True) -> Pod:
    vertical = a_vertical(auto_migrate=auto_migrate, machine=f"vm-{name}", using=amounts("1", "4Gi"))
    return structs.replace(replica(name, on, owner=Owner("vm.neon.tech", "VirtualMachine", f"vm-{name}")), vertical=vertical)


def test_a_virtual_machine_is_migrated_and_not_evicted() -> None:
    cluster = a_cluster(TWO, [a_machine_pod("m", "n1"), replica("a", "n1")], elsewhere=False)
    cluster.tell(MachineSeen(Machine(key=PodKey("default", "vm-m"), uid="vm", resource_version=1, permit=None)))
    cluster.begin("n1")
    cluster.tick(7)
    asked = [(effect.key.name, effect.target_node) for effect in cluster.effects if isinstance(effect, CreateMigration)]
    assert (asked, evictions(cluster)) == ([("m", "n2")], ["a"])
    cluster.delete(next(pod.uid for pod in cluster.pods.values() if pod.key.name == "m"))
    cluster.tick(3)
    assert cluster.how_it_ended() == {"n1": "removed"}


@pytest.mark.parametrize("evicted", [False, True])
def test_a_machine_that_may_not_migrate_blocks_or_is_evicted_as_the_policy_says(evicted: bool) -> None:
    cluster = a_cluster(TWO, [a_machine_pod("m", "n1", auto_migrate=False)])
    cluster.state_machine.adopt_policy(
        replace(installed.POLICY, blocked_by=replace(installed.BLOCKED_BY, fixed_machines=not evicted))
    )
    cluster.begin("n1")
    cluster.tick(20)
    assert cluster.how_it_ended() == {"n1": "removed" if evicted else "MachineCannotMigrate"}


@pytest.mark.parametrize("how", ["a person cancels", "a pod blocks it"])
def test_a_machine_that_waits_for_its_turn_stays_where_it_is_once_the_removal_is_given_up(how: str) -> None:
    full = replica("full", "n2", "4")
    cluster = a_cluster(TWO, [a_machine_pod("m", "n1"), full], elsewhere=False)  # nowhere to go for now
    cluster.tell(MachineSeen(Machine(key=PodKey("default", "vm-m"), uid="vm", resource_version=1, permit=None)))
    cluster.begin("n1")
    cluster.tick(7)
    migrations = cluster.state_machine.drain_migrations
    assert list(migrations.waiting) == [PodUid("uid-m")]
    if how == "a person cancels":
        _, effects = cluster.drains.cancel(NodeName("n1"), UnremovableReason.CANCELLED, "asked for", Instant(cluster.now))
        cluster.carry_out(effects)
    else:
        cluster.add(replica("bare", "n1", "100m", owner=None))  # must not be moved
    cluster.tick(2)
    assert (migrations.waiting, cluster.tainted()) == ({}, [])
    cluster.delete(full.uid)
    cluster.tick(10)
    assert [effect for effect in cluster.effects if isinstance(effect, CreateMigration)] == []
