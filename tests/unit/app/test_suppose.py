"""`slackwater simulate --suppose F` and `--live`: the cluster of a file or of a running service, with changes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackwater.cli.main import main
from tests.support.http_answers import answering
from tests.unit.app.test_what_if import Running, a_group, a_node, a_pod, settings_of

pytestmark = pytest.mark.anyio

Obj = dict[str, Any]
CLUSTER = [a_node("n0"), a_node("n1"), a_pod("stands", cpu="3", nodeName="n0"), a_pod("other", cpu="3", nodeName="n1")]


class Asked:
    """A file, a configuration with a group that is full, and what the command answers with changes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys
        self.settings = settings_of(a_group("pool-a", maxSize=2))
        self._write("cluster", {"kind": "List", "items": [*CLUSTER, a_pod("waits", cpu="2")]})
        self._write("config", self.settings.model_dump(mode="json", by_alias=True))

    def _write(self, name: str, body: object) -> str:
        path = self._folder / f"{name}.yaml"
        path.write_text(body if isinstance(body, str) else yaml.safe_dump(body))
        return str(path)

    def __call__(self, what: str, changes: object, *options: str, code: int = 0) -> tuple[str, str]:
        files = {name: str(self._folder / f"{name}.yaml") for name in ("cluster", "config")}
        argv = ["simulate", what, "--cluster", files["cluster"], "--config", files["config"]]
        assert main([*argv, "--suppose", self._write("changes", changes), *options]) == code
        return self._capsys.readouterr()

    def answer(self, what: str, changes: object, *options: str) -> Obj:
        out, err = self(what, changes, *options, "-o", "json")
        assert err == ""
        found: Obj = json.loads(out)
        return found


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(tmp_path, capsys)


def feasible(asked: Asked, changes: Obj) -> list[str]:
    found: list[str] = asked.answer("placement", changes)["feasible"]
    return found


def test_nodes_and_pods_are_there_besides_or_are_not(asked: Asked) -> None:
    assert feasible(asked, {}) == []
    assert feasible(asked, {"objects": [a_node("new")]}) == ["new"]
    assert feasible(asked, {"remove": [{"kind": "Pod", "namespace": "shop", "name": "other"}]}) == ["n1"]
    assert feasible(asked, {"objects": [a_node("n0", cpu="8")], "remove": [{"kind": "Node", "name": "n1"}]}) == ["n0"]


def test_groups_and_their_limits_are_others(asked: Asked) -> None:
    def new_nodes(changes: Obj) -> Obj:
        return {group["name"]: group["newNodes"] for group in asked.answer("scale-up", changes)["groups"]}

    assert new_nodes({}) == {"pool-a": 0}
    larger = {"autoscaler": {"nodeGroups": [{"name": "pool-a", "maxSize": 3}]}}
    assert new_nodes({"configuration": larger}) == {"pool-a": 1}
    another = {"autoscaler": {"nodeGroups": [a_group("pool-b", maxSize=5)]}}
    assert new_nodes({"configuration": another}) == {"pool-a": 0, "pool-b": 1}


def test_what_could_go_with_a_pod_less(asked: Asked) -> None:
    def removable(changes: Obj) -> list[str]:
        return [found["node"] for found in asked.answer("scale-down", changes)["removable"]]

    gone = [{"kind": "Pod", "namespace": "shop", "name": name} for name in ("other", "waits")]
    assert removable({}) == []
    assert removable({"remove": gone}) == ["n1"]


async def test_the_answer_is_that_of_a_running_service_with_the_same_changes(asked: Asked) -> None:
    changes: Obj = {
        "objects": [a_node("new"), a_pod("more", cpu="1")],
        "remove": [{"kind": "Pod", "namespace": "shop", "name": "other"}],
    }
    running = Running(*CLUSTER, a_pod("waits", cpu="2"), settings=asked.settings)
    want = await running.lines("placement", **changes)
    out, _ = asked("placement", changes, "-o", "json")
    found = [json.loads(line) for line in out.splitlines()]
    for line in (*want, *found):
        line.pop("skipped", None)
    assert sorted(found, key=lambda line: str(line["pod"])) == sorted(want, key=lambda line: str(line["pod"]))


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"object": []}, "changes.yaml: object: Extra inputs are not permitted"),
        ({"objects": [{"kind": "Car"}]}, "changes.yaml: objects[0].kind: got 'Car', want one of Node,"),
        ({"remove": [{"kind": "Node", "name": "n9"}]}, "changes.yaml: remove[0]: got Node n9, want one that is there"),
        ({"configuration": {"nodes": {"watermark": {"cpu": 2}}}}, "nodes.watermark.cpu"),
        ({"accounting": True}, "changes.yaml: accounting: got it in the file, want the option --accounting"),
        ([], "changes.yaml: got no mapping, want one with objects, remove, configuration"),
        ("{", "neither JSON nor YAML"),
    ],
)
def test_what_cannot_be_supposed_is_named_with_its_place(asked: Asked, changes: object, want: str) -> None:
    out, err = asked("placement", changes, code=2)
    assert (out, want in err) == ("", True), err


def test_only_one_file_comes_from_stdin_and_a_service_has_its_own_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["simulate", "placement", "--cluster", "-", "--suppose", "-"]) == 2
    assert "--cluster and --suppose: got - twice" in capsys.readouterr().err
    assert main(["simulate", "placement", "--live", "--config", "s.yaml"]) == 2
    assert "--config: got it with --live" in capsys.readouterr().err
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert main(["simulate", "placement"]) == 2
    assert "got no kubeconfig" in capsys.readouterr().err


LINE: Obj = {"pod": "shop/waits", "feasible": ["n1"], "rejected": {}}


def test_a_running_service_is_asked_and_its_answer_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = tmp_path / "changes.yaml"
    changes.write_text("objects: []\n")
    with answering(json.dumps(LINE).encode() + b"\n") as (url, asked):
        options = ["--live", "--url", url, "--suppose", str(changes), "--accounting"]
        assert main(["simulate", "placement", *options]) == 0
        assert json.loads(capsys.readouterr().out) == LINE
        assert main(["simulate", "placement", *options, "-o", "table"]) == 0
        assert "1 of 1 pods fit somewhere" in capsys.readouterr().out
    assert [(path, json.loads(body)) for path, body in asked] == [
        ("/simulate/placement", {"objects": [], "accounting": True})
    ] * 2


def test_a_refusal_of_a_running_service_is_shown_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'{"detail": "remove[0]: got Node n9, want one that is there"}', status=400) as (url, _):
        assert main(["simulate", "scale-down", "--live", "--url", url]) == 2
    assert "got status 400, want 200: remove[0]: got Node n9" in capsys.readouterr().err


def test_a_budget_that_is_supposed_is_counted_on_the_pods_that_are_there(asked: Asked) -> None:
    spec = {"selector": {}, "minAvailable": 1}
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    configuration = {"autoscaler": {"scaleDown": {"utilizationThreshold": 0.9}}}
    movable = [a_pod("stands", cpu="3", nodeName="n0"), a_pod("other", cpu="3", nodeName="n1")]
    for pod in movable:
        pod["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}

    def reasons(minimum: int | str) -> set[str]:
        supposed = {**budget, "spec": {**spec, "minAvailable": minimum}}
        answer = asked.answer("scale-down", {"objects": [*movable, supposed], "configuration": configuration})
        return {kept["reason"] for kept in answer["kept"]}

    assert "NotEnoughPdb" not in reasons(1)
    assert "NotEnoughPdb" in reasons(2)


@pytest.mark.parametrize("what", ["placement", "scale-up", "scale-down"])
def test_every_answer_names_device_taint_rules_of_the_file_that_do_not_count(asked: Asked, tmp_path: Path, what: str) -> None:
    pod = a_pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "broken"}}
    for rules in ([rule], []):
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"kind": "List", "items": [*CLUSTER, *rules, pod]}))
        notes = asked.answer(what, {})["skipped"]
        want = "DynamicResources (taints by rule): the DeviceTaintRules in the file do not count"
        assert any(note.startswith(want) for note in notes) == bool(rules)
