"""Scores of room are written once, for one row and for many: both ways give the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.fit.best_node import Scoring, score_room, score_row
from slackwater.fit.node_scores import ScoreProfile
from slackwater.fit.plugins.node_resources import ResourceScoring
from slackwater.fit.score_curve import ScoreCurve, own_score
from slackwater.fit.scoring import MANY_ROWS, ONE_ROW
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import KubernetesVersion
from slackwater.model.resources import LARGEST_AMOUNT, LARGEST_ON_NODE, amounts_of
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support.builders import a_node, a_pod
from tests.support.seeds import examples

LAW = settings(max_examples=examples(100), deadline=None)

fractions = st.floats(0.0, 1.0)
curves = st.builds(
    ScoreCurve, min_usage=fractions, max_usage=fractions, peak=st.one_of(st.sampled_from((0.0, 0.8, 1.0)), fractions)
)
shapes = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=2, max_size=4, unique_by=lambda point: point[0])
resources = st.builds(
    ResourceScoring,
    strategy=st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")),
    cpu=st.integers(0, 5),
    memory=st.integers(0, 5),
    shape=shapes.map(lambda points: tuple(sorted(points))),
)


def amounts(most: int) -> st.SearchStrategy[int]:
    return st.one_of(st.sampled_from((0, 1, most)), st.integers(0, 4_000), st.integers(0, most))


def pairs(most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(amounts(most), amounts(most))


@LAW
@given(
    capacities=st.lists(pairs(LARGEST_ON_NODE), min_size=1, max_size=24),
    requests=st.lists(pairs(LARGEST_AMOUNT), min_size=1, max_size=3),
    scoring=st.builds(
        Scoring,
        curves.map(lambda curve: own_score(lambda: curve, weight=1)),
        st.builds(ScoreProfile, resources=resources),
        st.sampled_from((KubernetesVersion(minor=34), KubernetesVersion(minor=37))),
    ),
    draw=st.data(),
)
def test_one_row_scores_as_it_does_among_many(
    capacities: list[tuple[int, int]],
    requests: list[tuple[int, int]],
    scoring: Scoring,
    draw: st.DataObject,
) -> None:
    nodes = [a_node(f"n{at}") for at in range(len(capacities))]
    snapshot = ClusterSnapshot.build(nodes)
    kinds = [snapshot.kind_id(replace(a_pod("p").kind, requests=amounts_of(asked))) for asked in requests]
    snapshot.facts.allocatable[:2, : len(nodes)] = np.array(capacities, np.int64).T
    for kind in kinds:
        for row in draw.draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3)):
            snapshot.place(kind, row)
    rows = np.resize(np.arange(snapshot.n_rows), 24)  # more than are scored one by one
    for kind in kinds:
        one_by_one = [score_row(snapshot, kind, Row(row), scoring) for row in rows.tolist()]
        assert score_room(snapshot, kind, rows, scoring).tolist() == one_by_one


@LAW
@given(curve=curves, fullness=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=8))
def test_the_curve_is_linear_between_its_corners(curve: ScoreCurve, fullness: list[float]) -> None:
    corners = {0.0: curve.min_usage, 1.0: curve.max_usage} | {curve.peak: 1.0}
    want = np.interp(fullness, sorted(corners), [corners[at] for at in sorted(corners)])
    assert curve.at(np.array(fullness), MANY_ROWS) == pytest.approx(want)
    assert [curve.at(each, ONE_ROW) for each in fullness] == curve.at(np.array(fullness), MANY_ROWS).tolist()
