"""Packing whole kinds equals placing pod by pod, wherever it is cut off, and leaves no trace where it is dropped."""

from collections.abc import Callable, Mapping
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.app.offline import read_cluster
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.fit.assumed_claims import assume_claims
from slackwater.fit.binpacking import NO_HINTS, NOWHERE, Hints, place_pods
from slackwater.fit.feasible_nodes import feasible
from slackwater.model.columns import Rows
from slackwater.model.ids import Row
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from tests.oracle.generator.cluster import generate
from tests.support.rows import mounts_on, pods_on
from tests.support.seeds import examples
from tests.support.smallclusters import SmallCluster, small_clusters

#: Drawing a cluster takes a while on a busy machine.
LAW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def a_snapshot(cluster: SmallCluster) -> ClusterSnapshot:
    return ClusterSnapshot.build(
        cluster.nodes,
        [*cluster.running_pods, *cluster.pending],
        namespaces={"default": {"team": "x"}, "other": {}},
        storage=cluster.storage,
    )


def pod_by_pod(snapshot: ClusterSnapshot, kinds: Rows, rows: Rows, hints: Hints) -> list[int]:
    """The obvious loop."""
    placed = [NOWHERE] * len(kinds)

    def put(pod: int, order: list[int]) -> None:
        kind = KindId(int(kinds[pod]))
        verdicts = feasible(snapshot, kind).feasible
        for row in order:
            if verdicts[row]:
                assume_claims(snapshot, kind, Row(row))
                snapshot.place(kind, row)
                placed[pod] = row
                return

    for pod, hint in enumerate([] if hints.pods is None else hints.pods.tolist()):
        if hint in rows:
            put(pod, [hint])
    for pod, kind in enumerate(kinds.tolist()):
        hint = hints.kinds.get(kind, NOWHERE)
        if placed[pod] == NOWHERE:
            put(pod, ([hint] if hint in rows else []) + rows.tolist())
    return placed


def state(snapshot: ClusterSnapshot) -> dict[str, object]:
    """What a judge could read."""
    n_rows = snapshot.n_rows
    return {
        "used": snapshot.used[:, :n_rows].tolist(),
        "scored": snapshot.scored[:, :n_rows].tolist(),
        "pods": [pods_on(snapshot, row) for row in range(n_rows)],
        "storage": snapshot.volumes.assumed(),
        "mounts": [mounts_on(snapshot, row) for row in range(n_rows)],
        "verdicts": [feasible(snapshot, kind.id).codes.tolist() for kind in snapshot.kinds.all],
    }


def stopping_after(calls: int) -> Callable[[], bool]:
    asked = count()
    return lambda: next(asked) >= calls


@st.composite
def orders(draw: st.DrawFn, cluster: SmallCluster) -> Rows:
    """Some of the rows in some order."""
    rows = draw(st.permutations(range(len(cluster.nodes))))
    return np.array(rows[: draw(st.integers(1, len(rows)))], np.intp)


@st.composite
def hints_for(draw: st.DrawFn, cluster: SmallCluster, kinds: Rows) -> Hints:
    # A hint may name a row that is not there any more.
    anywhere = st.integers(NOWHERE, len(cluster.nodes))
    of_pods = draw(st.none() | st.lists(anywhere, min_size=len(kinds), max_size=len(kinds)))
    of_kinds: Mapping[KindId, int] = draw(st.dictionaries(st.sampled_from(kinds.tolist()).map(KindId), anywhere))
    return Hints(pods=None if of_pods is None else np.array(of_pods, np.intp), kinds=of_kinds)


@LAW
@given(st.data(), small_clusters())
def test_packing_equals_placing_pod_by_pod(data: st.DataObject, cluster: SmallCluster) -> None:
    snapshot = a_snapshot(cluster)
    kinds, rows = snapshot.number(cluster.pending), data.draw(orders(cluster))
    hints = data.draw(st.one_of(st.just(NO_HINTS), hints_for(cluster, kinds)))
    with snapshot.fork():
        want = pod_by_pod(snapshot, kinds, rows, hints)
        want_state = state(snapshot)
    found = place_pods(snapshot, kinds, rows=rows, hints=hints)
    assert found.rows.tolist() == want
    assert state(snapshot) == want_state
    assert not found.cut
    assert sorted(pod for left in found.left for pod in left.pods) == [pod for pod, row in enumerate(want) if row == NOWHERE]


@LAW
@given(st.data(), small_clusters(), st.integers(0, 12))
def test_a_packing_that_is_cut_off_is_a_part_of_the_whole(data: st.DataObject, cluster: SmallCluster, calls: int) -> None:
    snapshot = a_snapshot(cluster)
    kinds, rows = snapshot.number(cluster.pending), data.draw(orders(cluster))
    hints = data.draw(st.one_of(st.just(NO_HINTS), hints_for(cluster, kinds)))
    with snapshot.fork():
        whole = place_pods(snapshot, kinds, rows=rows, hints=hints)
    part = place_pods(snapshot, kinds, rows=rows, hints=hints, stop=stopping_after(calls))
    assert all(row in (NOWHERE, want) for row, want in zip(part.rows.tolist(), whole.rows.tolist(), strict=True))
    left = [pod for each in part.left for pod in each.pods]
    assert sorted([*left, *part.unreached]) == np.flatnonzero(part.rows == NOWHERE).tolist()
    if hints.pods is None:
        first = min(part.unreached, default=len(kinds))
        assert list(part.unreached) == list(range(first, len(kinds)))
        assert part.rows[:first].tolist() == whole.rows[:first].tolist()
    if len(kinds) and calls == 0:
        assert len(part.unreached) == len(kinds)


@LAW
@given(small_clusters())
def test_a_dropped_packing_leaves_no_trace(cluster: SmallCluster) -> None:
    snapshot = a_snapshot(cluster)
    kinds = snapshot.number(cluster.pending)
    want = state(snapshot)
    with snapshot.fork() as outer:
        with snapshot.fork() as inner:
            place_pods(snapshot, kinds, rows=np.arange(snapshot.n_rows))
            inner.commit()
        place_pods(snapshot, kinds, rows=np.arange(snapshot.n_rows))
        outer.drop()
    assert state(snapshot) == want


@pytest.mark.parametrize("index", range(15))
def test_packing_equals_placing_pod_by_pod_on_the_oracles_clusters(index: int) -> None:
    """Pods as the oracle draws them, three of each."""
    snapshot = snapshot_of(read_cluster(generate(5, index)))
    pending = pending_pods(read_cluster(generate(5, index)))
    kinds = np.repeat(snapshot.number(pending), 3)
    rows = np.arange(snapshot.n_rows)
    with snapshot.fork():
        want = pod_by_pod(snapshot, kinds, rows, NO_HINTS)
    assert place_pods(snapshot, kinds, rows=rows).rows.tolist() == want
