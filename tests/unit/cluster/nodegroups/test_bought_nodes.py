"""What is remembered of a group's last purchase: which nodes, for how long, and what of it is about one machine only."""

from dataclasses import replace

from msgspec import structs

from slackwater.cluster.nodegroups.purchases import BoughtNodes
from slackwater.cluster.nodegroups.status import NodeObservation
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import InstanceId
from slackwater.model.objects import Node, Taint
from tests.support.builders import a_node, a_pod
from tests.support.nodegroups import a_group

DAY = 86_400.0
PROBLEM = Taint("problem", "", "NoSchedule")


class Group:
    """A group that promises nodes of 4 CPUs."""

    def __init__(self) -> None:
        self.bought = BoughtNodes()
        self.group = replace(a_group("g"), template=a_node("template", cpu="4"))
        self.sees(now=0)

    def sees(self, *asked: tuple[Node, float], now: float, doubted: bool = False) -> list[str]:
        """The names that are remembered once these nodes of ours were seen. `asked`: each with the time of its request."""
        found = {InstanceId(node.name): _observed(node) for node, _ in asked}
        asked_at = {InstanceId(node.name): Instant(at) for node, at in asked}
        marked = frozenset(found if doubted else ())
        self.bought.observe(self.group, found, asked_at, arrived=found, doubted=marked, now=Instant(now))
        return [each.node.name for each in self.bought.nodes()]


def _observed(node: Node) -> NodeObservation:
    return NodeObservation(node.name, True, None, ready=True, node=node, daemons=(a_pod("logs", on=node.name),))


def test_nodes_of_the_last_purchase_are_remembered_also_when_they_are_gone() -> None:
    group = Group()
    assert group.sees((a_node("a"), 10), now=50) == ["a"]
    many = [(a_node(f"b{number}"), 100.0) for number in range(5)]
    assert group.sees((a_node("a"), 10), *many, now=150) == ["b0", "b1", "b2"]
    assert group.sees(now=DAY) == ["b0", "b1", "b2"]
    (gone, *_) = group.bought.nodes()
    assert (gone.there, [pod.key.name for pod in gone.running_pods]) == (False, ["logs"])
    assert group.sees(now=101 + DAY) == [], "after a day another machine may be tried"


def test_taints_that_a_node_gets_later_are_its_own() -> None:
    group = Group()
    node = a_node("a", labels={"rack": "1"}, taints=[Taint("dedicated", "", "NoSchedule")])
    group.sees((node, 10), now=50)
    later = structs.replace(node, taints=(*node.taints, PROBLEM), labels={"rack": "1", "found": "later"})
    group.sees((later, 10), now=60)
    (seen,) = group.bought.nodes()
    assert ([taint.key for taint in seen.node.taints], set(seen.node.labels)) == (["dedicated"], {"rack", "found"})


def test_another_promise_ends_what_was_learned_under_the_old_one() -> None:
    group = Group()
    group.sees((a_node("a"), 10), now=50)
    group.group = replace(group.group, template=a_node("other-name", cpu="4"))
    assert group.sees((a_node("a"), 10), now=60) == ["a"], "only the template's name is another"
    group.group = replace(group.group, template=a_node("template", cpu="8"))
    assert group.sees((a_node("a"), 10), now=70) == []
    assert group.sees((a_node("a"), 10), (a_node("b"), 80), now=90) == ["b"]


def test_a_machine_that_may_be_broken_is_believed_when_a_second_one_is_the_same() -> None:
    group = Group()
    assert group.sees((a_node("a"), 10), now=50, doubted=True) == []
    assert group.sees((a_node("b"), 100), now=150, doubted=True) == ["b"]
    other = Group()
    other.sees((a_node("a"), 10), now=50, doubted=True)
    assert other.sees((a_node("b"), 100), now=150) == ["b"]
    assert other.sees((a_node("c"), 200), now=250, doubted=True) == ["b"], "between them one was as expected"
