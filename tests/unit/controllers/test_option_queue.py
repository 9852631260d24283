"""Options one after another: what is taken touches some, and only those are estimated again."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders import CPU_AND_MEMORY, NO_PRIORITIES, chain_of
from slackwater.controllers.scaleup.groups import Budget, NodeQuota, counted
from slackwater.controllers.scaleup.option_queue import OptionQueue
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.objects import Pod, Taint
from slackwater.model.pod_constraints import Toleration
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import HOSTNAME
from tests.bench.simulation.mixes import mix
from tests.laws.controllers.test_optimistic_laws import spread_pods
from tests.support import installed
from tests.support.builders import a_node, a_pod
from tests.support.scalingup import a_group, a_template, demand_of, grown, planned


class Bidding:
    """Groups that take pods, one node for each pod; `wants[group]` are the pods it could take. Pods are kinds of their own."""

    def __init__(
        self, wants: list[list[int]], *, largest: int = 1000, max_nodes: int = 0, moving: bool = False, hurried: bool = False
    ) -> None:
        self.wants = wants
        self.moving = moving
        self.left = {pod for pods in wants for pod in pods}
        groups = [a_group(f"g{at}", largest=largest) for at in range(len(wants))]
        self.budget = Budget.of(groups, nodes=[], quotas=[NodeQuota(name="q", limits={})], max_nodes=max_nodes)
        self.estimates: Counter[int] = Counter()
        merit = chain_of(["most-pods"], seed=0, priority_of=NO_PRIORITIES.of, weights=CPU_AND_MEMORY, largest={})
        self.queue = OptionQueue(
            [(at,) for at in range(len(wants))],
            self.budget,
            estimate=self.estimate,
            merit=merit,
            hurried=lambda: hurried,
        )

    def estimate(self, bundle: tuple[int, ...]) -> Option:
        (group,) = bundle
        self.estimates[group] += 1
        pods = [pod for pod in self.wants[group] if pod in self.left][: self.budget.room(group)]
        return Option(
            bundle=bundle,
            names=(f"g{group}",),  # type: ignore[arg-type]
            groups=np.full(len(pods), group, np.intp),
            kinds=tuple(KindId(pod) for pod in pods),
            pods=np.array(pods, np.intp),
            at=np.arange(len(pods)),
            asked={"cpu": 1},
            offered={"cpu": 1},
            left_out=False,
            cut=group == 99,
            moving=self.moving,
        )

    def run(self) -> list[tuple[int, list[int]]]:
        taken = []
        while (option := self.queue.best()) is not None:
            pods = option.pods.tolist()
            assert self.left.issuperset(pods)
            taken.append((option.bundle[0], pods))
            self.left.difference_update(pods)
            for group, count in counted(option.groups):
                self.budget.take(group, count)
            assert all(self.budget.left(limit) >= 0 for limit, _ in self.budget.needs(option.groups))
            self.queue.took(option, shown=self.moving)
        return taken


def test_the_best_option_first_and_no_pod_twice() -> None:
    taken = Bidding([[1, 2], [2, 3, 4], [5]]).run()
    assert taken[0] == (1, [2, 3, 4])
    assert sorted(taken[1:]) == [(0, [1]), (2, [5])]


def test_an_option_whose_limits_and_pods_do_not_change_is_estimated_once() -> None:
    bidding = Bidding([[number] for number in range(300)])
    assert len(bidding.run()) == 300
    assert max(bidding.estimates.values()) <= 2  # once more after it was taken


@pytest.mark.parametrize("moving", [False, True])
def test_many_groups_for_the_same_pods_are_not_all_estimated_each_time(moving: bool) -> None:
    bidding = Bidding([list(range(600)) for _ in range(200)], largest=3, moving=moving)
    assert sum(len(pods) for _, pods in bidding.run()) == 600
    at_once = 64  # options that are touched, and estimated again at once: the choice among the last ones is exact
    assert sum(bidding.estimates.values()) <= 5 * 200 + at_once**2 // 2


def test_in_a_hurry_few_groups_for_the_same_pods_are_not_all_estimated_each_time() -> None:
    bidding = Bidding([list(range(150)) for _ in range(50)], largest=3, moving=True, hurried=True)
    assert sum(len(pods) for _, pods in bidding.run()) == 150
    assert sum(bidding.estimates.values()) <= 4 * 50


@pytest.mark.parametrize(("seed", "limit", "most"), [(228, 0, 130), (230, 0, 210), (42, 1000, 195)])
def test_by_price_pods_that_spread_beside_packed_nodes_need_few_steps(seed: int, limit: int, most: int) -> None:
    """177, 251 and 203 steps where each option was estimated again in each round."""
    case = mix(seed)
    policy = replace(installed.SCALE_UP, expanders=("price",), max_nodes_per_scale_up=0, plan_steps=limit)
    plan = planned(case.pods(), [variant.group() for variant in case.variants], policy=policy)
    assert not plan.unhelpable
    assert plan.steps <= most


def test_a_limit_that_is_nearly_used_up_makes_options_that_need_more_be_estimated_again() -> None:
    bidding = Bidding([[1, 2, 3], [4, 5], [6]], max_nodes=4)
    assert [len(pods) for _, pods in bidding.run()] == [3, 1]


def test_when_time_is_over_a_whole_option_comes_before_one_that_was_cut() -> None:
    bidding = Bidding([[pod] for pod in range(99)] + [[200, 201, 202]])
    known = bidding.queue.best_known()
    assert known is not None
    assert known.bundle != (99,)


def own(number: int) -> Pod:
    return a_pod(f"p{number}", node_selector={"of": f"g{number}"})


def test_five_hundred_groups_each_get_the_node_for_their_own_pod() -> None:
    groups = [a_group(f"g{n}", a_template(f"t{n}", labels={"of": f"g{n}"})) for n in range(500)]
    plan = planned(
        [own(number) for number in range(500)], groups, policy=replace(installed.SCALE_UP, max_nodes_per_scale_up=400)
    )
    assert set(grown(plan).values()) == {1}
    assert len(grown(plan)) == 400
    assert len(plan.unhelpable) == 100


def rows_judged(pools: int, each: int) -> int:
    """The rows that a plan judges in a cluster of pools with taints, where each pool has workloads with a zone spread."""
    nodes = [
        structs.replace(
            a_node(f"n{pool}-{at}", cpu="0", labels={HOSTNAME: f"n{pool}-{at}", "zone": f"z{at % 3}"}),
            taints=(Taint("team", f"t{pool}", "NoSchedule"),),
        )
        for pool in range(pools)
        for at in range(each)
    ]
    pods = []
    for at, pod in enumerate(spread_pods(4 * pools)):
        tolerations = (Toleration("team", "Equal", f"t{at // 6 % pools}", ""),)
        pods.append(structs.replace(pod, kind=replace(pod.kind, tolerations=tolerations)))
    new = [
        structs.replace(a_template(f"t{pool}", labels={"zone": "z0"}), taints=nodes[each * pool].taints)
        for pool in range(pools)
    ]
    groups = [a_group(f"g{pool}", template) for pool, template in enumerate(new)]
    snapshot = ClusterSnapshot.build(nodes, pods)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(pods), groups, policy=installed.SCALE_UP, clock=lambda: 0.0)
    assert len(grown(plan)) == pools
    return snapshot.rows_judged


def test_a_pool_that_grows_lets_no_other_pool_be_estimated_again() -> None:
    assert rows_judged(16, 4) < 5 * rows_judged(8, 4), "each pool is judged on all nodes, so this is quadratic in the pools"
