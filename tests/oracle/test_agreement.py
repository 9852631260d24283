"""Our predicates and scores say what kube-scheduler's say; `make oracle N=10000` asks longer."""

from pathlib import Path

import pytest

from tests.oracle.campaign import Outcome, run
from tests.oracle.counts import ENOUGH_CLUSTERS
from tests.oracle.generator import SMALL, Size, generate
from tests.oracle.ours import side
from tests.oracle.real import Mode, running

#: The clusters of this many seconds, on a machine that does other things too.
pytestmark = pytest.mark.timeout(1200)


def _judged(program: Path, *, mode: Mode, clusters: int, size: Size = SMALL) -> Outcome:
    outcome = run(program, mode=mode, seed=1, indices=range(clusters), ours=side(mode), size=size)
    reported = [f"cluster {failure.index}: {failure.first}" for failure in outcome.failures.values()]
    option = "" if mode == "placement" else f" --{mode}"
    assert reported == [], f"python -m tests.oracle --clusters {clusters}{option} shrinks and shows it"
    return outcome


def test_placements_equal_and_every_plug_in_and_reason_was_asked_for(program: Path) -> None:
    outcome = _judged(program, mode="placement", clusters=ENOUGH_CLUSTERS)
    assert list(outcome.event_counts.problems()) == [], outcome.event_counts.table()


def test_scores_equal_and_every_score_plug_in_distinguished_nodes(program: Path) -> None:
    outcome = _judged(program, mode="scores", clusters=ENOUGH_CLUSTERS)
    assert list(outcome.scores.problems()) == [], outcome.scores.table()


def test_pods_placed_one_after_another_land_on_the_same_nodes(program: Path) -> None:
    _judged(program, mode="sequential", clusters=250)


def test_clusters_changed_at_random_are_judged_the_same(program: Path) -> None:
    outcome = _judged(program, mode="placement", clusters=300, size=Size(mutated=True))
    assert outcome.left_out < 200


#: Clusters of seed 1 in which most pods find a node: about spreading and taints, about volumes and ports.
_ROOMY = (89, 215)


@pytest.mark.slow
@pytest.mark.parametrize("index", _ROOMY)
def test_2000_pods_land_on_500_nodes_as_kube_scheduler_would_put_them(program: Path, index: int) -> None:
    cluster = generate(1, index, Size.exactly(nodes=500, pods=4300))
    with running(program, "sequential") as real:
        want = real.judge(cluster)
    got = list(side("sequential")(cluster))
    assert [line["pod"] for line in got] == [line["pod"] for line in want]
    assert [line["node"] for line in got] == [line["node"] for line in want]
    assert len(want) >= 2000
    assert sum(line["node"] is not None for line in want) >= 1000
