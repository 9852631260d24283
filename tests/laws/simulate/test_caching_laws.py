"""Answers that are kept equal answers that are worked out anew, whatever changed in between; and they stay cheap."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.app.offline import Cluster, read_cluster
from slackwater.fit.assume import assume_volumes
from slackwater.fit.feasible import feasible
from slackwater.model.equivalence import Kind
from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Node, Taint
from slackwater.model.pod_constraints import HostPort, Particulars, PodTerm, SpreadConstraint
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Claim, ClaimRef
from slackwater.snapshot.cluster_snapshot import Picture
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


def a_picture(cluster: Cluster) -> Picture:
    return Picture.build(cluster.nodes, cluster.pods, namespaces=cluster.namespaces, storage=cluster.storage)


class Changing:
    """A picture to which things happen, some of them inside a trial that is dropped."""

    def __init__(self, number: int) -> None:
        cluster = read_cluster(generate(43, number))
        self.picture = a_picture(cluster)
        pods = [pod for pod in cluster.pods if not pod.ended]
        self.kinds = list(dict.fromkeys(self.picture.kind_id(p.kind, p.labels, deleting=p.deleting) for p in pods))
        self._placed: list[tuple[KindId, int]] = []

    def happen(self, what: str, one: int, other: int) -> None:  # one case for each event
        picture, row, kind = self.picture, Row(one % self.picture.n_rows), self.kinds[other % len(self.kinds)]
        node = picture.facts.nodes[row]
        match what:
            case "place":
                picture.place(kind, row)
                self._placed.append((kind, row))
            case "remove" if self._placed:
                picture.remove(*self._placed.pop(one % len(self._placed)))
            case "grow":
                picture.add_nodes([replace(node, name=NodeName(f"new-{picture.n_rows}-{other}"))])
            case "select" if claims := picture.volumes.assumed().claims:
                claim = list(claims.values())[other % len(claims)]
                picture.assume_claim(replace(claim, selected_node=node.name))
            case "reserve" if volumes := picture.volumes.assumed().volumes:
                claims = picture.volumes.objects.claims or {("default", "x"): Claim(namespace="default", name="x")}
                namespace, name = list(claims)[one % len(claims)]
                volume = list(volumes.values())[other % len(volumes)]
                picture.assume_volume(replace(volume, claim=ClaimRef(namespace=namespace, name=name)))
            case "lose" if picture.volumes.objects.volumes:
                storage = picture.volumes.assumed()
                kept = list((storage.volumes or {}).values())
                del kept[other % len(kept)]
                picture.put_storage(replace(storage, volumes={volume.name: volume for volume in kept}))
            case "number":
                picture.kind_id(picture.of(kind).kind, deleting=bool(one % 2))
            case "trial":
                with picture.fork():
                    self._look_and_change(row, kind)
            case _:
                self._change_node(what, row, node, other)

    def _change_node(self, what: str, row: Row, node: Node, value: int) -> None:
        match what:
            case "taint":
                self.picture.put_node(row, replace(node, taints=(Taint("dedicated", str(value % 3), "NoSchedule"),)))
            case "relabel":
                self.picture.put_node(row, replace(node, labels={**node.labels, "rack": f"k{value % 4}"}))
            case "close":
                self.picture.close(row)
            case "open":
                self.picture.open(row)
            case _:
                pass  # nothing was placed that could be removed

    def _look_and_change(self, row: Row, kind: KindId) -> None:
        self.answers()
        self.picture.place(kind, row, copies=2)
        self.picture.add_copies(self.picture.facts.nodes[row], [NodeName("copy-0"), NodeName("copy-1")])
        if feasible(self.picture, kind).feasible[row]:
            assume_volumes(self.picture, kind, row)
        self.picture.place(kind, self.picture.n_rows - 1)
        self.answers()

    def answers(self) -> list[list[int]]:
        return [feasible(self.picture, kind).codes.tolist() for kind in self.kinds]

    def anew(self) -> list[list[int]]:
        fresh = self.picture.copy()
        return [feasible(fresh, kind).codes.tolist() for kind in self.kinds]


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 100_000), happened=steps)
def test_kept_answers_equal_new_ones(number: int, happened: list[tuple[str, int, int]]) -> None:
    changing = Changing(number)
    changing.answers()
    for step in happened:
        changing.happen(*step)
        assert changing.answers() == changing.anew(), step


_APP: Final = (Requirement("app", "In", ("web",)),)
_TERM: Final = PodTerm(topology_key="zone", selector=_APP, namespaces=("default",))
_SPREAD: Final = SpreadConstraint(hard=True, max_skew=5, topology_key="zone", selector=_APP)


def _large(n_nodes: int) -> Picture:
    nodes = [
        replace(a_node(f"n{i}", labels={"zone": f"z{i % 3}"}), scalars=(("pods", 110), ("ephemeral-storage", 1 << 40)))
        for i in range(n_nodes)
    ]
    return Picture.build(nodes, also=[_kind(0, anti_affinity=(_TERM,), spread=(_SPREAD,))])


def _kind(number: int, **asks: Any) -> Kind:
    return Kind(
        namespace="default",
        requests=amounts(f"{100 + number}m", "1Gi"),
        node_selector=(("zone", f"z{number % 3}"),),
        particulars=Particulars(**asks),
    )


@pytest.mark.parametrize("n_nodes", [500, 4_000])
def test_after_one_pod_moved_the_cost_depends_on_neither_nodes_nor_kinds_that_do_not_care(n_nodes: int) -> None:
    picture = _large(n_nodes)
    ordinary = [picture.kind_id(_kind(number)) for number in range(40)]
    ports = [picture.kind_id(_kind(number, host_ports=(HostPort("0.0.0.0", "TCP", 80),))) for number in range(10)]
    others = [picture.kind_id(_kind(number, spread=(_SPREAD,)), (("app", "web"),)) for number in range(5)]
    for kind in (*ordinary, *ports, *others):
        feasible(picture, kind)
    judged = picture.rows_judged
    picture.place(ordinary[0], 7)
    for kind in (*ordinary, *ports, *others):
        feasible(picture, kind)
    # One row for each predicate that reads what pods take; spreading counts no pod without the label.
    assert picture.rows_judged - judged <= 2 * (len(ordinary) + len(ports) + len(others))


def test_a_change_of_one_node_is_judged_on_that_node_alone() -> None:
    picture = _large(1_000)
    kinds = [picture.kind_id(_kind(number)) for number in range(10)]
    for kind in kinds:
        feasible(picture, kind)
    judged = picture.rows_judged
    node: Node = picture.facts.nodes[3]
    picture.put_node(Row(3), replace(node, unschedulable=True))
    assert all(feasible(picture, kind).codes[3] for kind in kinds)
    assert picture.rows_judged - judged <= 6 * len(kinds)
