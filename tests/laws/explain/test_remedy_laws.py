"""Whatever the cluster: a suggested change helps, and of a minimal set nothing may be left out.

Changes are made here to the objects themselves; what follows is asked of snapshots and plans that never saw a trial.
"""

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.controllers.scaleup.groups import GrowableGroup, NodeQuota, SkipReason
from slackwater.explain import nodes, pods
from slackwater.explain.explain_input import Change
from slackwater.explain.findings import remedy
from slackwater.explain.nodes import explain_node
from slackwater.explain.pods import explain_pod
from slackwater.explain.search import Solution
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater_protocol.names import SCALE_DOWN_DISABLED
from tests.laws.fit.test_evacuate_laws import OWNED, clusters
from tests.support import installed
from tests.support.builders import a_budget
from tests.support.explaining import CASES, StatusSources
from tests.support.scalingup import a_group, a_template
from tests.support.smallclusters import small_clusters

LAW = settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
POOL = GroupName("pool")
FACTS = (OWNED, OWNED, OWNED, EvictionFacts(), replace(OWNED, safe_to_evict="false"), replace(OWNED, local_volumes=("cache",)))


@st.composite
def groups(draw: st.DrawFn) -> tuple[GrowableGroup, ...]:
    made = []
    for number in range(draw(st.integers(0, 2))):
        template = a_template(f"t{number}", cpu=draw(st.sampled_from(("1", "8"))), labels={"zone": "z0", "rack": "r0"})
        size, largest = draw(st.sampled_from(((0, 3), (3, 3), (2, 2))))
        skip_reason = draw(
            st.sampled_from(
                (None, None, SkipReason(kind="switched-off", text="off"), SkipReason(kind="backoff", text="failed"))
            )
        )
        made.append(a_group(f"g{number}", template, size=size, largest=largest, skip_reason=skip_reason))
    return tuple(made)


@st.composite
def pending_clusters(draw: st.DrawFn) -> StatusSources:
    cluster = draw(small_clusters(most_running=10))
    quotas = draw(st.sampled_from(((), (), (NodeQuota(name="all", limits={"cpu": 9_000, "nodes": 6}),))))
    return StatusSources(
        nodes=tuple(cluster.nodes),
        running_pods=tuple(cluster.running_pods),
        pending=tuple(cluster.pending),
        storage=cluster.storage,
        groups=draw(groups()),
        scale_up=replace(installed.SCALE_UP, quotas=quotas, max_planning_time=0.0, plan_seconds=0.0),
    )


@st.composite
def running_clusters(draw: st.DrawFn) -> StatusSources:
    cluster = draw(clusters())
    running_pods = tuple(_settled(draw, pod) for pod in cluster.running_pods)
    nodes = tuple(
        structs.replace(node, keep=draw(st.sampled_from(("", "", "", SCALE_DOWN_DISABLED)))) for node in cluster.nodes
    )
    smallest = draw(st.sampled_from((0, 0, len(nodes))))
    policy = replace(
        installed.SCALE_DOWN,
        utilization_threshold=draw(st.sampled_from((0.3, 1.0, 5.0))),
        minimum=replace(installed.MINIMUM, nodes=draw(st.sampled_from((0, 0, len(nodes))))),
    )
    allowed = draw(st.tuples(*[st.sampled_from((0, 1, 3))] * 2))
    budgets = [a_budget(app, allowed=count, app=app) for app, count in zip(("a", "b"), allowed, strict=True)]
    budgets += [a_budget(f"more-{number}", allowed=9, app="a") for number in range(draw(st.sampled_from((0, 0, 1, 2))))]
    return StatusSources(
        nodes=nodes,
        running_pods=running_pods,
        storage=cluster.storage,
        budgets=tuple(budgets),
        groups=(a_group(POOL, size=len(nodes), smallest=smallest),),
        pool=POOL,
        scale_down=policy,
    )


def _settled(draw: st.DrawFn, pod: Pod) -> Pod:
    return structs.replace(pod, eviction_facts=draw(st.sampled_from(FACTS)))


@LAW
@given(reported=pending_clusters(), number=st.integers(0, 30))
def test_every_remedy_of_a_pending_pod_finds_it_a_place(reported: StatusSources, number: int) -> None:
    pod = reported.pending[number % len(reported.pending)]
    before = reported.fits_a_node(pod.uid)
    explanation = explain_pod(reported.explain_input(), pod)
    event(f"{explanation.state}, {min(len(explanation.remedies), 3)} remedies, {len(explanation.minimal)} sets")
    assert (explanation.state == "schedulable") == before
    assert before or explanation.reasons
    helping = [
        changes for tried in (False, True) for changes in pods.what_helps(reported.explain_input(), pod, with_groups=tried)[0]
    ]
    assert set(explanation.remedies) <= {remedy(*changes) for changes in helping}
    for changes in helping if explanation.state == "pending" else ():
        assert reported.after(changes).fits(pod.uid), remedy(*changes)


@LAW
@given(reported=pending_clusters(), number=st.integers(0, 30))
def test_all_of_a_minimal_set_has_to_go_before_a_pod_fits(reported: StatusSources, number: int) -> None:
    reported = replace(reported, groups=())
    pod = reported.pending[number % len(reported.pending)]
    listed = explain_pod(reported.explain_input(), pod).minimal
    solutions = pods.what_helps(reported.explain_input(), pod, with_groups=True)[1] if listed else []
    assert tuple(found.answer() for found in solutions) == listed
    for found in solutions:
        event(f"{len(found.blockers)} blockers")
        words = [change.words for change in found.changes]
        assert len(found.blockers) == len(set(words))
        assert reported.after(found.changes).fits_a_node(pod.uid), words
        for change in found.changes:
            others = [other for other in found.changes if other is not change]
            assert not reported.after(others).fits_a_node(pod.uid), (change.words, words)
            assert len(words) == 1 or not reported.after([change]).fits_a_node(pod.uid), (change.words, words)


def helping_of(reported: StatusSources, node: NodeName) -> tuple[list[tuple[Change, ...]], Solution | None]:
    explain_input = reported.explain_input()
    row = explain_input.row_of(node)
    assert row is not None
    return nodes.what_helps(explain_input, node, row)


@LAW
@given(reported=running_clusters(), number=st.integers(0, 30))
def test_every_remedy_of_a_node_lets_it_go(reported: StatusSources, number: int) -> None:
    node = reported.nodes[number % len(reported.nodes)].name
    before = reported.goes(node)
    explanation = explain_node(reported.explain_input(), node)
    event(f"{explanation.state}, {min(len(explanation.remedies), 3)} remedies, {len(explanation.minimal)} sets")
    assert (explanation.state == "removable") == before
    assert explanation.reasons
    helping = [] if before else helping_of(reported, node)[0]
    assert explanation.remedies == tuple(remedy(*changes) for changes in helping)
    for changes in helping:
        assert reported.after(changes).goes(node), remedy(*changes)


@LAW
@given(reported=running_clusters(), number=st.integers(0, 30))
def test_all_of_a_minimal_set_has_to_go_before_a_node_goes(reported: StatusSources, number: int) -> None:
    node = reported.nodes[number % len(reported.nodes)].name
    solution = None if reported.goes(node) else helping_of(reported, node)[1]
    assert explain_node(reported.explain_input(), node).minimal == (() if solution is None else (solution.answer(),))
    for found in [] if solution is None else [solution]:
        event(f"{len(found.blockers)} blockers")
        words = [change.words for change in found.changes]
        assert reported.after(found.changes).goes(node), words
        for change in found.changes:
            others = [other for other in found.changes if other is not change]
            assert not reported.after(others).goes(node), (change.words, words)
            assert len(words) == 1 or not reported.after([change]).goes(node), (change.words, words)
