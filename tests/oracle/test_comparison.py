"""The comparison finds what is planted, and makes it small."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle.campaign import Ours, run, shrunk
from tests.oracle.compare import differences
from tests.oracle.generator.draw import Obj
from tests.oracle.real import Line, Real, running


@pytest.fixture
def other_real(program: Path) -> Iterator[Real]:
    with running(program) as real:
        yield real


def _bent(real: Real, bend: Callable[[Line], None]) -> Ours:
    """Our side as the real one with a mistake in it."""

    def ours(cluster: Obj) -> list[Line]:
        lines = copy.deepcopy(real.judge(cluster))
        for line in lines:
            bend(line)
        return lines

    return ours


def _forget_ports(line: Line) -> None:
    free = [node for node, verdict in line["rejected"].items() if verdict["plugin"] == "NodePorts"]
    line["feasible"] += free
    for node in free:
        del line["rejected"][node]


def test_the_real_side_agrees_with_itself(program: Path, other_real: Real) -> None:
    outcome = run(program, mode="placement", seed=5, indices=range(50), ours=_bent(other_real, lambda _: None))
    assert outcome.failures == {}
    assert outcome.differing == 0


def test_a_plug_in_that_is_forgotten_is_found_and_shown_on_one_node_and_two_pods(program: Path, other_real: Real) -> None:
    ours = _bent(other_real, _forget_ports)
    outcome = run(program, mode="placement", seed=5, indices=range(300), ours=ours)
    [failure] = outcome.failures.values()
    assert (failure.first.what, failure.first.kind[1]) == ("feasibility", "NodePorts")
    small = shrunk(program, failure, mode="placement", ours=ours)
    left = [item for item in small.cluster["items"] if item["kind"] in ("Node", "Pod")]
    assert sorted(item["kind"] for item in left) == ["Node", "Pod", "Pod"]
    assert "resources" not in str(left)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [("plugin", "NodePorts"), ("code", "Unschedulable"), ("reasons", ["node(s) were upset"])],
)
def test_each_part_of_a_verdict_counts(part: str, wrong: str | list[str]) -> None:
    verdict = {"plugin": "NodeAffinity", "reasons": ["a"], "code": "UnschedulableAndUnresolvable"}
    want = {"pod": "d/p", "feasible": [], "rejected": {"n": verdict}}
    got = {"pod": "d/p", "feasible": [], "rejected": {"n": {**verdict, part: wrong}}}
    [found] = differences("placement", [want], [got])
    assert (found.what, found.pod, found.node) == (part, "d/p", "n")


def test_the_order_of_reasons_does_not_count() -> None:
    verdict = {"plugin": "NodeResourcesFit", "reasons": ["a", "b"], "code": "Unschedulable"}
    want = {"pod": "d/p", "feasible": [], "rejected": {"n": verdict}}
    got = {"pod": "d/p", "feasible": [], "rejected": {"n": {**verdict, "reasons": ["b", "a"]}}}
    assert list(differences("placement", [want], [got])) == []


def test_a_pod_that_lacks_its_line_is_a_difference() -> None:
    [found] = differences("sequential", [{"pod": "d/p", "node": None}], [])
    assert found.what == "lines"


def test_a_score_plug_in_that_skips_a_pod_is_one_that_gives_every_node_nothing() -> None:
    want: Line = {"pod": "d/p", "scores": {"ImageLocality": {"n": 7}}}
    got: Line = {"pod": "d/p", "scores": {"ImageLocality": {"n": 7}, "NodeAffinity": {"n": 0}}}
    assert list(differences("scores", [want], [got])) == []
    got["scores"]["ImageLocality"]["n"] = 6
    assert [found.what for found in differences("scores", [want], [got])] == ["score ImageLocality"]
