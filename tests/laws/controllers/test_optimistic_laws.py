"""No estimate is better than its bundle's optimistic option, so the best is found without estimating all bundles."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaleup.estimate import Option, Run, estimate
from slackwater.controllers.scaleup.expanders import NO_PRIORITIES, ExpanderName, Merit, chain_of, largest_of, weights_of
from slackwater.controllers.scaleup.groups import Budget, GrowableGroup, similar_groups
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.option_queue import OptionQueue, SparedEstimates
from slackwater.controllers.scaleup.pending import place_existing
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.binpacking import NOWHERE
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import Kind, PodConstraints, SpreadConstraint
from slackwater.model.prices import FORMULA
from slackwater.model.resources import NOTHING
from slackwater.model.selectors import Requirement
from slackwater.model.storage import Storage
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from tests.support.builders import a_pod, amounts
from tests.support.scalingup import a_group, a_template, demand_of
from tests.support.smallclusters import SmallCluster, small_clusters

LAW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXPANDERS: tuple[ExpanderName, ...] = ("least-waste", "least-nodes", "most-pods", "smallest-node", "random", "price")


class Choice:
    """The first choice of a plan: the bundles, their optimistic options and their estimates."""

    def __init__(
        self, snapshot: ClusterSnapshot, pods: Sequence[Pod], groups: Sequence[GrowableGroup], expanders: Sequence[ExpanderName]
    ) -> None:
        kinds = representatives(snapshot, snapshot.number(pods))
        left = np.flatnonzero(place_existing(snapshot, pods, kinds, hints={}) == NOWHERE)
        self.runs = {KindId(kind): Run(kind=KindId(kind), pods=left[kinds[left] == kind]) for kind in np.unique(kinds[left])}
        self.of = TemplateNodes(snapshot, groups, list(self.runs), system=NOTHING)
        self.budget, self.priorities = Budget.of(groups, nodes=[]), np.zeros(len(pods), np.intp)
        self.bundles = similar_groups(groups, self.of.empty, range(len(groups)), ranks=[None] * len(groups), balance=True)
        nodes = [self.of.template(at).node for at in range(len(groups))]
        self.prices = [FORMULA.of(node) * (3 + at % 3) // 4 for at, node in enumerate(nodes)]
        self.by_price = "price" in expanders
        self.merit = chain_of(
            expanders,
            seed=0,
            priority_of=NO_PRIORITIES.of,
            weights=weights_of(nodes),
            largest=largest_of(nodes),
            prices=self.prices,
        )
        self.spared = SparedEstimates(self.of)
        self.estimates = 0

    def runs_of(self, bundle: tuple[int, ...]) -> list[Run]:
        return [self.runs[kind] for kind in self.of.kinds_that_fit(bundle)]

    def estimated(self, bundle: tuple[int, ...]) -> Option:
        self.estimates += 1
        runs = self.runs_of(bundle)
        return estimate(self.of, self.budget, bundle, runs, priorities=self.priorities, stop=lambda: False)

    def bound(self, bundle: tuple[int, ...]) -> Merit | None:
        runs = self.runs_of(bundle)
        option = self.spared.cheapest(bundle, runs, self.prices) if self.by_price else self.spared.optimistic(bundle, runs)
        return None if option is None else self.merit(option)

    def best(self, bound: Callable[[tuple[int, ...]], Merit | None]) -> tuple[int, ...] | None:
        best = OptionQueue(self.bundles, self.budget, estimate=self.estimated, merit=self.merit, bound=bound).best()
        return None if best is None else best.bundle


def spread_pods(workloads: int, cpus: Sequence[int] = (1, 2)) -> list[Pod]:
    """Workloads of six pods, which request `cpus` CPU in turn, with a zone spread over their own."""
    found = []
    for number in range(workloads):
        own = (Requirement("app", "In", (f"a{number}",)),)
        asks = PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key="zone", selector=own),))
        kind = Kind(namespace="default", requests=amounts(str(cpus[number % len(cpus)]), "1Gi"), pod_constraints=asks)
        found += [structs.replace(a_pod(f"p{number}-{at}", labels={"app": f"a{number}"}), kind=kind) for at in range(6)]
    return found


def sized_groups(sizes: Sequence[int], *, memory: str = "64Gi", largest: int = 100) -> list[GrowableGroup]:
    """For each size, in CPU, a group in each of three zones."""
    return [
        a_group(
            f"g{cpu}-{zone}", a_template(f"t{cpu}-{zone}", cpu=str(cpu), memory=memory, labels={"zone": zone}), largest=largest
        )
        for cpu in sizes
        for zone in "abc"
    ]


@st.composite
def some_groups(draw: st.DrawFn) -> list[GrowableGroup]:
    if draw(st.booleans()):
        return sized_groups(
            draw(st.lists(st.integers(2, 9), min_size=1, max_size=3, unique=True)), largest=draw(st.integers(1, 3))
        )
    labels = st.fixed_dictionaries({"zone": st.sampled_from(("z0", "z1", "z2")), "rack": st.sampled_from(("r0", "r1"))})
    nodes = [
        a_template(
            f"t{at}", cpu=draw(st.sampled_from(("1", "2500m", "4", "7"))), pods=draw(st.integers(1, 6)), labels=draw(labels)
        )
        for at in range(draw(st.integers(1, 4)))
    ]
    return [a_group(f"g{at}", node, largest=draw(st.integers(1, 6))) for at, node in enumerate(nodes)]


def bare(cluster: SmallCluster) -> SmallCluster:
    """The cluster without its nodes, so that all pods need new ones."""
    return replace(cluster, nodes=[], running_pods=[])


@LAW
@given(small_clusters(), some_groups(), st.lists(st.sampled_from(EXPANDERS), min_size=1, max_size=2), st.booleans())
def test_no_estimate_is_better_than_the_optimistic_option(
    drawn: SmallCluster, groups: list[GrowableGroup], expanders: list[ExpanderName], empty: bool
) -> None:
    cluster = bare(drawn) if empty else drawn
    snapshot = ClusterSnapshot.build(
        cluster.nodes,
        [*cluster.running_pods, *cluster.pending],
        namespaces={"default": {"team": "x"}, "other": {}},
        storage=cluster.storage,
    )
    with snapshot.fork():
        choice = Choice(snapshot, demand_of(cluster.pending).counted, groups, expanders)
        for bundle in choice.bundles:
            option, bound = choice.estimated(bundle), choice.bound(bundle)
            assert bound is None or not option.n_pods or bound <= choice.merit(option)
        assert choice.best(choice.bound) == choice.best(lambda _: None)


def a_choice(
    nodes: Sequence[Node], pods: Sequence[Pod], groups: Sequence[GrowableGroup], expander: ExpanderName = "least-waste"
) -> Choice:
    snapshot = ClusterSnapshot.build(nodes, pods, storage=Storage(claims={}, volumes={}, classes={}, csi_nodes={}))
    return Choice(snapshot, demand_of(pods).counted, groups, [expander])


def test_the_bound_is_reached_where_pods_fill_their_nodes() -> None:
    choice = a_choice([], spread_pods(1, (1,)), sized_groups((2,), memory="2Gi"))
    (bundle,) = choice.bundles
    (least, _), (found, _) = choice.bound(bundle) or (), choice.merit(choice.estimated(bundle))
    assert -0.001 < least <= found == 0


def test_no_bound_is_known_where_a_new_node_opens_present_ones() -> None:
    nodes = [a_template(zone, cpu=cpu, labels={"zone": zone}) for zone, cpu in (("a", "10"), ("b", "10"), ("c", "0"))]
    choice = a_choice(nodes, spread_pods(1), sized_groups((2,), memory="2Gi")[2:])
    (bundle,) = choice.bundles
    assert choice.merit(choice.estimated(bundle))[0] < 0, "pods that go to present nodes count, too"
    assert choice.bound(bundle) is None


def test_by_price_a_bound_counts_the_room_of_present_nodes_that_a_new_node_opens() -> None:
    nodes = [a_template(zone, cpu=cpu, labels={"zone": zone}) for zone, cpu in (("a", "10"), ("b", "3"), ("c", "0"))]
    choice = a_choice(nodes, spread_pods(3), sized_groups((2, 9), memory="2Gi"), "price")
    present = 0
    for bundle in choice.bundles:
        option = choice.estimated(bundle)
        present += int((option.at < 0).sum())
        assert (choice.bound(bundle) or (9e9,))[0] <= choice.merit(option)[0]
    assert present, "pods go to present nodes, too"
    assert choice.best(choice.bound) == choice.best(lambda _: None)


@pytest.mark.parametrize(
    ("expander", "most"), [("least-waste", 5), ("most-pods", 1), ("smallest-node", 1), ("random", 1), ("price", 5)]
)
def test_groups_that_cannot_be_the_best_are_not_estimated(expander: ExpanderName, most: int) -> None:
    sizes = (3, 4, 5, 7, 9, 12, 15, 19, 24, 30)
    choice = a_choice([], spread_pods(10), sized_groups(sizes), expander)
    found = choice.best(choice.bound)
    assert choice.estimates <= most
    assert found == choice.best(lambda _: None)
