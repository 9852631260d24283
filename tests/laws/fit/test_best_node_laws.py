"""The best node of a sample is the one that kube-scheduler's scores and ours put first, and cached scores equal new ones."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from slackwater.app.offline import read_cluster
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.fit.best_node import RoomScores, Samples, Scoring, score_room
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.node_scores import DEFAULT_WEIGHTS, scores
from slackwater.fit.scoring import Room, Value, room_on
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Taint
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU
from tests.oracle.generator.cluster import generate
from tests.support.seeds import examples
from tests.support.smallclusters import SmallCluster, small_clusters

#: Drawing a cluster takes a while on a busy machine.
LAW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def weighted_scores(snapshot: ClusterSnapshot, kind: KindId, rows: Rows) -> Int64:
    """The sum by weight: what kube-scheduler chooses by, before extenders."""
    total = np.zeros(len(rows), np.int64)
    for name, found in scores(snapshot, kind, rows).items():
        total += DEFAULT_WEIGHTS[name] * found
    return total


def own(room: Room, _kind: NumberedGroup) -> Value:
    """Some score that changes with what is used."""
    return room.used[CPU] // 100 % 7


SCORING = Scoring(own)


@LAW
@given(index=st.integers(0, 10_000), draw=st.data())
def test_of_a_sample_that_one_is_chosen_which_kube_schedulers_scores_and_ours_put_first(
    index: int, draw: st.DataObject
) -> None:
    """Scores compare the nodes of the sample with one another, not with those outside of it. What is kept from one question to
    the next is as good as new, whatever becomes of pods and nodes in between."""
    cluster = read_cluster(generate(5, index))
    snapshot, samples = snapshot_of(cluster), Samples(SCORING)
    kinds = [KindId(kind) for kind in sorted(set(snapshot.number(pending_pods(cluster)).tolist()))]
    for kind in [*kinds, *kinds]:
        rows = feasible(snapshot, kind).rows
        if len(rows):
            sample = np.array(sorted(draw.draw(st.sets(st.sampled_from(rows.tolist()), min_size=1))), np.intp)
            want = weighted_scores(snapshot, kind, sample) + own(room_on(snapshot, sample), snapshot.of(kind))
            best = samples.best_of(snapshot, kind, sample)
            assert best is not None
            assert want[best.at] == want.max()
            snapshot.place(kind, int(sample[best.at]))
        row = Row(draw.draw(st.integers(0, snapshot.n_rows - 1)))
        node = snapshot.facts.nodes[row]
        images = draw.draw(st.sampled_from([(), *(found.images for found in snapshot.facts.nodes)]))
        taints = draw.draw(st.sampled_from([(), (Taint("at", "times", "PreferNoSchedule"),), node.taints]))
        snapshot.put_node(row, structs.replace(node, images=images, taints=taints))


@LAW
@given(cluster=small_clusters(), draw=st.data())
def test_scores_of_room_that_are_kept_equal_scoring_again(cluster: SmallCluster, draw: st.DataObject) -> None:
    pods = [*cluster.running_pods, *cluster.pending]
    snapshot = ClusterSnapshot.build(
        cluster.nodes, pods, namespaces={"default": {"team": "x"}, "other": {}}, storage=cluster.storage
    )
    kinds, rooms = sorted(set(snapshot.number(pods).tolist())), RoomScores(OF_THE_LARGEST)
    every_row = range(snapshot.n_rows)
    for _ in range(draw.draw(st.integers(1, 12)) if kinds and every_row else 0):
        kind, row = KindId(draw.draw(st.sampled_from(kinds))), Row(draw.draw(st.sampled_from(every_row)))
        match draw.draw(st.sampled_from(("come", "go", "put"))):
            case "come":
                snapshot.place(kind, row)
            case "go":
                with snapshot.fork():
                    snapshot.place(kind, row, copies=2)
                    check_kept(snapshot, kind, rooms, draw)
            case _:
                node = snapshot.facts.nodes[row]
                snapshot.put_node(row, structs.replace(node, allocatable=node.allocatable.plus(node.allocatable)))
        check_kept(snapshot, kind, rooms, draw)


def _of_the_largest(room: Room, kind: NumberedGroup) -> Value:
    """What all rows have concerns each of them."""
    return own(room, kind) + room.largest[CPU]


OF_THE_LARGEST = Scoring(_of_the_largest)


def check_kept(snapshot: ClusterSnapshot, kind: KindId, rooms: RoomScores, draw: st.DataObject) -> None:
    sample = np.array(sorted(draw.draw(st.sets(st.sampled_from(range(snapshot.n_rows)), min_size=1))), np.intp)
    assert rooms.of(snapshot, kind, sample).tolist() == score_room(snapshot, kind, sample, OF_THE_LARGEST).tolist()
