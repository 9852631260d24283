"""The pods that move from each row are noted until the row's pods change."""

from dataclasses import replace

from msgspec import structs

from slackwater.controllers.scaledown.row_movers import RowMovers
from slackwater.fit.drainability import RuleFacts
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, NodeName
from slackwater.model.objects import Pod
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support import installed
from tests.support.builders import a_budget
from tests.support.removing import NOW, machine, replica


def a_replica(*pods: Pod) -> SnapshotReplica:
    found = SnapshotReplica()
    node = machine("n-0")
    changes = [PodChange(pod.uid, pod) for pod in pods]
    found.take(Changes(generation=Generation(1), nodes=[NodeChange(node.name, node)], pods=changes))
    return found


def movers(cluster: SnapshotReplica, allowed: int = 1) -> list[str] | None:
    """The names of the pods that may leave the node, by the notes; None if the pods have to be judged one by one."""
    disruptions = Disruptions([a_budget("web", allowed=allowed)])
    facts = RuleFacts(now=NOW, policy=installed.SCALE_DOWN.blocked_by, disruptions=disruptions)
    found = RowMovers(cluster, cluster.snapshot.facts.nodes, facts).free(cluster.row_of(NodeName("n-0")))
    return None if found is None else [pod.key.name for pod, _ in found.pods]


def test_a_note_follows_pods_that_come_and_go_and_change() -> None:
    first, second = replica("a", "n-0"), replica("b", "n-0")
    cluster = a_replica(first)
    assert movers(cluster) == ["a"]
    cluster.take_pods([PodChange(second.uid, second)])
    assert movers(cluster) == ["a", "b"]
    must_stay = replace(first.eviction_facts, safe_to_evict="false")
    cluster.take_pods([PodChange(first.uid, structs.replace(first, eviction_facts=must_stay))])
    assert movers(cluster) is None
    cluster.take_pods([PodChange(first.uid, None)])
    assert movers(cluster) == ["b"]


def test_budgets_are_asked_each_time() -> None:
    cluster = a_replica(replica("a", "n-0"))
    assert movers(cluster, allowed=1) == ["a"]
    assert movers(cluster, allowed=0) is None


def test_what_time_may_change_is_not_noted() -> None:
    pod = replica("a", "n-0")
    for_a_while = replace(pod.eviction_facts, do_not_disrupt=60.0)
    assert movers(a_replica(structs.replace(pod, eviction_facts=for_a_while))) is None
    assert movers(a_replica(structs.replace(pod, overdue_at=NOW))) is None
