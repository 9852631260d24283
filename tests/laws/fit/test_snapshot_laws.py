"""The snapshot kept up to date pod by pod equals the snapshot rebuilt; a dropped trial leaves no trace."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from slackwater.model.ids import NodeName, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import ClaimMount, HostPort, Kind, PodConstraints, PodTerm
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.counted_pods import PodsMatching, TermCarriers
from slackwater.snapshot.equivalence_groups import KindId
from tests.support.builders import a_node, a_pod, amounts
from tests.support.rows import mounts_on, pods_on

TERM = PodTerm(topology_key="zone", selector=(Requirement("app", "In", ("a",)),), namespaces=("default",))
KINDS = (
    Kind(namespace="default", requests=amounts("1", "1Gi")),
    Kind(namespace="other", requests=amounts("500m", "1Gi"), pod_constraints=PodConstraints(scalars=(("example.com/gpu", 2),))),
    Kind(namespace="default", requests=amounts("2", "0"), pod_constraints=PodConstraints(anti_affinity=(TERM,))),
    Kind(
        namespace="default",
        requests=amounts("2", "0"),
        pod_constraints=PodConstraints(host_ports=(HostPort("0.0.0.0", "TCP", 80),), claims=(ClaimMount("data"),)),
    ),
)
LABELS = ((), (("app", "a"),), (("app", "b"), ("unread", "x")))
MATCHING_A = PodsMatching(((frozenset({"default"}), TERM.selector),))

pods = st.tuples(st.sampled_from(KINDS), st.sampled_from(LABELS), st.booleans(), st.integers(0, 3))
steps = st.lists(st.tuples(st.integers(0, 3), pods), max_size=12)


def a_running_pod(name: int, kind: Kind, labels: tuple[tuple[str, str], ...], deleting: bool, row: int) -> Pod:
    like = a_pod(f"p{name}", on=f"n{row}", deleting=deleting, labels=dict(labels))
    return structs.replace(like, kind=kind)


def a_snapshot(running_pods: list[tuple[Kind, tuple[tuple[str, str], ...], bool, int]]) -> ClusterSnapshot:
    nodes = [a_node(f"n{row}", labels={"zone": f"z{row % 2}"}) for row in range(4)]
    return ClusterSnapshot.build(nodes, [a_running_pod(i, *pod) for i, pod in enumerate(running_pods)], also=KINDS)


def seen(snapshot: ClusterSnapshot) -> dict[str, object]:
    """Everything that a judge could read, by names instead of numbers."""
    facts, rows = snapshot.facts, range(snapshot.n_rows)

    def named(kind: KindId) -> tuple[object, ...]:
        numbered = snapshot.of(kind)
        return numbered.kind, tuple(sorted(numbered.labels.items())), numbered.deleting

    return {
        "names": [node.name for node in facts.nodes],
        "live": facts.live[: snapshot.n_rows].tolist(),
        "zone": [facts.label("zone").ids[row] for row in rows],
        "used": {
            name: snapshot.used[line, : snapshot.n_rows].tolist()
            for name, line in facts.resource.items()
            if snapshot.used[line].any()
        },
        "scored": snapshot.scored[:, : snapshot.n_rows].tolist(),
        "pods": [{named(kind): count for kind, count in pods_on(snapshot, row).items()} for row in rows],
        "matching": snapshot.counters.read(snapshot.counters.matching(MATCHING_A))[: snapshot.n_rows].tolist(),
        "ports": sorted(snapshot.attached.rows_with_port(HostPort("10.0.0.1", "TCP", 80))),
        "claim": snapshot.attached.users_of(("default", "data")),
        "mounts": [mounts_on(snapshot, row) for row in rows],
    }


def apply(snapshot: ClusterSnapshot, placed: Counter[tuple[KindId, int]], what: int, pod: tuple[Any, ...]) -> None:
    kind, labels, deleting, row = pod
    number = snapshot.kind_id(kind, labels, deleting=deleting)
    if what == 0:
        snapshot.place(number, row)
        placed[number, row] += 1
    elif what == 1 and placed[number, row]:
        snapshot.remove(number, row)
        placed[number, row] -= 1
    elif what == 2:
        snapshot.place_many(number, np.array([0, 2]), np.array([row, 1]))
        placed[number, 0] += row
        placed[number, 2] += 1
    elif what == 3:
        snapshot.close(Row(row))


@given(st.lists(pods, max_size=8), steps, steps)
def test_a_dropped_trial_leaves_no_trace(running_pods: list[Any], outer: list[Any], inner: list[Any]) -> None:
    snapshot = a_snapshot(running_pods)
    want = seen(snapshot)
    placed: Counter[tuple[KindId, int]] = Counter()
    with snapshot.fork():
        for what, pod in outer:
            apply(snapshot, placed, what, pod)
        with snapshot.fork() as trial:
            snapshot.add_copies(a_node("template", labels={"zone": "z9"}), [NodeName("new-0"), NodeName("new-1")])
            for what, pod in inner:
                apply(snapshot, placed, what, pod)
            trial.commit()
    assert seen(snapshot) == want


@given(st.lists(pods, max_size=8), st.lists(pods, max_size=8))
def test_pods_placed_one_by_one_are_the_same_as_pods_built_in(before: list[Any], after: list[Any]) -> None:
    want = seen(a_snapshot(before + after))
    snapshot = a_snapshot(before)
    seen(snapshot)  # columns exist now, and must be kept up to date
    for kind, labels, deleting, row in after:
        snapshot.place(snapshot.kind_id(kind, labels, deleting=deleting), row)
    assert seen(snapshot) == want


def test_labels_that_no_selector_reads_split_no_kind() -> None:
    snapshot = a_snapshot([])
    plain = snapshot.kind_id(KINDS[0], (("app", "b"), ("pod-template-hash", "1")))
    assert plain == snapshot.kind_id(KINDS[0], (("app", "b"), ("statefulset.kubernetes.io/pod-name", "x-0")))
    assert plain != snapshot.kind_id(KINDS[0], (("app", "a"),))


def test_a_counter_of_terms_counts_who_carries_them() -> None:
    snapshot = a_snapshot([(KINDS[2], (("app", "a"),), False, 1), (KINDS[0], (("app", "a"),), False, 1)])
    incoming = snapshot.of(snapshot.kind_id(KINDS[0], (("app", "a"),)))
    (counter,) = snapshot.counters.about(incoming, "anti")
    assert counter.of == TermCarriers("anti", TERM)
    assert snapshot.counters.read(counter)[:4].tolist() == [0, 1, 0, 0]
    assert not snapshot.counters.about(snapshot.of(snapshot.kind_id(KINDS[1], (("app", "a"),))), "anti")
