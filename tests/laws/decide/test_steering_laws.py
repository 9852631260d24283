"""A ranking that follows the picture says what scoring everything anew says; a choice takes the best row that fits, and leaves
no trace in the picture."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.app.offline import read_cluster
from slackwater.app.offline.placement import pending_pods, picture_of
from slackwater.decide.steering.choose import Chooser
from slackwater.decide.steering.ranking import Ranking
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Row
from slackwater.simulate.feasible import feasible
from slackwater.simulate.kindtable import KindId, Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.scores import weighted_scores
from tests.oracle.generator.cluster import generate
from tests.support.smallclusters import SmallCluster, small_clusters

#: Drawing a cluster takes a while on a busy machine.
LAW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def own(picture: Picture, kind: Numbered, rows: Rows) -> Int64:
    """Some score that changes with what is used."""
    found: Int64 = (picture.used[0, rows] // 100 % 7).astype(np.int64)
    return found


def best_of_all(picture: Picture, kind: KindId) -> int:
    """The highest score of all rows that fit, -1 where none does."""
    rows = feasible(picture, kind).rows
    if not len(rows):
        return -1
    return int((weighted_scores(picture, kind, rows) + own(picture, picture.of(kind), rows)).max())


def score_at(picture: Picture, kind: KindId, row: int) -> int:
    rows = feasible(picture, kind).rows
    assert row in rows
    return int((weighted_scores(picture, kind, rows) + own(picture, picture.of(kind), rows))[rows == row][0])


def follow(picture: Picture, kinds: list[KindId], draw: st.DataObject) -> None:
    rankings = {kind: Ranking(picture, kind, own) for kind in kinds}
    for _ in range(draw.draw(st.integers(1, 12))):
        kind = draw.draw(st.sampled_from(kinds))
        found = rankings[kind].best(draw.draw(st.sampled_from((1, 1, 3)))).tolist()
        want = best_of_all(picture, kind)
        assert bool(found) == (want >= 0)
        assert {score_at(picture, kind, row) for row in found} <= {want}
        for row in found[:1]:
            picture.place(kind, row)
        if draw.draw(st.booleans()) and picture.n_rows:
            row = Row(draw.draw(st.integers(0, picture.n_rows - 1)))
            (picture.close if picture.facts.live[row] else picture.open)(row)


@LAW
@given(cluster=small_clusters(), draw=st.data())
def test_a_ranking_that_follows_equals_scoring_anew(cluster: SmallCluster, draw: st.DataObject) -> None:
    pods = [*cluster.standing, *cluster.pending]
    picture = Picture.build(cluster.nodes, pods, namespaces={"default": {"team": "x"}, "other": {}}, storage=cluster.storage)
    kinds = [KindId(kind) for kind in sorted(set(picture.number(pods).tolist()))]
    if kinds:
        follow(picture, kinds, draw)


@LAW
@given(index=st.integers(0, 10_000), draw=st.data())
def test_rankings_of_the_oracles_clusters_equal_scoring_anew(index: int, draw: st.DataObject) -> None:
    """Their pods have preferences of every kind."""
    cluster = read_cluster(generate(5, index))
    picture = picture_of(cluster)
    pending = pending_pods(cluster)
    if pending:
        follow(picture, [KindId(kind) for kind in sorted(set(picture.number(pending).tolist()))], draw)


@LAW
@given(cluster=small_clusters())
def test_a_choice_puts_each_pod_where_it_fits_and_leaves_the_picture_as_it_was(cluster: SmallCluster) -> None:
    pods = [*cluster.standing, *cluster.pending]
    picture = Picture.build(cluster.nodes, pods, namespaces={"default": {"team": "x"}, "other": {}}, storage=cluster.storage)
    before = picture.used.copy()
    choice = Chooser(own).choose(picture, cluster.pending)
    assert (picture.used == before).all()

    assert sorted([*(pick.uid for pick in choice.picks), *(pod.uid for pod in choice.unfit)]) == sorted(
        pod.uid for pod in cluster.pending
    )
    kinds = dict(zip((pod.uid for pod in cluster.pending), picture.number(cluster.pending).tolist(), strict=True))
    for pick in choice.picks:
        row = picture.facts.row_of[pick.node]
        assert feasible(picture, kinds[pick.uid]).feasible[row]
        picture.place(kinds[pick.uid], row)
