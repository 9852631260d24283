"""`slackwater explain` without a service: the same words, from a file; and what it says if there is neither."""

import json
from pathlib import Path

import pytest

from slackwater.cli.main import main
from tests.support.manifests import Obj, node_manifest, pod_manifest


def a_node(name: str, **labels: str) -> Obj:
    return node_manifest(name, labels=labels)


def a_pod(name: str, cpu: str, node: str | None = None) -> Obj:
    return pod_manifest(name, cpu=cpu, on=node)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two nodes of a group, each nearly full, and a pod that fits on neither; no kubeconfig anywhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    items = [a_node("n1", agentpool="blue"), a_node("n2", agentpool="blue"), a_pod("a", "3", "n1"), a_pod("b", "2", "n2")]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [*items, a_pod("web-2", "3")]}))
    return str(path)


def test_a_pod_of_a_file_is_explained_with_what_would_help(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "shop/web-2", "--cluster", file]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["state"] == "pending"
    assert {remedy["change"] for remedy in answer["remedies"]} == {
        "lower the request of pod shop/web-2 for cpu by 1, from 3 to 2",
        "add a node of group blue",
    }
    assert answer["remarks"] == ["judged without a running service, from the objects of the API alone"]
    assert main(["explain", "pod", "shop/web-2", "--cluster", file, "-o", "table"]) == 0
    assert "(judged without a running service, from the objects of the API alone)" in capsys.readouterr().out


def test_nodes_and_groups_are_explained_too(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node", "n2", "--cluster", file]) == 0
    assert {"NotReplicated", "NoPlaceToMovePods"} & {
        reason["code"] for reason in json.loads(capsys.readouterr().out)["reasons"]
    }
    assert main(["explain", "group", "blue", "--cluster", file]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "grows"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pod", "shop/nobody"), 3, "pod shop/nobody: is not in the file"),
        (("node", "n9"), 3, "node n9: is not in the file"),
        (("group", "red"), 3, "group red: neither labels nor the configuration name it; known: blue"),
        (("permit", "shop/a"), 2, "explain permit: only a running service knows; want --url, or one of pod, node, group"),
    ],
)
def test_what_cannot_be_explained_is_said(
    file: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, str], code: int, words: str
) -> None:
    assert main(["explain", *arguments, "--cluster", file]) == code
    assert words in capsys.readouterr().err


def test_a_file_and_a_service_at_once_are_refused(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "shop/web-2", "--cluster", file, "--url", "http://127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == ("slackwater: --cluster: got --url too, want one of them: a file or a running service\n")


def test_without_a_service_and_without_a_cluster_both_are_named(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.cli.commands.ops_client.DEFAULT_URL", "http://127.0.0.1:1")
    assert main(["explain", "pod", "shop/web-2"]) == 2
    said = capsys.readouterr().err
    assert "nothing listens on http://127.0.0.1:1;" in said
    assert "got no kubeconfig" in said
    assert "want --kubeconfig F, or --cluster F" in said


def test_device_taint_rules_of_the_file_that_do_not_count_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "resourceClaims": [{"name": "g", "resourceClaimName": "g"}]},
    }
    cluster = tmp_path / "rules.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [{"kind": "DeviceTaintRule", "metadata": {"name": "r"}}, pod]}))
    assert main(["explain", "pod", "shop/p", "--cluster", str(cluster)]) == 0
    want = "DynamicResources (taints by rule): the DeviceTaintRules in the file do not count"
    assert any(note.startswith(want) for note in json.loads(capsys.readouterr().out)["notes"])
