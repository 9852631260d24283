"""A mirror that followed any sequence of changes equals a picture built from what is there in the end."""

from collections import Counter as Tally
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.equivalence import Kind
from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import Particulars, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.replica import Mirror, everything
from tests.support.builders import a_node, a_pod, amounts


def a_term(key: str) -> PodTerm:
    return PodTerm(topology_key="zone", selector=(Requirement(key, "In", ("a",)),), namespaces=("default",))


KINDS = (
    Kind(namespace="default", requests=amounts("1", "1Gi")),
    Kind(namespace="default", requests=amounts("2", "0"), particulars=Particulars(anti_affinity=(a_term("app"),))),
    Kind(namespace="default", requests=amounts("1", "0"), particulars=Particulars(anti_affinity=(a_term("later"),))),
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


def seen(picture: Picture) -> dict[str, object]:
    """What stands on each live node, by names."""
    rows = {node.name: row for row, node in enumerate(picture.facts.nodes) if picture.facts.live[row]}

    def standing(row: int) -> dict[tuple[object, ...], int]:
        found = picture.counters.on_row(row)
        return {(picture.of(kind).kind, tuple(picture.of(kind).labels.items())): copies for kind, copies in found.items()}

    return {
        name: (
            picture.facts.allocatable[:2, row].tolist(),
            picture.used[:3, row].tolist(),
            picture.scored[:, row].tolist(),
            Tally(standing(row)),
        )
        for name, row in sorted(rows.items())
    }


def labels_read(picture: Picture) -> frozenset[str]:
    return picture.kinds.keys


@given(batches)
def test_a_mirror_equals_the_picture_built_anew(batches: list[list[tuple[str, str, str, int, int]]]) -> None:
    mirror, nodes, pods = Mirror(), dict[NodeName, Node](), dict[PodUid, Pod]()
    for batch in batches:
        node_changes, pod_changes = list[NodeChange](), list[PodChange]()
        for what, name, where, kind, labels in batch:
            if what == "node":
                nodes[NodeName(name)] = a_node(name, cpu=where, labels={"zone": name[-1]})
            elif what == "no node":
                nodes.pop(NodeName(name), None)
            elif what == "pod":
                pod = a_pod(name, on=where or None)
                pods[pod.uid] = replace(pod, kind=KINDS[kind], labels=LABELS[labels], priority=10 * labels - 10)
            else:
                pods.pop(PodUid(f"uid-{name}"), None)
            if "node" in what:
                node_changes.append(NodeChange(NodeName(name), nodes.get(NodeName(name))))
            else:
                pod_changes.append(PodChange(PodUid(f"uid-{name}"), pods.get(PodUid(f"uid-{name}"))))
        mirror.take(Changes(generation=Generation(1), nodes=node_changes, pods=pod_changes))
        also = [kind for kind in KINDS if labels_read(mirror.picture) >= {r.key for r in _read(kind)}]
        want = Picture.build(list(nodes.values()), list(pods.values()), also=also)
        assert seen(mirror.picture) == seen(want)
        assert set(mirror.nodes) == set(nodes)
        assert mirror.pending == {uid: pod for uid, pod in pods.items() if pod.node is None}
        guests = {name: {tenant.pod.uid for tenant in mirror.on(mirror.row_of(name))} for name in nodes}
        assert guests == {name: {uid for uid, pod in pods.items() if pod.node == name} for name in nodes}
        standing = [pod.priority for pod in pods.values() if pod.node is not None]
        assert mirror.lowest_priority(-5) == min((found for found in standing if found >= -5), default=None)
        for name in nodes:
            for pod, number in mirror.on(mirror.row_of(name)):
                assert mirror.picture.kind_id(pod.kind, pod.labels) == number


def _read(kind: Kind) -> list[Requirement]:
    return [r for term in (kind.particulars.anti_affinity if kind.particulars else ()) for r in term.selector or ()]


def test_what_changed_is_followed_and_not_built_anew() -> None:
    mirror = Mirror()
    numbers = count()
    nodes = [a_node(f"n{number}") for number in range(50)]
    pods = [a_pod(f"p{next(numbers)}", on=node.name) for node in nodes for _ in range(60)]
    mirror.take(everything(nodes, pods))
    assert mirror.builds == 1
    for pod in pods[:200]:
        mirror.take(Changes(generation=Generation(2), pods=[PodChange(pod.uid, None)]))
    assert mirror.builds == 1
    assert int(mirror.picture.used[2].sum()) == len(pods) - 200


@pytest.mark.parametrize(("cutoff", "want"), [(-20, 5), (-10, 4), (0, 2), (1, 1), (100, 0)])
def test_pods_below_a_priority_do_not_stand_in_the_trial_whatever_its_sign(cutoff: int, want: int) -> None:
    mirror = Mirror()
    pods = [a_pod(f"p{priority}", on="n", priority=priority) for priority in (-20, -10, -1, 0, 5)]
    elsewhere = a_pod("gone", on="no such node", priority=-20)
    mirror.take(everything([a_node("n")], [*pods, elsewhere]))
    before = seen(mirror.picture)
    with mirror.without_below(cutoff) as standing:
        assert [tenant.pod for tenant in standing.on(mirror.row_of(NodeName("n")))] == pods[len(pods) - want :]
        assert int(mirror.picture.used[2].sum()) == want
    assert seen(mirror.picture) == before
