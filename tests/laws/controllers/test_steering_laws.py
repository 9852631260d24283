"""A ranking that follows the snapshot says what scoring everything again says; a choice takes the best row that fits, and
leaves no trace in the snapshot."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.app.offline import read_cluster
from slackwater.app.offline.placement import pending_pods, snapshot_of
from slackwater.controllers.nomination.node_ranking import Chooser, Ranking
from slackwater.fit.best_node import RoomScores, Samples, Scoring, score_room
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.node_scores import DEFAULT_WEIGHTS, scores
from slackwater.fit.score.room import Room, Value, room_on
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.model.objects import Pod, Taint
from slackwater.model.pod_constraints import PodConstraints, PodTerm, SpreadConstraint
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.node_facts import CPU
from tests.oracle.generator.cluster import generate
from tests.support.builders import a_node, a_pod
from tests.support.seeds import examples
from tests.support.smallclusters import HOSTNAME, SmallCluster, small_clusters

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


def best_of_all(snapshot: ClusterSnapshot, kind: KindId) -> int:
    """The highest score of all rows that fit, -1 where none does."""
    rows = feasible(snapshot, kind).rows
    if not len(rows):
        return -1
    return int((weighted_scores(snapshot, kind, rows) + own(room_on(snapshot, rows), snapshot.of(kind))).max())


def score_at(snapshot: ClusterSnapshot, kind: KindId, row: int) -> int:
    rows = feasible(snapshot, kind).rows
    assert row in rows
    return int((weighted_scores(snapshot, kind, rows) + own(room_on(snapshot, rows), snapshot.of(kind)))[rows == row][0])


def follow(snapshot: ClusterSnapshot, kinds: list[KindId], draw: st.DataObject) -> None:
    rankings = {kind: Ranking(snapshot, kind, SCORING) for kind in kinds}
    for _ in range(draw.draw(st.integers(1, 12))):
        kind = draw.draw(st.sampled_from(kinds))
        found = rankings[kind].best(draw.draw(st.sampled_from((1, 1, 3)))).tolist()
        want = best_of_all(snapshot, kind)
        assert bool(found) == (want >= 0)
        assert {score_at(snapshot, kind, row) for row in found} <= {want}
        for row in found[:1]:
            snapshot.place(kind, row)
        if draw.draw(st.booleans()) and snapshot.n_rows:
            row = Row(draw.draw(st.integers(0, snapshot.n_rows - 1)))
            (snapshot.close if snapshot.facts.live[row] else snapshot.open)(row)


@LAW
@given(cluster=small_clusters(), draw=st.data())
def test_a_ranking_that_follows_equals_scoring_again(cluster: SmallCluster, draw: st.DataObject) -> None:
    pods = [*cluster.running_pods, *cluster.pending]
    snapshot = ClusterSnapshot.build(
        cluster.nodes, pods, namespaces={"default": {"team": "x"}, "other": {}}, storage=cluster.storage
    )
    kinds = [KindId(kind) for kind in sorted(set(snapshot.number(pods).tolist()))]
    if kinds:
        follow(snapshot, kinds, draw)


@LAW
@given(index=st.integers(0, 10_000), draw=st.data())
def test_rankings_of_the_oracles_clusters_equal_scoring_again(index: int, draw: st.DataObject) -> None:
    """Their pods have preferences of every kind."""
    cluster = read_cluster(generate(5, index))
    snapshot = snapshot_of(cluster)
    pending = pending_pods(cluster)
    if pending:
        follow(snapshot, [KindId(kind) for kind in sorted(set(snapshot.number(pending).tolist()))], draw)


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
        snapshot.put_node(row, replace(node, images=images, taints=taints))


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
                snapshot.put_node(row, replace(node, allocatable=node.allocatable.plus(node.allocatable)))
        check_kept(snapshot, kind, rooms, draw)


def _of_the_largest(room: Room, kind: NumberedGroup) -> Value:
    """What all rows have concerns each of them."""
    return own(room, kind) + room.largest[CPU]


OF_THE_LARGEST = Scoring(_of_the_largest)


def check_kept(snapshot: ClusterSnapshot, kind: KindId, rooms: RoomScores, draw: st.DataObject) -> None:
    sample = np.array(sorted(draw.draw(st.sets(st.sampled_from(range(snapshot.n_rows)), min_size=1))), np.intp)
    assert rooms.of(snapshot, kind, sample).tolist() == score_room(snapshot, kind, sample, OF_THE_LARGEST).tolist()


@LAW
@given(cluster=small_clusters())
def test_a_choice_puts_each_pod_where_it_fits_and_leaves_the_snapshot_as_it_was(cluster: SmallCluster) -> None:
    pods = [*cluster.running_pods, *cluster.pending]
    snapshot = ClusterSnapshot.build(
        cluster.nodes, pods, namespaces={"default": {"team": "x"}, "other": {}}, storage=cluster.storage
    )
    before = snapshot.used.copy()
    choice = Chooser(SCORING).choose(snapshot, cluster.pending)
    assert (snapshot.used[: len(before)] == before).all()
    assert not snapshot.used[len(before) :].any(), "columns of resources that no pod there asks for"

    assert sorted([*(pick.uid for pick in choice.picks), *(pod.uid for pod in choice.unfit)]) == sorted(
        pod.uid for pod in cluster.pending
    )
    kinds = dict(zip((pod.uid for pod in cluster.pending), snapshot.number(cluster.pending).tolist(), strict=True))
    for pick in choice.picks:
        row = snapshot.facts.row_of[pick.node]
        assert feasible(snapshot, kinds[pick.uid]).feasible[row]
        snapshot.place(kinds[pick.uid], row)


def an_app(name: str, **asks: Any) -> Pod:
    pod = a_pod(name, labels={"app": "a"})
    return replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(**asks)))


TERM = PodTerm(topology_key=HOSTNAME, selector=(Requirement("app", "In", ("a",)),), namespaces=("default",))
NODES = [replace(a_node(name, labels={HOSTNAME: name}), scalars=(("pods", 10),)) for name in ("n1", "n2")]


def test_no_pod_is_nominated_by_affinity_to_a_pod_that_may_still_go_elsewhere() -> None:
    pods = [an_app(f"p{number}", affinity=(TERM,)) for number in range(3)]
    snapshot, chooser = ClusterSnapshot.build(NODES, pods), Chooser(SCORING)
    assert chooser.choose(snapshot, pods).picks == ()
    snapshot.place(KindId(int(snapshot.number(pods)[0])), 1)
    assert {pick.node for pick in chooser.choose(snapshot, pods[1:]).picks} == {"n2"}


def test_no_pod_is_nominated_by_anti_affinity_to_a_pod_with_an_unknown_node() -> None:
    pods = [an_app(f"p{number}", anti_affinity=(TERM,)) for number in range(2)]
    snapshot, chooser = ClusterSnapshot.build(NODES, pods), Chooser(SCORING)
    assert chooser.choose(snapshot, pods[1:], pods[:1]).unfit == (pods[1],)
    assert len(chooser.choose(snapshot, pods[1:]).picks) == 1


def test_pods_that_have_to_spread_evenly_are_nominated_one_at_a_time() -> None:
    even = SpreadConstraint(hard=True, max_skew=1, topology_key=HOSTNAME, selector=TERM.selector)
    pods = [an_app(f"p{number}", spread=(even,)) for number in range(3)]
    snapshot, chooser = ClusterSnapshot.build(NODES, pods), Chooser(SCORING)
    choice = chooser.choose(snapshot, pods)
    assert ([pick.uid for pick in choice.picks], choice.unfit) == ([pods[0].uid], tuple(pods[1:]))
    assert chooser.choose(snapshot, pods[1:], (), pods[:1]).picks == ()


def test_a_row_that_was_not_feasible_when_its_room_changed_is_scored_as_it_is_then() -> None:
    """It takes the next pod only when all others have theirs, and nothing has changed there since it took the last one."""
    even = SpreadConstraint(hard=True, max_skew=1, topology_key=HOSTNAME, selector=TERM.selector)
    pod = an_app("p", spread=(even,))
    nodes = [replace(a_node(name, labels={HOSTNAME: name}), scalars=(("pods", 10),)) for name in "abcdefgh"]
    snapshot = ClusterSnapshot.build(nodes, [pod])
    kind = KindId(int(snapshot.number([pod])[0]))
    ranking = Ranking(snapshot, kind, SCORING)
    for _ in nodes:
        (row,) = ranking.best(1).tolist()
        snapshot.place(kind, row)
    assert sorted(ranking.best(8).tolist()) == list(range(8)), "each is as good as the others, and no longer as when empty"
