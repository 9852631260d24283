"""A plan never buys more than pod-by-pod first-fit decreasing, holds when it is carried out, and forgets nobody."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaleup.estimate import Run, estimate
from slackwater.controllers.scaleup.expanders import ExpanderName
from slackwater.controllers.scaleup.groups import Budget, GrowableGroup, add_nodes
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.option_queue import SparedEstimates
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUpPlan
from slackwater.controllers.scaleup.pending import Demand, place_existing
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.assumed_claims import assume_claims
from slackwater.fit.binpacking import NOWHERE
from slackwater.fit.feasible_nodes import feasible, words
from slackwater.model.ids import NodeName, Row
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import Price
from slackwater.model.reasons import Reason
from slackwater.model.resources import NOTHING, amounts_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from tests.support import installed
from tests.support.scalingup import a_group, a_template, demand_of
from tests.support.smallclusters import SmallCluster, small_clusters

LAW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXPANDERS = st.sampled_from((("least-waste",), ("price",)))
NO_LIMITS = replace(installed.SCALE_UP, max_nodes_per_scale_up=0, max_planning_time=0, plan_seconds=0)


def a_snapshot(cluster: SmallCluster) -> ClusterSnapshot:
    return ClusterSnapshot.build(
        cluster.nodes,
        [*cluster.running_pods, *cluster.pending],
        namespaces={"default": {"team": "x"}, "other": {}},
        storage=cluster.storage,
    )


@st.composite
def templates(draw: st.DrawFn, name: str = "t", cpus: Sequence[str] = ("2", "4", "6")) -> Node:
    labels = {"zone": f"z{draw(st.integers(0, 3))}", "rack": f"r{draw(st.integers(0, 2))}"}
    for missing in draw(st.sampled_from(((), (), (), ("zone",), ("rack",)))):
        del labels[missing]
    gpus = {"example.com/gpu": draw(st.integers(0, 3))}
    return a_template(name, cpu=draw(st.sampled_from(cpus)), pods=draw(st.integers(1, 6)), labels=labels, scalars=gpus)


@st.composite
def some_groups(draw: st.DrawFn, cpus: Sequence[str] = ("2", "4", "6")) -> list[GrowableGroup]:
    groups = [
        a_group(
            f"g{number}", draw(templates(f"t{number}", cpus)), size=draw(st.integers(0, 2)), largest=draw(st.integers(0, 6))
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    micros = st.integers(1, 10**6)
    return [replace(group, price=Price(micros=draw(micros), currency="USD", basis="table")) for group in groups]


def plan_of(cluster: SmallCluster, demand: Demand, groups: Sequence[GrowableGroup], policy: ScaleUpPolicy) -> ScaleUpPlan:
    snapshot = a_snapshot(cluster)
    with snapshot.fork():
        return plan_scale_up(snapshot, demand, groups, policy=policy, clock=lambda: 0.0)


class PodByPod:
    """The obvious way: the largest pods first, each to the first node that takes it, else a new node is opened for it."""

    def __init__(self, snapshot: ClusterSnapshot, group: GrowableGroup, pods: Sequence[Pod]) -> None:
        self.snapshot, self.group, self.opened = snapshot, group, 0
        self.kinds = representatives(snapshot, snapshot.number(pods))
        rows = place_existing(snapshot, pods, self.kinds, hints={})
        self.left = np.flatnonzero(rows == NOWHERE).tolist()
        while self.one_pass():
            pass

    def one_pass(self) -> bool:
        before = len(self.left)
        self.left = [pod for pod in self.in_order() if not self.placed(KindId(int(self.kinds[pod])))]
        return 0 < len(self.left) < before

    def in_order(self) -> list[int]:
        assert self.group.template is not None
        has = self.group.template.node.allocatable
        first: dict[int, int] = {}
        for pod in sorted(self.left):
            first.setdefault(int(self.kinds[pod]), pod)

        def key(pod: int) -> tuple[float, int, int]:
            kind = int(self.kinds[pod])
            asks = self.snapshot.kinds.requests[:, kind]
            share = int(asks[CPU]) / (has.cpu or 1) + int(asks[MEMORY]) / (has.memory or 1)
            return (-share, first[kind], pod)

        return sorted(self.left, key=key)

    def placed(self, kind: KindId) -> bool:
        return self.put(kind) or self.put_on_new(kind)

    def put(self, kind: KindId) -> bool:
        rows = feasible(self.snapshot, kind).rows
        if not len(rows):
            return False
        assume_claims(self.snapshot, kind, Row(int(rows[0])))
        self.snapshot.place(kind, int(rows[0]))
        return True

    def put_on_new(self, kind: KindId) -> bool:
        assert self.group.template is not None
        with self.snapshot.fork() as trial:
            add_nodes(self.snapshot, self.group.template, [NodeName(f"new-{self.opened}")])
            if self.put(kind):
                self.opened += 1
                trial.commit()
                return True
        return False


@LAW
@given(small_clusters(), templates())
def test_one_group_needs_as_many_nodes_as_pod_by_pod(cluster: SmallCluster, template: Node) -> None:
    group = a_group("g", template)
    demand = demand_of(cluster.pending)
    plan = plan_of(cluster, demand, [group], NO_LIMITS)
    want = PodByPod(a_snapshot(cluster), group, demand.counted)
    assert (plan.n_nodes, sum(len(each.pods) for each in plan.unhelpable)) == (want.opened, len(want.left))


@LAW
@given(small_clusters(), some_groups(), st.integers(0, 4), EXPANDERS)
def test_every_pod_is_in_exactly_one_list(
    cluster: SmallCluster, groups: list[GrowableGroup], most: int, expanders: tuple[ExpanderName, ...]
) -> None:
    policy = replace(NO_LIMITS, max_nodes_per_scale_up=most, expanders=expanders)
    plan = plan_of(cluster, demand_of(cluster.pending), groups, policy)
    found = [pod.uid for scale_up in plan.scale_ups for pod in scale_up.pods]
    found += [pod.uid for pod, _ in plan.schedulable]
    found += [pod.uid for each in plan.unhelpable for pod in each.pods]
    assert sorted(found) == sorted(pod.uid for pod in cluster.pending)
    assert all(set(each.groups) == {group.name for group in groups} for each in plan.unhelpable)


@LAW
@given(small_clusters(), some_groups())
def test_each_group_gives_the_reason_that_its_node_alone_would_give(cluster: SmallCluster, groups: list[GrowableGroup]) -> None:
    groups = [replace(group, group=replace(group.group, target=0, min_size=0, max_size=0)) for group in groups]
    snapshot = a_snapshot(cluster)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(cluster.pending), groups, policy=NO_LIMITS, clock=lambda: 0.0)
        for each in plan.unhelpable:
            for pod in each.pods:
                for group in groups:
                    why = each.groups[group.name]
                    got = (why.reason, list(why.words)) if isinstance(why, GroupRefusal) else (Reason.OK, [])
                    assert got == on_a_new_node(snapshot, pod, group)


def on_a_new_node(snapshot: ClusterSnapshot, pod: Pod, group: GrowableGroup) -> tuple[Reason, list[str]]:
    assert group.template is not None
    kind = snapshot.kind_id(pod.kind, pod.labels)
    with snapshot.fork():
        (row,) = add_nodes(snapshot, group.template, [NodeName("alone")])
        verdicts = feasible(snapshot, kind)
        reason = Reason(verdicts.codes[row])
        return reason, words(snapshot, kind, Row(row), reason, verdicts.refusal)


@LAW
@given(small_clusters(), some_groups())
def test_groups_that_count_as_interchangeable_get_the_same_estimate(cluster: SmallCluster, groups: list[GrowableGroup]) -> None:
    copies = [a_copy(group) for group in groups]
    snapshot, demand = a_snapshot(cluster), demand_of(cluster.pending)
    kinds = representatives(snapshot, snapshot.number(demand.counted))
    with snapshot.fork():
        rows = place_existing(snapshot, demand.counted, kinds, hints={})
        left = np.flatnonzero(rows == NOWHERE)
        runs = [Run(kind=KindId(kind), pods=left[kinds[left] == kind]) for kind in np.unique(kinds[left]).tolist()]
        every = [replace(group, group=replace(group.group, max_size=99)) for group in (*groups, *copies)]
        template_nodes = TemplateNodes(snapshot, every, [run.kind for run in runs], system=NOTHING)
        budget, shared = Budget.of(every, nodes=[]), SparedEstimates(template_nodes)
        found = [_estimated(template_nodes, budget, at, runs, len(demand.counted)) for at in range(len(every))]
    pairs = [(one, two) for one in range(len(every)) for two in range(one) if shared.key(one) == shared.key(two)]
    assert all(shared.key(at) == shared.key(at + len(groups)) for at in range(len(groups)))
    assert all(found[one] == found[two] for one, two in pairs)


def a_copy(group: GrowableGroup) -> GrowableGroup:
    """The group under another name, and its nodes with a label that no pod reads."""
    assert group.template is not None
    node = structs.replace(group.template.node, labels={**group.template.node.labels, "nobody": "reads"})
    named = replace(group.group, name=GroupName(f"{group.name}-copy"))
    return replace(group, group=named, template=replace(group.template, node=node))


def _estimated(
    template_nodes: TemplateNodes, budget: Budget, group: int, runs: Sequence[Run], n_pods: int
) -> tuple[list[int], list[int], int]:
    fitting = set(template_nodes.kinds_that_fit([group]))
    few, priorities = [run for run in runs if run.kind in fitting], np.zeros(n_pods, np.intp)
    option = estimate(template_nodes, budget, (group,), few, priorities=priorities, stop=lambda: False)
    return option.pods.tolist(), option.at.tolist(), option.n_nodes


@LAW
@given(small_clusters(), some_groups(), st.integers(0, 4), EXPANDERS)
def test_no_limit_is_passed(
    cluster: SmallCluster, groups: list[GrowableGroup], most: int, expanders: tuple[ExpanderName, ...]
) -> None:
    policy = replace(NO_LIMITS, max_nodes_per_scale_up=most, expanders=expanders)
    plan = plan_of(cluster, demand_of(cluster.pending), groups, policy)
    assert not most or plan.n_nodes <= most
    by_name = {group.name: group.group for group in groups}
    for scale_up in plan.scale_ups:
        assert by_name[scale_up.group].target + scale_up.count <= by_name[scale_up.group].max_size
        assert all(scale_up.nodes), "no node is added for nobody"


@LAW
@given(small_clusters(), some_groups(), st.booleans(), EXPANDERS)
def test_a_plan_can_be_carried_out(
    cluster: SmallCluster, groups: list[GrowableGroup], balance: bool, expanders: tuple[ExpanderName, ...]
) -> None:
    """With the plan's nodes there, its pods can be placed where it says, one after another, in some order."""
    policy = replace(NO_LIMITS, balance_similar_groups=balance, expanders=expanders)
    plan = plan_of(cluster, demand_of(cluster.pending), groups, policy)
    snapshot = a_snapshot(cluster)
    wanted = [(pod, snapshot.facts.row_of[name]) for pod, name in plan.schedulable]
    by_name = {group.name: group for group in groups}
    for scale_up in plan.scale_ups:
        template = by_name[scale_up.group].template
        assert template is not None
        rows = add_nodes(snapshot, template, [NodeName(f"{scale_up.group}-{number}") for number in range(scale_up.count)])
        wanted += [(pod, Row(row)) for row, pods in zip(rows, scale_up.nodes, strict=True) for pod in pods]
    # A spread holds when its pod comes, and others may come later; affinity waits for others. No one order suits all.
    orders = (spreading_last, lambda pod: -spreading_last(pod), lambda pod: -sum(pod.kind.requests))
    assert any(not left_over(snapshot, sorted(wanted, key=lambda each: order(each[0]))) for order in orders)


def spreading_last(pod: Pod) -> int:
    asks = pod.kind.pod_constraints
    return 0 if asks is None else len(asks.spread)


def left_over(snapshot: ClusterSnapshot, wanted: list[tuple[Pod, Row]]) -> list[tuple[Pod, Row]]:
    """Those that cannot be placed where they should be, though all that can be tried again are tried again."""
    with snapshot.fork():
        while wanted:
            later = [each for each in wanted if not took_place(snapshot, *each)]
            if len(later) == len(wanted):
                break
            wanted = later
    return wanted


def took_place(snapshot: ClusterSnapshot, pod: Pod, row: Row) -> bool:
    kind = snapshot.kind_id(pod.kind, pod.labels)
    if not feasible(snapshot, kind).feasible[row]:
        return False
    assume_claims(snapshot, kind, row)
    snapshot.place(kind, row)
    return True


@LAW
@given(small_clusters(), some_groups())
def test_planning_leaves_no_new_node_behind(cluster: SmallCluster, groups: list[GrowableGroup]) -> None:
    snapshot = a_snapshot(cluster)
    before = snapshot.n_rows
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(cluster.pending), groups, policy=NO_LIMITS, clock=lambda: 0.0)
        assert snapshot.n_rows == before + sum(group.upcoming for group in groups)
    again = plan_of(cluster, demand_of(cluster.pending), groups, NO_LIMITS)
    assert plan == again


@LAW
@given(small_clusters(), templates(), st.integers(1, 3))
def test_a_cap_on_nodes_takes_nodes_away_and_adds_none(cluster: SmallCluster, template: Node, most: int) -> None:
    group = a_group("g", template)
    free = plan_of(cluster, demand_of(cluster.pending), [group], NO_LIMITS)
    capped = plan_of(cluster, demand_of(cluster.pending), [group], replace(NO_LIMITS, max_nodes_per_scale_up=most))
    assert capped.n_nodes == min(most, free.n_nodes)


@LAW
@given(small_clusters(), some_groups(cpus=("500m", "1", "2")))
def test_a_group_takes_the_kinds_that_every_rule_lets_onto_its_empty_node(
    cluster: SmallCluster, groups: list[GrowableGroup]
) -> None:
    snapshot = a_snapshot(cluster)
    kinds = sorted(set(map(KindId, snapshot.number(cluster.pending).tolist())))
    with snapshot.fork():
        template_nodes = TemplateNodes(snapshot, groups, kinds, system=amounts_of((0, 0)))
        for at, group in enumerate(groups):
            assert group.template is not None
            with snapshot.fork():
                row = add_nodes(snapshot, group.template, [NodeName("empty")]).start
                for kind in kinds:
                    if kind not in template_nodes.inter_pod_constraints.moving:
                        assert bool(template_nodes.codes[kind][at]) == bool(feasible(snapshot, kind).codes[row])
