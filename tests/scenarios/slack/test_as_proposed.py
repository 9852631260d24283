"""Resource slack as its proposal asks for it: R1 to R10 and S1 to S7, each by its letter.

R10 is a benchmark too (`tests.bench --only simulate`); here the work is counted, at a size that takes a moment. S7 is tested
on a real API server too, in `tests/cluster`.
"""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.controllers.scaledown.plan import plan_scale_down
from slackwater.controllers.scaledown.planning_input import PlanningInput
from slackwater.controllers.scaledown.state import ScaleDownPlan, ScaleDownState
from slackwater.controllers.slack.planning_input import PodHeadroom
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import PPM, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod, Taint
from slackwater.model.placeholders import is_placeholder
from slackwater.model.pod_constraints import Kind, PodConstraints, PodTerm
from slackwater.model.reasons import UnremovableReason
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.node_facts import HOSTNAME
from slackwater.snapshot.running_pods import RunningPods
from tests.support import installed
from tests.support.builders import a_pod, amounts
from tests.support.scalingup import a_group, a_template, grown
from tests.support.slackening import Cluster, a_machine, a_rule, held

GIB = 1 << 30


def machines(count: int, **more: Any) -> list[Node]:
    return [a_machine(f"n{number}", **more) for number in range(count)]


def a_replica(name: str, *, on: str | None = None, cpu: str = "1", memory: str = "1Gi", **more: Any) -> Pod:
    return structs.replace(
        a_pod(name, on=on, cpu=cpu, memory=memory, **more),
        eviction_facts=EvictionFacts(owner=Owner("apps", "ReplicaSet", "web")),
    )


def kinds(cluster: Cluster) -> int:
    return len({each.pod.kind for each in cluster.placeholders})


# --- the requirements -----------------------------------------------------------------------------------------------------


def test_r1_a_loop_costs_passes_over_kinds_and_not_over_pods_and_nodes() -> None:
    """R1: no O(pods * nodes) in every loop. A loop where nothing changed judges a few times the number of nodes."""
    cluster = Cluster(nodes=machines(60), pods=[a_replica(f"p{n}", on=f"n{n % 60}") for n in range(120)], rules=[a_rule(0.2)])
    judged = []
    for _ in range(3):
        before = _rows_judged(cluster)
        judged.append(before)
    assert len(cluster.placeholders) == 60
    assert max(judged) <= 20 * 60  # 60 placeholders and 180 pods on 60 nodes: 14,400 if each were tried on each


def _rows_judged(cluster: Cluster) -> int:
    counts: list[int] = []
    build = ClusterSnapshot.build

    def counted(*args: Any, **more: Any) -> ClusterSnapshot:
        snapshot = build(*args, **more)
        snapshots.append(snapshot)
        return snapshot

    snapshots: list[ClusterSnapshot] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterSnapshot, "build", counted)
        cluster.loop()
    counts.append(snapshots[-1].rows_judged)
    return counts[-1]


def test_r1_1_one_pass_over_the_nodes_for_each_kind_of_placeholder() -> None:
    """R1-1: however many placeholders there are, they are of few kinds, and each kind costs the same."""
    few, many = (Cluster(nodes=machines(50), rules=[a_rule(0.5, granularity=g)]) for g in (2, 40))
    judged = [_rows_judged(few), _rows_judged(many)]
    assert (len(few.placeholders), len(many.placeholders)) == (50, 1000)
    assert kinds(many) <= 3
    assert judged[1] <= 3 * judged[0]


def test_r1_2_placeholders_stay_where_they_are() -> None:
    """R1-2: a placeholder that was put on a node is there again in the next loop, whatever comes elsewhere."""
    cluster = Cluster(nodes=machines(10), rules=[a_rule(0.2)])
    cluster.loop()
    before = cluster.places()
    cluster.pods = [a_replica(f"p{n}", on=f"n{n}") for n in range(3)]
    cluster.nodes.append(a_machine("late"))
    cluster.loop()
    kept = {number: place for number, place in cluster.places().items() if number in before}
    free = {number for number, place in before.items() if place not in ("n0", "n1", "n2")}
    assert {number: kept[number] for number in free} == {number: before[number] for number in free}


@pytest.mark.parametrize(("nodes", "rate"), [(10, 0.1), (3, 0.1), (7, 0.25), (1, 0.01), (10, 0.999)])
def test_r2_at_least_the_amount_that_was_asked_for(nodes: int, rate: float) -> None:
    """R2: of CPU and of memory, to the unit; and not a placeholder too many."""
    cluster = Cluster(nodes=machines(nodes, cpu="3333m", memory="10Gi"), rules=[a_rule(rate)])
    cluster.loop()
    has, ppm = held(cluster), round(rate * PPM)
    assert has.cpu * PPM >= ppm * 3333 * nodes
    assert has.memory * PPM >= ppm * 10 * GIB * nodes
    assert (has.cpu - 1) * PPM < ppm * 3333 * nodes
    assert len(cluster.placeholders) == -(-nodes * 5 * ppm // PPM)


def test_r2_marked_workloads_may_make_it_more() -> None:
    """R2: the rate is a minimum; what is mirrored comes on top of it."""
    cluster = Cluster(nodes=machines(10), rules=[a_rule(0.1)])
    cluster.pod_headroom = (PodHeadroom(source="pod default/big", kind=a_pod("big", cpu="3").kind, labels=(), count=2),)
    cluster.loop()
    assert held(cluster).cpu == 4000 + 6000


def test_r3_scale_down_takes_nodes_as_if_placeholders_were_pods_that_move() -> None:
    """R3: an empty node and one with a placeholder alone go, as long as all placeholders fit elsewhere; then no more."""
    cluster = Cluster(nodes=machines(6), pods=[a_replica("p", on="n0")], rules=[a_rule(least=amounts("6", "6Gi"))])
    cluster.loop()
    plan = removals(cluster)
    left = {"n0", "n1", "n2", "n3", "n4", "n5"} - {found.node for found in plan.removable}
    assert len(left) == 2  # 7 of CPU in nodes of 4
    kept = {one.node: one for one in plan.kept}
    assert {kept[NodeName(name)].unremovable_reason for name in left} <= {
        UnremovableReason.DESTINATION,
        UnremovableReason.SLACK_NEEDED,
    }


def test_r3_a_placeholder_is_never_in_the_way_as_a_pod_that_may_not_be_moved() -> None:
    """R3: whatever the rules of draining say about pods, no node stays because a placeholder may not leave it."""
    cluster = Cluster(nodes=machines(2), rules=[a_rule(least=amounts("2", "2Gi"))])
    cluster.loop()
    plan = removals(cluster)
    assert len(plan.removable) == 1
    assert plan.removable[0].empty  # nobody is evicted
    assert plan.removable[0].removal_score.pods == 0


def removals(cluster: Cluster) -> ScaleDownPlan:
    snapshot = ClusterSnapshot.build(cluster.nodes, cluster.pods)
    group = a_group("g", size=len(cluster.nodes)).group
    planning_input = PlanningInput(
        snapshot=snapshot,
        running_pods=RunningPods(snapshot, cluster.pods),
        groups={GroupName("g"): group},
        group_of={node.name: GroupName("g") for node in cluster.nodes},
        placeholders=tuple(each.pod for each in cluster.placeholders if each.place is not None),
    )
    return plan_scale_down(ScaleDownState(), planning_input, installed.SCALE_DOWN, now=UnixTime(1e9))


def test_r4_one_knob_is_enough() -> None:
    """R4: a rate alone gives slack, on every node, in pieces that fit."""
    cluster = Cluster(nodes=machines(10), rules=[a_rule(0.1)])
    cluster.loop()
    assert [each.place is not None for each in cluster.placeholders] == [True] * 5


def test_r5_no_node_is_larger_than_what_has_to_fit_there() -> None:
    """R5: of two groups whose nodes both take the placeholders, the smaller are bought, though the larger waste less."""
    large = a_group("a-large", a_template("large", cpu="16", memory="64Gi", labels={"type": "large"}))
    small = a_group("z-small", a_template("small", cpu="2", memory="8Gi", labels={"type": "small"}))
    full = [a_replica(f"p{n}", on=f"n{n}", cpu="4", memory="16Gi") for n in range(10)]
    cluster = Cluster(nodes=machines(10), pods=full, groups=[large, small], rules=[a_rule(0.38, granularity=3, sizing="v1")])
    found = cluster.loop()
    assert grown(found.plan) == {"z-small": 12}
    cluster.rules = [a_rule(0.38, granularity=1)]
    cluster.restart()
    assert grown(cluster.loop().plan) == {"a-large": 1}  # pieces of 3.8: no small node takes one


def test_r6_there_is_room_for_the_largest_pod() -> None:
    """R6: as large as the pod with the most CPU and the pod with the most memory; but a database keeps no node warm."""
    database = structs.replace(
        a_pod("db", on="n0", cpu="4", memory="15Gi"), eviction_facts=EvictionFacts(owner=Owner("apps", "StatefulSet", "db"))
    )
    pods = [a_replica("wide", on="n1", cpu="3", memory="1Gi"), a_replica("high", on="n2", cpu="500m", memory="12Gi"), database]
    cluster = Cluster(nodes=machines(6), pods=pods, rules=[a_rule(0.01, sizing="v2")])
    cluster.loop()
    assert [each.pod.kind.requests for each in cluster.placeholders] == [amounts("3", "12Gi")]
    assert cluster.placeholders[0].place is not None


def test_r6_two_placeholders_where_no_node_has_both() -> None:
    """R6, where the pods with the most CPU and with the most memory run on machines of different kinds."""
    nodes = [a_machine("cpu0", cpu="16", memory="8Gi"), a_machine("mem0", cpu="2", memory="64Gi")]
    nodes += [a_machine("cpu1", cpu="16", memory="8Gi"), a_machine("mem1", cpu="2", memory="64Gi")]
    pods = [a_replica("wide", on="cpu0", cpu="12", memory="2Gi"), a_replica("high", on="mem0", cpu="1", memory="48Gi")]
    cluster = Cluster(nodes=nodes, pods=pods, rules=[a_rule(0.01, sizing="v2")])
    cluster.loop()
    assert sorted((each.pod.kind.requests, each.place) for each in cluster.placeholders) == [
        (amounts("1", "48Gi"), "mem1"),
        (amounts("12", "2Gi"), "cpu1"),
    ]


def test_r7_there_is_room_for_every_pod_that_is_not_the_largest() -> None:
    """R7: 1 CPU with 1 Gi, 10m with 10 Gi; one of 500m and 5 Gi has to find room too, on one node."""
    pods = [a_replica("wide", on="n1", cpu="1", memory="1Gi"), a_replica("high", on="n2", cpu="10m", memory="10Gi")]
    cluster = Cluster(nodes=machines(4), pods=pods, rules=[a_rule(0.1, sizing="v2")])
    cluster.loop()
    between = amounts("500m", "5Gi")
    assert any(between.within(each.pod.kind.requests) for each in cluster.placeholders if each.place is not None)


def apart(name: str, **labels: str) -> Kind:
    own = (Requirement("app", "In", ("a",)),)
    term = PodTerm(topology_key=HOSTNAME, selector=own, namespaces=("default",))
    return replace(a_pod(name, cpu="1", memory="1Gi").kind, pod_constraints=PodConstraints(anti_affinity=(term,)))


def test_r8_room_for_pods_that_keep_apart() -> None:
    """R8: a placeholder for each on a node of its own, where none of these pods stands; what finds none buys nodes."""
    kind, labels = apart("a"), (("app", "a"),)
    running_pods = structs.replace(a_pod("a", on="n0"), kind=kind, labels=labels)
    cluster = Cluster(nodes=machines(3), pods=[running_pods], groups=[a_group("g")])
    cluster.pod_headroom = (PodHeadroom(source="apart", kind=kind, labels=labels, count=4),)
    found = cluster.loop()
    assert sorted(str(place) for place in cluster.places().values() if place) == ["n1", "n2"]
    assert grown(found.plan) == {"g": 2}


def test_r9_room_where_node_selectors_and_taints_let_the_pods() -> None:
    """R9: room for a group of nodes is on these nodes, tainted or not; a mirrored pod's selector holds too."""
    taint = Taint("dedicated", "batch", "NoSchedule")
    batch = [structs.replace(a_machine(f"b{n}", pool="batch"), taints=(taint,)) for n in range(5)]
    cluster = Cluster(nodes=[*machines(5), *batch], rules=[a_rule(0.2, name="batch", labels={"pool": "batch"})])
    cluster.pod_headroom = (
        PodHeadroom(source="pod", kind=a_pod("p", node_selector={HOSTNAME: "n3"}).kind, labels=(), count=1),
    )
    cluster.loop()
    by_source = {each.source: each.place for each in cluster.placeholders}
    assert {str(each.place)[0] for each in cluster.placeholders if each.source == "batch"} == {"b"}
    assert (by_source["pod"], held(cluster).cpu) == ("n3", 4000 + 500)


def test_r10_ten_times_the_cluster_costs_ten_times_the_rows_and_no_more() -> None:
    """R10: work grows with the nodes alone. The seconds at 5,000 nodes and 150,000 pods are a benchmark's."""
    counts = []
    for size in (40, 400):
        cluster = Cluster(nodes=machines(size), rules=[a_rule(0.1)])
        cluster.loop()
        counts.append(_rows_judged(cluster))
    assert counts[1] <= 12 * counts[0]


# --- the specifications -------------------------------------------------------------------------------------------------


def test_s1_pods_of_a_kind_are_not_tried_one_by_one() -> None:
    """S1 (to be done in the proposal; it points to R1-1): a kind that fits nowhere is judged once for all its placeholders."""
    full = [a_replica(f"p{n}", on=f"n{n}", cpu="4") for n in range(20)]
    one = Cluster(nodes=machines(20), pods=full, rules=[a_rule(least=amounts("800m", "1Gi"))])
    many = Cluster(nodes=machines(20), pods=full, rules=[a_rule(least=amounts("80", "100Gi"))])
    judged = [_rows_judged(one), _rows_judged(many)]
    assert (len(one.placeholders), len(many.placeholders)) == (1, 100)
    assert judged[1] <= judged[0] + 40


def test_s2_only_what_was_pushed_off_moves_and_numbers_stay() -> None:
    """S2, steps 1 to 4: pods push placeholders off the nodes they fill; these are placed again, the others are not touched."""
    cluster = Cluster(nodes=machines(5), rules=[a_rule(least=amounts("8", "8Gi"), granularity=4)])
    cluster.loop()
    before = cluster.places()
    crowded = next(iter(set(before.values())))
    cluster.pods = [a_replica("p", on=str(crowded), cpu="2", memory="1Gi")]
    cluster.loop()
    after = cluster.places()
    assert after.keys() == before.keys() == set(range(8))
    moved = {number for number in before if before[number] != after[number]}
    assert (len(moved), {before[number] for number in moved}) == (2, {crowded})
    assert all(cluster.used(node.name).cpu <= 4000 for node in cluster.nodes)


def test_s2_a_restart_finds_the_same_places_where_the_cluster_is_the_same() -> None:
    """S2 across restarts: nothing is stored, and the same cluster gives the same placeholders on the same nodes."""
    cluster = Cluster(nodes=machines(8), pods=[a_replica(f"p{n}", on=f"n{n}") for n in range(5)], rules=[a_rule(0.3)])
    cluster.loop()
    before = cluster.places()
    cluster.loop()
    cluster.restart()
    cluster.loop()
    assert cluster.places() == before


def test_s2_fewer_are_wanted_only_after_a_while_and_those_without_a_place_go_first() -> None:
    """S2, step 4, with hysteresis: the cluster shrinks and grows again; placeholders do not come and go with it."""
    cluster = Cluster(nodes=machines(10), rules=[a_rule(0.2)], shrink_seconds=60.0)
    cluster.loop()
    last = cluster.nodes.pop()
    cluster.loop()
    assert len(cluster.placeholders) == 10
    cluster.nodes.append(last)
    cluster.loop(seconds=100.0)
    cluster.nodes.pop()
    for _ in range(6):
        assert len(cluster.placeholders) == 10
        cluster.loop()
    cluster.loop()
    assert len(cluster.placeholders) == 9


@pytest.mark.parametrize("sizing", ["v1", "v2"])
def test_s3_every_placeholder_fits_a_node(sizing: str) -> None:
    """S3: also where the average node is one that nobody has."""
    nodes = [a_machine("a", cpu="64", memory="2Gi"), a_machine("b", cpu="1", memory="256Gi")]
    pods = [a_replica("p", on="a", cpu="60", memory="1Gi"), a_replica("q", on="b", cpu="1", memory="200Gi")]
    cluster = Cluster(nodes=nodes, pods=pods, rules=[a_rule(0.3, sizing=sizing, granularity=1)])
    cluster.loop()
    assert cluster.placeholders
    for each in cluster.placeholders:
        assert any(each.pod.kind.requests.within(node.allocatable) for node in nodes)


def test_s4_one_replica_set_looks_as_if_it_made_all_placeholders() -> None:
    """S4: rates, groups of nodes and mirrored pods alike."""
    cluster = Cluster(nodes=machines(4), rules=[a_rule(0.2), a_rule(0.1, name="other", labels={HOSTNAME: "n0"})])
    cluster.pod_headroom = (PodHeadroom(source="pod", kind=a_pod("p").kind, labels=(), count=1),)
    cluster.loop()
    pods = [each.pod for each in cluster.placeholders]
    assert {pod.eviction_facts.owner for pod in pods} == {Owner("apps", "ReplicaSet", "slack")}
    assert [str(pod.key) for pod in pods] == [f"slack/{number}" for number in range(len(pods))]
    assert all(map(is_placeholder, pods))
    assert len({each.source for each in cluster.placeholders}) == 3


@pytest.mark.parametrize(("rate", "want"), [(0.0, 0), (0.1, 5), (0.5, 25), (1.0, 50)])
def test_s5_the_rate_is_of_the_clusters_capacity(rate: float, want: int) -> None:
    """S5: ten nodes in five pieces each. The proposal's own arithmetic gives 50 pieces whatever the rate (ADR 70)."""
    cluster = Cluster(nodes=machines(10), rules=[a_rule(rate)])
    cluster.loop()
    assert (len(cluster.placeholders), held(cluster).cpu) == (want, round(40_000 * rate))


def test_s6_no_placeholder_is_larger_than_the_largest_pod() -> None:
    """S6: pods of at most 500m and 2 Gi on nodes of 16 CPU; an average fifth would be 3.2 CPU."""
    pods = [a_replica("p", on="n0", cpu="500m", memory="1Gi"), a_replica("q", on="n0", cpu="100m", memory="2Gi")]
    cluster = Cluster(nodes=machines(5, cpu="16", memory="64Gi"), pods=pods, rules=[a_rule(0.1, sizing="v2")])
    cluster.loop()
    assert held(cluster).cpu >= 8000
    assert held(cluster).memory >= 32 * GIB
    assert all(each.pod.kind.requests.within(amounts("500m", "2Gi")) for each in cluster.placeholders)


def test_s7_marked_workloads_get_placeholders_like_their_pods() -> None:
    """S7: with the pod's amounts, labels, selectors and tolerations; more than the standard size, if the pod is larger."""
    pod = a_pod("p", cpu="3", memory="2Gi", labels={"app": "web"}, node_selector={HOSTNAME: "n2"})
    cluster = Cluster(nodes=machines(3), rules=[a_rule(0.1)])
    cluster.pod_headroom = (PodHeadroom(source="deployment default/web", kind=pod.kind, labels=pod.labels, count=1),)
    cluster.loop()
    (pod_headroom,) = [each for each in cluster.placeholders if each.source == "deployment default/web"]
    assert (pod_headroom.pod.kind, pod_headroom.pod.labels, pod_headroom.place) == (pod.kind, pod.labels, "n2")
