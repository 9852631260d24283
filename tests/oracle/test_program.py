"""The program itself: its versions, and that it says what the real scheduler was observed to say."""

import re
from pathlib import Path

import pytest

from tests.oracle.program import SOURCES
from tests.oracle.real import OracleFailed, running
from tests.support.controlplane.recipe import GO_FILES


def _versions(go_mod: Path) -> dict[str, str]:
    return dict(re.findall(r"^\s+(\S+) (v\S+)", go_mod.read_text(), re.MULTILINE))


def test_its_modules_are_the_control_planes() -> None:
    theirs = _versions(GO_FILES / "kubernetes" / "go.mod")
    ours = _versions(SOURCES / "go.mod")
    assert "k8s.io/kubernetes" in ours
    assert {name: theirs.get(name) for name in ours} == ours


def test_objects_are_completed_as_the_api_server_does(program: Path) -> None:
    """Requests come from limits, allocatable from capacity, and two taints are tolerated by default."""
    not_ready = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    fits = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "fits"}, "spec": {"taints": not_ready}}
    fits["status"] = {"capacity": {"cpu": "2", "memory": "1Gi", "pods": "5"}}
    small = {**fits, "metadata": {"name": "small"}, "status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "5"}}}
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1500m"}}}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [container]}}
    with running(program) as real:
        [line] = real.judge({"kind": "List", "apiVersion": "v1", "items": [fits, small, pod]})
    verdict = {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "code": "UnschedulableAndUnresolvable"}
    assert line == {"pod": "d/p", "feasible": ["fits"], "rejected": {"small": verdict}}


def test_quantities_are_canonical_as_a_scheduler_reads_them(program: Path) -> None:
    """The overhead of a pod with "2.5Gi" counted twice where its quantities were used as they were written."""
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}
    node["status"] = {"capacity": {"cpu": "8", "memory": "4G", "pods": "5"}}
    scores = []
    for memory in ("2.5Gi", "2560Mi"):
        container = {"name": "c", "image": "i", "resources": {"limits": {"memory": memory}}}
        spec = {"containers": [container], "overhead": {"memory": "256000000"}, "resources": {"limits": {"cpu": "2"}}}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}, "spec": spec}
        with running(program, "scores") as real:
            [line] = real.judge({"kind": "List", "apiVersion": "v1", "items": [node, pod]})
        scores.append(line["scores"]["NodeResourcesBalancedAllocation"])
    assert scores == [{"n": 62}, {"n": 62}]


def test_a_line_that_is_no_cluster_spoils_only_its_own_answer(program: Path) -> None:
    with running(program) as real:
        real.ask({"items": [{"kind": "Nonsense", "apiVersion": "v1"}]})
        real.ask({"items": [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}}]})
        with pytest.raises(OracleFailed, match='no kind "Nonsense"'):
            real.answer()
        assert [line["pod"] for line in real.answer()] == ["d/p"]


def test_gates_that_no_scheduler_starts_with_are_named(program: Path) -> None:
    """Each gate that needs one that is off is named; the program has ended when the last cluster is sent."""
    cluster = {"kind": "List", "apiVersion": "v1", "items": []}
    needed = re.escape("InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled")
    with pytest.raises(OracleFailed, match=needed), running(program, gates={"NodeDeclaredFeatures": False}) as real:  # noqa: PT012
        while True:
            real.ask(cluster)
