"""`slackwater explain` against a small HTTP server: the tables, the JSON, and every way the answer can be no."""

import json
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.configuration import HEAD
from tests.support.http_answers import answering
from tests.support.manifests import node_manifest, pod_manifest

REASON = {
    "code": "resources_short",
    "plugin": "NodeResourcesFit",
    "text": "Insufficient resources",
    "detail": "Insufficient cpu",
    "nodes": 2,
    "resource": "cpu",
    "short": {"milliCPU": 250},
    "objects": [],
    "closest": "n2",
}
TAINT = {**REASON, "code": "taint_not_tolerated", "text": "untolerated", "short": {}, "objects": ["taint [x]=y:NoSchedule"]}
ANSWER: dict[str, Any] = {
    "object": "pod shop/web",
    "state": "pending",
    "reasons": [REASON],
    "remedies": [{"change": "add a node of group pool", "checked": True, "changes": ["add a node of group pool"]}],
    "minimal": [{"where": "node n2", "blockers": [REASON, TAINT], "remedy": {"change": "", "checked": True, "changes": []}}],
    "groups": [{"group": "pool", "helps": True, "reasons": []}, {"group": "small", "helps": False, "reasons": [REASON]}],
    "facts": {},
    "notes": ["VolumeZone: no PersistentVolume is watched"],
}


def test_the_table_has_reasons_groups_remedies_and_what_has_to_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps(ANSWER).encode()) as (url, asked):
        assert main(["explain", "pod", "shop/web", "--url", url, "-o", "table"]) == 0
    said = capsys.readouterr().out
    assert [path for path, _ in asked] == ["/explain/pods/shop/web"]
    for words in (
        "pod shop/web: pending",
        "Insufficient resources (Insufficient cpu)",
        "250m cpu on n2",
        "taint [x]=y:NoSchedule",
        "add a node of group pool",
        "would help",
        "node n2: all of these have to go",
        "not judged: VolumeZone",
    ):
        assert words in said


def test_without_a_terminal_it_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps(ANSWER).encode()) as (url, _):
        assert main(["explain", "node", "n1", "--url", url]) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER


def test_what_is_not_there_is_a_no_in_the_listeners_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps({"detail": "group pool: no provider has reported it"}).encode(), status=404) as (url, _):
        assert main(["explain", "group", "pool", "--url", url]) == 3
    assert "group pool: no provider has reported it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("pod",), ("pod", "a/b/c"), ("node", "a/b"), ("pod", "/web"), ("pod/web", "web"), ("pod", "a/b", "-n", "c")]
)
def test_a_name_of_the_wrong_shape_is_bad_input(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 2
    assert "want" in capsys.readouterr().err


def test_an_unknown_kind_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "configmap", "web"]) == 2
    assert "pod" in capsys.readouterr().err


def test_an_answer_that_is_no_explanation_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps([]).encode()) as (url, _):
        assert main(["explain", "node", "n1", "--url", url]) == 4
    assert "want an explanation" in capsys.readouterr().err


def node_reason(pod: str) -> dict[str, Any]:
    return {
        **REASON,
        "text": "no controller",
        "detail": "",
        "nodes": 1,
        "short": {},
        "objects": [f"pod {pod}"],
        "closest": None,
    }


def test_reasons_groups_and_places_that_are_equal_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [{"group": f"g{number}", "helps": False, "reasons": [REASON]} for number in range(6)]
    minimal = [{"where": f"node n{number}", "blockers": [REASON, TAINT], "remedy": {}} for number in range(3)]
    remedy = {"change": "add a node", "checked": True, "changes": []}
    answer = {
        **ANSWER,
        "reasons": [node_reason(f"p{number}") for number in range(30)] + [REASON],
        "groups": groups,
        "minimal": minimal,
        "remedies": [remedy, remedy],
    }
    with answering(json.dumps(answer).encode()) as (url, _):
        assert main(["explain", "node", "n1", "--url", url, "-o", "table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines if "no controller" in line] == ["pod p0, pod p1, pod p2 and 27 more"]
    assert len([line for line in lines if line.startswith("g")]) == 1
    assert "g0, g1, g2 and 3 more  Insufficient resources (Insufficient cpu, 250m cpu)" in lines
    assert "node n0, node n1, node n2: all of these have to go" in lines
    assert lines.count("  - add a node") == 1


def test_reasons_that_differ_in_what_is_short_stay_apart(capsys: pytest.CaptureFixture[str]) -> None:
    other = {**REASON, "short": {"milliCPU": 500}}
    with answering(json.dumps({**ANSWER, "reasons": [REASON, other], "minimal": []}).encode()) as (url, _):
        assert main(["explain", "pod", "shop/web", "--url", url, "-o", "table"]) == 0
    said = capsys.readouterr().out
    assert "250m cpu on n2" in said
    assert "500m cpu on n2" in said


@pytest.mark.parametrize(
    ("strategy", "remark"),
    [({"type": "MostAllocated"}, None), ({"type": "Best"}, "scores do not follow profiles[0].pluginConfig[0].args.")],
)
def test_a_pod_of_another_scheduler_is_explained_by_its_own_profile(
    strategy: dict[str, str], remark: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the file has no profile of ours, as that of HAMi. What cannot be followed is said."""
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 3}]}}
    profiles = [{"schedulerName": "other", "plugins": plugins, "pluginConfig": [fit]}]
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    items = [node_manifest("n1"), node_manifest("n2"), pod_manifest("web", cpu="2", on="n1", schedulerName="other")]
    items.append(pod_manifest("more", on="n2"))
    cluster = {"kind": "List", "items": items}
    files = {"cluster": cluster, "scheduler": kind, "config": {**HEAD, "extender": {"schedulerConfig": "scheduler"}}}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    options = ["--cluster", f"{tmp_path}/cluster", "--config", f"{tmp_path}/config", "-o", "json"]
    assert main(["explain", "pod", "shop/web", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    (other,) = answer["instead"]["nodes"]
    assert list(other["difference"]) == ["NodeResourcesFit", "Slackwater"], "the profile has no other score"
    assert (other["difference"]["NodeResourcesFit"] > 0) is (remark is None), "only packing prefers the fuller node"
    assert [each for each in answer["remarks"] if each.startswith(remark or "scores")] == answer["remarks"][1:]
    assert len(answer["remarks"]) == (1 if remark is None else 2)
