"""What nodes say, by row: what counts as news, and what is forgotten."""

from collections.abc import Callable

import pytest
from msgspec import structs

from slackwater.cluster.nodes import NodeTable
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.plugins.taint_toleration import judge_taint_toleration
from slackwater.model.ids import NodeName, Row
from slackwater.model.ledger import Ledger
from slackwater.model.objects import Image, Node, Taint
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.model.resources import MOST_PODS_ON_NODE
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import ABSENT, PODS, NodeFacts
from tests.support import installed
from tests.support.builders import a_node, amounts

NODE = structs.replace(a_node("n0", labels={"zone": "a"}), scalars=(("pods", 110),))
EVERY = slice(0, 3)

Change = Callable[[Node], Node]
#: Every change that some verdict reads, and whether what is kept of the nodes' rules is also out of date.
NEWS: dict[str, tuple[Change, bool]] = {
    "cordoned": (lambda node: structs.replace(node, unschedulable=True), True),
    "tainted": (lambda node: structs.replace(node, taints=(Taint("k", "", "NoSchedule"),)), True),
    "relabelled": (lambda node: structs.replace(node, labels={"zone": "b"}), True),
    "larger": (lambda node: structs.replace(node, allocatable=amounts("64", "256Gi")), False),
    "more pods": (lambda node: structs.replace(node, scalars=(("pods", 7),)), False),
    "a new resource": (lambda node: structs.replace(node, scalars=(("example.com/gpu", 1),)), False),
    "a new feature": (lambda node: structs.replace(node, features=("F",)), False),
}


def heartbeat(node: Node) -> Node:
    """The same said again: another version, not ready, other images, and no object that is shared with before."""
    return structs.replace(
        node,
        resource_version=node.resource_version + 1,
        ready=not node.ready,
        labels=dict(node.labels),
        taints=tuple(Taint(t.key, t.value, t.effect) for t in node.taints),
        images=(*node.images, Image(("new",), 7)),
    )


@pytest.fixture
def table() -> NodeTable:
    table = NodeTable(Ledger(), installed.NODES)
    for name in ("n0", "n1", "n2"):
        table.put(structs.replace(NODE, name=NodeName(name)))
    table.facts.label("zone")
    return table


def test_a_heartbeat_is_no_news(table: NodeTable) -> None:
    before = (table.rules_version, table.names_version, table.facts.journal.position, table.room_version.tolist())
    freed = set[int]()
    table.freed.add_reader(freed)
    again = heartbeat(NODE)
    assert not table.put(again)
    assert (table.rules_version, table.names_version, table.facts.journal.position, table.room_version.tolist()) == before
    assert not freed
    assert table.by_row[0] is again
    assert table.facts.nodes[0] is again


@pytest.mark.parametrize(("change", "want_rules"), NEWS.values(), ids=NEWS.keys())
def test_what_a_verdict_reads_is_news(table: NodeTable, change: Change, want_rules: bool) -> None:
    rules, position = table.rules_version, table.facts.journal.position
    table.put(change(NODE))
    assert (table.rules_version > rules) is want_rules
    assert table.facts.journal.since(position, at_most=9) == [0]


def test_after_a_heartbeat_nothing_is_judged_again() -> None:
    snapshot = ClusterSnapshot.build([structs.replace(NODE, name=NodeName(f"n{i}")) for i in range(100)])
    kind = snapshot.kind_id(Kind(namespace="default", requests=amounts("1", "1Gi"), node_selector=(("zone", "a"),)))
    feasible(snapshot, kind)
    judged = snapshot.rows_judged
    snapshot.put_node(Row(0), heartbeat(NODE))
    assert feasible(snapshot, kind).feasible.all()
    assert snapshot.rows_judged == judged
    snapshot.put_node(Row(0), structs.replace(NODE, labels={}))
    assert feasible(snapshot, kind).codes[0] == Reason.NODE_AFFINITY
    assert 0 < snapshot.rows_judged - judged < 10


def test_a_heartbeat_brings_a_closed_row_back(table: NodeTable) -> None:
    table.drop(NodeName("n0"))
    assert table.put(NODE)
    assert table.facts.live[0]


def test_images_are_news_to_scores_alone() -> None:
    facts = NodeFacts()
    facts.add([NODE])
    assert facts.image("new")[0] == 0
    assert not facts.put(Row(0), heartbeat(NODE))
    size, rows = facts.image("new")
    assert size == 7
    assert rows[0]


def test_values_that_no_node_has_any_more_are_forgotten() -> None:
    """Clusters that come and go bring host names, and taints with times in them, for ever."""
    facts = NodeFacts()
    facts.add(structs.replace(NODE, name=NodeName(f"n{i}")) for i in range(3))
    zone = facts.label("zone")
    for turn in range(2_000):
        node = structs.replace(NODE, labels={"zone": f"z{turn}"}, taints=(Taint("deleted-at", str(turn), "NoSchedule"),))
        facts.put(Row(1), structs.replace(node, name=NodeName(f"turn-{turn}")))
    assert len(zone.values) < 300
    assert len(facts.taints.values) < 300
    assert [zone.values[n] for n in zone.ids[:3]] == ["a", "z1999", "a"]
    assert zone.known("z7") == ABSENT
    judged = judge_taint_toleration(facts, Kind(namespace="default", requests=amounts()), EVERY)
    assert judged.tolist() == [Reason.OK, Reason.TAINT_NOT_TOLERATED, Reason.OK]


def test_trials_leave_no_values_behind() -> None:
    facts = NodeFacts()
    facts.add([NODE])
    hosts = facts.label("kubernetes.io/hostname")
    template = structs.replace(NODE, labels={"kubernetes.io/hostname": "template"})
    for turn in range(500):
        facts.add_copies(template, [NodeName(f"new-{turn}-{i}") for i in range(5)])
        facts.truncate(1)
    assert len(hosts.values) < 300


def test_columns_of_labels_are_bounded() -> None:
    facts = NodeFacts()
    facts.add([structs.replace(NODE, labels={f"key-{i}": "x" for i in range(3_000)})])
    for i in range(3_000):
        assert facts.label(f"key-{i}").known("x") == 0
    assert facts.label("key-0").known("x") == 0
    assert len(facts._labels) <= 1_024


def test_a_node_that_reports_more_pods_than_can_be_summed_is_counted_with_fewer(table: NodeTable) -> None:
    table.put(structs.replace(NODE, scalars=(("pods", 100_000),)))
    assert table.facts.allocatable[PODS, table.row_of[NODE.name]] == MOST_PODS_ON_NODE
