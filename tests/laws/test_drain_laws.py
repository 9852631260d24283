"""Whatever fails, and in whatever order: no node stays half removed, and nobody is disturbed before all is ready for it."""

from dataclasses import replace
from itertools import chain, repeat

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.ids import Instant, NodeName
from slackwater.model.reasons import UnremovableReason
from tests.support import installed
from tests.support.draining import Cluster, a_cluster
from tests.support.invariants import violations
from tests.support.removing import machine, replica
from tests.support.seeds import examples

LAW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
NODES = ("n1", "n2", "n3")
WORDS = st.sampled_from(("done", "done", "done", "unknown", "refused", "blocked"))


class StatusSources:
    """Calls end as drawn; once nothing more is drawn, well."""

    def __init__(self, words: list[str]) -> None:
        self._words = chain(words, repeat("done"))

    def __call__(self, what: str) -> str:
        word = next(self._words)
        return "refused" if word == "blocked" and not what.startswith("evict") else word


@st.composite
def clusters(draw: st.DrawFn, *, elsewhere: bool = True) -> Cluster:
    pods = [
        replica(f"p{number}", draw(st.sampled_from(NODES)), priority=draw(st.sampled_from((0, 0, 5))))
        for number in range(draw(st.integers(0, 6)))
    ]
    limits = replace(installed.DRAIN, eviction_timeout=30.0, deadline=300.0, force=draw(st.booleans()))
    words = draw(st.lists(WORDS, max_size=25))
    ends_after = draw(st.sampled_from((1.0, 40.0, 1e6)))
    nodes = [machine(name) for name in (*NODES, "stays")]
    faults = StatusSources(words)
    return a_cluster(nodes, pods, elsewhere=elsewhere, faults=faults, limits=limits, ends_after=ends_after)


@LAW
@given(cluster=clusters(), cancels=st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 60)), max_size=2))
def test_every_removal_ends_and_a_node_that_stays_is_as_before(cluster: Cluster, cancels: list[tuple[str, int]]) -> None:
    cluster.begin("n1", "n2")
    cluster.begin("n3", empty=True)
    for node, after in cancels:
        cluster.tick(after)
        _, effects = cluster.drains.cancel(NodeName(node), UnremovableReason.CANCELLED, "", Instant(cluster.now))
        cluster.carry_out(effects)
    cluster.tick(2000, step=5)
    assert cluster.drains.nodes == {}
    assert (cluster.tainted(), [node.unschedulable for node in cluster.nodes.values()]) == ([], [False] * len(cluster.nodes))
    assert {end.order.node for end in cluster.ended} == set(NODES)
    removed = {end.order.node for end in cluster.ended if end.outcome == "removed"}
    assert removed == set(NODES) - set(cluster.nodes)


ARRIVALS = st.lists(st.tuples(st.sampled_from("1234"), st.sampled_from(("n1", "stays")), st.integers(1, 20)), max_size=6)


@LAW
@given(cluster=clusters(elsewhere=False), first=st.sampled_from(("1", "3", "4")), arrivals=ARRIVALS)
def test_no_pod_is_evicted_while_no_other_node_has_room(
    cluster: Cluster, first: str, arrivals: list[tuple[str, str, int]]
) -> None:
    destinations = {pod.key.name: "stays" for pod in cluster.pods.values()}
    cluster.begin(*NODES, destinations=destinations)
    cluster.add(replica("first", "stays", first))
    for number, (cpu, node, after) in enumerate(arrivals):
        cluster.tick(after)
        if node in cluster.nodes:  # bound by somebody else, whatever we keep there
            cluster.add(replica(f"late{number}", node, cpu))
    cluster.tick(400, step=2)
    assert (cluster.without_destination, list(cluster.state_machine.state.holds.destinations)) == ([], [])
    assert violations(cluster.state_machine) == []


@LAW
@given(cluster=clusters())
def test_no_pod_is_evicted_before_the_batch_is_tainted_and_no_node_deleted_before_it_is_empty(cluster: Cluster) -> None:
    cluster.begin("n1", "n2")
    cluster.begin("n3", empty=True)
    seen = 0
    for _ in range(200):
        cluster.tick(2)
        new, seen = cluster.log[seen:], len(cluster.log)
        for what in new:
            if what.startswith("delete "):
                node = what.removeprefix("delete ")
                assert not [pod for pod in cluster.pods.values() if pod.node == node]
    evicted = [at for at, what in enumerate(cluster.log) if what.startswith(("evict", "kill"))]
    taints = [at for at, what in enumerate(cluster.log) if what.startswith("taint n1") or what.startswith("taint n2")]
    assert not evicted or (len(taints) == 2 and max(taints) < min(evicted))
