"""Answers that are kept equal answers that are worked out again, whatever changed in between; and they stay cheap."""

from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.app.offline import Cluster, read_cluster
from slackwater.fit.assumed_claims import assume_claims
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Node, Taint
from slackwater.model.pod_constraints import HostPort, Kind, PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, ClaimRef
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counters import Counters
from slackwater.snapshot.equivalence_groups import KindId
from tests.oracle.generator import generate
from tests.support.builders import a_node, amounts

_WHAT: Final = (
    *("place", "remove", "place", "taint", "relabel", "close", "open"),
    *("grow", "trial", "select", "reserve", "lose", "number"),
)
steps = st.lists(
    st.tuples(st.sampled_from(_WHAT), st.integers(0, 99), st.integers(0, 99)),
    min_size=1,
    max_size=12,
)


def a_snapshot(cluster: Cluster) -> ClusterSnapshot:
    return ClusterSnapshot.build(cluster.nodes, cluster.pods, namespaces=cluster.namespaces, storage=cluster.storage)


def without_kept_answers(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """A copy that has to work out every answer, every count of pods, and every index of its volumes again."""
    fresh = deepcopy(snapshot)
    fresh.kept.clear()
    fresh._volume_counts = None
    fresh.put_storage(fresh.volumes.assumed())
    fresh.counters = Counters(fresh.namespaces, fresh.facts.capacity)
    for numbered in fresh.kinds.all:
        fresh.counters.learn(numbered)
        for row, count in snapshot.counters.rows_of(numbered.id).items():
            fresh.counters.change(numbered.id, row, count)
    return fresh


class Changing:
    """A snapshot to which things happen, some of them inside a trial that is dropped."""

    def __init__(self, number: int) -> None:
        cluster = read_cluster(generate(43, number))
        self.snapshot = a_snapshot(cluster)
        pods = [pod for pod in cluster.pods if not pod.ended]
        self.kinds = list(dict.fromkeys(self.snapshot.kind_id(p.kind, p.labels, deleting=p.deleting) for p in pods))
        self._placed: list[tuple[KindId, int]] = []

    def happen(self, what: str, one: int, other: int) -> None:  # one case for each event
        snapshot, row, kind = self.snapshot, Row(one % self.snapshot.n_rows), self.kinds[other % len(self.kinds)]
        node = snapshot.facts.nodes[row]
        match what:
            case "place":
                snapshot.place(kind, row)
                self._placed.append((kind, row))
            case "remove" if self._placed:
                snapshot.remove(*self._placed.pop(one % len(self._placed)))
            case "grow":
                snapshot.add_nodes([structs.replace(node, name=NodeName(f"new-{snapshot.n_rows}-{other}"))])
            case "select" if claims := snapshot.volumes.assumed().claims:
                claim = list(claims.values())[other % len(claims)]
                snapshot.assume_claim(replace(claim, selected_node=node.name))
            case "reserve" if volumes := snapshot.volumes.assumed().volumes:
                claims = snapshot.volumes.objects.claims or {("default", "x"): Claim(namespace="default", name="x")}
                namespace, name = list(claims)[one % len(claims)]
                volume = list(volumes.values())[other % len(volumes)]
                snapshot.assume_volume(replace(volume, claim=ClaimRef(namespace=namespace, name=name)))
            case "lose" if snapshot.volumes.objects.volumes:
                storage = snapshot.volumes.assumed()
                kept = list((storage.volumes or {}).values())
                del kept[other % len(kept)]
                snapshot.put_storage(replace(storage, volumes={volume.name: volume for volume in kept}))
            case "number":
                snapshot.kind_id(snapshot.of(kind).kind, deleting=bool(one % 2))
            case "trial":
                with snapshot.fork():
                    self._look_and_change(row, kind)
            case _:
                self._change_node(what, row, node, other)

    def _change_node(self, what: str, row: Row, node: Node, value: int) -> None:
        match what:
            case "taint":
                self.snapshot.put_node(row, structs.replace(node, taints=(Taint("dedicated", str(value % 3), "NoSchedule"),)))
            case "relabel":
                self.snapshot.put_node(row, structs.replace(node, labels={**node.labels, "rack": f"k{value % 4}"}))
            case "close":
                self.snapshot.close(row)
            case "open":
                self.snapshot.open(row)
            case _:
                pass  # nothing was placed that could be removed

    def _look_and_change(self, row: Row, kind: KindId) -> None:
        self.answers()
        self.snapshot.place(kind, row, copies=2)
        self.snapshot.add_copies(self.snapshot.facts.nodes[row], [NodeName("copy-0"), NodeName("copy-1")])
        if feasible(self.snapshot, kind).feasible[row]:
            assume_claims(self.snapshot, kind, row)
        self.snapshot.place(kind, self.snapshot.n_rows - 1)
        self.answers()

    def answers(self) -> list[list[int]]:
        return [feasible(self.snapshot, kind).codes.tolist() for kind in self.kinds]

    def rebuild(self) -> list[list[int]]:
        fresh = without_kept_answers(self.snapshot)
        return [feasible(fresh, kind).codes.tolist() for kind in self.kinds]


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 100_000), happened=steps)
def test_kept_answers_equal_new_ones(number: int, happened: list[tuple[str, int, int]]) -> None:
    changing = Changing(number)
    changing.answers()
    for step in happened:
        changing.happen(*step)
        assert changing.answers() == changing.rebuild(), step


_APP: Final = (Requirement("app", "In", ("web",)),)
_TERM: Final = PodTerm(topology_key="zone", selector=_APP, namespaces=("default",))
_SPREAD: Final = SpreadConstraint(hard=True, max_skew=5, topology_key="zone", selector=_APP)


def _large(n_nodes: int) -> ClusterSnapshot:
    nodes = [
        structs.replace(a_node(f"n{i}", labels={"zone": f"z{i % 3}"}), scalars=(("pods", 110), ("ephemeral-storage", 1 << 40)))
        for i in range(n_nodes)
    ]
    return ClusterSnapshot.build(nodes, also=[_kind(0, anti_affinity=(_TERM,), spread=(_SPREAD,))])


def _kind(number: int, **asks: Any) -> Kind:
    return Kind(
        namespace="default",
        requests=amounts(f"{100 + number}m", "1Gi"),
        node_selector=(("zone", f"z{number % 3}"),),
        pod_constraints=PodConstraints(**asks),
    )


@pytest.mark.parametrize("n_nodes", [500, 4_000])
def test_after_one_pod_moved_the_cost_depends_on_neither_nodes_nor_kinds_that_do_not_care(n_nodes: int) -> None:
    snapshot = _large(n_nodes)
    ordinary = [snapshot.kind_id(_kind(number)) for number in range(40)]
    ports = [snapshot.kind_id(_kind(number, host_ports=(HostPort("0.0.0.0", "TCP", 80),))) for number in range(10)]
    others = [snapshot.kind_id(_kind(number, spread=(_SPREAD,)), (("app", "web"),)) for number in range(5)]
    for kind in (*ordinary, *ports, *others):
        feasible(snapshot, kind)
    judged = snapshot.rows_judged
    snapshot.place(ordinary[0], 7)
    for kind in (*ordinary, *ports, *others):
        feasible(snapshot, kind)
    # One row for each predicate that reads what pods take; spreading counts no pod without the label.
    assert snapshot.rows_judged - judged <= 2 * (len(ordinary) + len(ports) + len(others))


def test_a_change_of_one_node_is_judged_on_that_node_alone() -> None:
    snapshot = _large(1_000)
    kinds = [snapshot.kind_id(_kind(number)) for number in range(10)]
    for kind in kinds:
        feasible(snapshot, kind)
    judged = snapshot.rows_judged
    node: Node = snapshot.facts.nodes[3]
    snapshot.put_node(Row(3), structs.replace(node, unschedulable=True))
    assert all(feasible(snapshot, kind).codes[3] for kind in kinds)
    assert snapshot.rows_judged - judged <= 6 * len(kinds)
