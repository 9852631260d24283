"""A replica that followed any sequence of changes equals a snapshot built from what is there in the end."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import Kind, PodConstraints, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from tests.support.builders import a_node, a_pod, amounts, whole_cluster
from tests.support.rows import pods_on


def a_term(key: str) -> PodTerm:
    return PodTerm(topology_key="zone", selector=(Requirement(key, "In", ("a",)),), namespaces=("default",))


KINDS = (
    Kind(namespace="default", requests=amounts("1", "1Gi")),
    Kind(namespace="default", requests=amounts("2", "0"), pod_constraints=PodConstraints(anti_affinity=(a_term("app"),))),
    Kind(namespace="default", requests=amounts("1", "0"), pod_constraints=PodConstraints(anti_affinity=(a_term("later"),))),
)
LABELS = ((), (("app", "a"),), (("app", "b"), ("later", "a")))
PLACES = ("n0", "n1", "n2", "n3", "nowhere")

names = st.sampled_from(("n0", "n1", "n2", "n3"))
a_change = st.one_of(
    st.tuples(st.just("node"), names, st.sampled_from(("2", "4")), st.just(0), st.just(0)),
    st.tuples(st.just("no node"), names, st.just(""), st.just(0), st.just(0)),
    st.tuples(st.just("pod"), st.sampled_from("abcde"), st.sampled_from((*PLACES, "")), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("no pod"), st.sampled_from("abcde"), st.just(""), st.just(0), st.just(0)),
)
batches = st.lists(st.lists(a_change, max_size=6), max_size=6)


def seen(snapshot: ClusterSnapshot) -> dict[str, object]:
    """What stands on each live node, by names."""
    rows = {node.name: row for row, node in enumerate(snapshot.facts.nodes) if snapshot.facts.live[row]}

    def running_pods(row: int) -> dict[tuple[object, ...], int]:
        found = pods_on(snapshot, row)
        return {(snapshot.of(kind).kind, tuple(snapshot.of(kind).labels.items())): copies for kind, copies in found.items()}

    return {
        name: (
            snapshot.facts.allocatable[:2, row].tolist(),
            snapshot.used[:3, row].tolist(),
            snapshot.scored[:, row].tolist(),
            Counter(running_pods(row)),
        )
        for name, row in sorted(rows.items())
    }


def labels_read(snapshot: ClusterSnapshot) -> frozenset[str]:
    return snapshot.kinds.keys


@given(batches)
def test_a_replica_equals_the_snapshot_built_again(batches: list[list[tuple[str, str, str, int, int]]]) -> None:
    replica, nodes, pods = SnapshotReplica(), dict[NodeName, Node](), dict[PodUid, Pod]()
    for batch in batches:
        node_changes, pod_changes = list[NodeChange](), list[PodChange]()
        for what, name, where, kind, labels in batch:
            if what == "node":
                nodes[NodeName(name)] = a_node(name, cpu=where, labels={"zone": name[-1]})
            elif what == "no node":
                nodes.pop(NodeName(name), None)
            elif what == "pod":
                pod = a_pod(name, on=where or None)
                pods[pod.uid] = structs.replace(pod, kind=KINDS[kind], labels=LABELS[labels], priority=10 * labels - 10)
            else:
                pods.pop(PodUid(f"uid-{name}"), None)
            if "node" in what:
                node_changes.append(NodeChange(NodeName(name), nodes.get(NodeName(name))))
            else:
                pod_changes.append(PodChange(PodUid(f"uid-{name}"), pods.get(PodUid(f"uid-{name}"))))
        if node_changes or not all(pod.kind.keys_read <= labels_read(replica.snapshot) for _, pod, _ in pod_changes if pod):
            replica.take(Changes(generation=Generation(1), nodes=node_changes, pods=pod_changes))
        else:
            replica.take_pods(pod_changes)
        also = [kind for kind in KINDS if labels_read(replica.snapshot) >= {r.key for r in _read(kind)}]
        want = ClusterSnapshot.build(list(nodes.values()), list(pods.values()), also=also)
        assert seen(replica.snapshot) == seen(want)
        assert set(replica.nodes) == set(nodes)
        assert replica.pending == {uid: pod for uid, pod in pods.items() if pod.node is None}
        rescheduled_pods = {name: {running_pod.pod.uid for running_pod in replica.on(replica.row_of(name))} for name in nodes}
        assert rescheduled_pods == {name: {uid for uid, pod in pods.items() if pod.node == name} for name in nodes}
        running_pods = [pod.priority for pod in pods.values() if pod.node is not None]
        assert replica.lowest_priority(-5) == min((found for found in running_pods if found >= -5), default=None)
        for name in nodes:
            for pod, number in replica.on(replica.row_of(name)):
                assert replica.snapshot.kind_id(pod.kind, pod.labels) == number


def _read(kind: Kind) -> list[Requirement]:
    return [r for term in (kind.pod_constraints.anti_affinity if kind.pod_constraints else ()) for r in term.selector or ()]


def test_changes_are_applied_without_a_rebuild() -> None:
    replica = SnapshotReplica()
    numbers = count()
    nodes = [a_node(f"n{number}") for number in range(50)]
    pods = [a_pod(f"p{next(numbers)}", on=node.name) for node in nodes for _ in range(60)]
    replica.take(whole_cluster(nodes, pods))
    assert replica.builds == 1
    for pod in pods[:200]:
        replica.take(Changes(generation=Generation(2), pods=[PodChange(pod.uid, None)]))
    assert replica.builds == 1
    assert int(replica.snapshot.used[2].sum()) == len(pods) - 200


@pytest.mark.parametrize(("cutoff", "want"), [(-20, 5), (-10, 4), (0, 2), (1, 1), (100, 0)])
def test_pods_below_a_priority_yield_their_room_in_the_trial_whatever_its_sign(cutoff: int, want: int) -> None:
    replica = SnapshotReplica()
    pods = [a_pod(f"p{priority}", on="n", priority=priority) for priority in (-20, -10, -1, 0, 5)]
    elsewhere = a_pod("gone", on="no such node", priority=-20)
    replica.take(whole_cluster([a_node("n")], [*pods, elsewhere]))
    before = seen(replica.snapshot)
    with replica.yielding_below(cutoff) as running_pods:
        assert [running_pod.pod for running_pod in running_pods.on(replica.row_of(NodeName("n")))] == pods[len(pods) - want :]
        assert int(replica.snapshot.used_by_others()[2].sum()) == want
        assert int(replica.snapshot.used[2].sum()) == len(pods)
    assert replica.snapshot.yielding is None
    assert seen(replica.snapshot) == before
