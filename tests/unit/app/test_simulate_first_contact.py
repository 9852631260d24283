"""The first `slackwater simulate` of somebody who has a cluster and nothing of ours: groups are found, and gaps are said."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from slackwater.app.offline.known_groups import CLOUD_GROUP_LABELS
from slackwater.cli.main import main
from slackwater.model.events import NodeSeen, PodSeen, Synced
from slackwater.model.ids import Instant
from slackwater.runtime import dump
from slackwater.runtime.state_machine import StateMachine
from tests.support import builders, installed
from tests.support.http_answers import answering
from tests.support.manifests import Obj, node_manifest, pod_manifest


def a_node(name: str, **labels: str) -> Obj:
    return node_manifest(name, labels={key.replace("__", "/"): value for key, value in labels.items()})


def a_pod(name: str, cpu: str = "3") -> Obj:
    return pod_manifest(name, cpu=cpu)


class Simulate:
    """Runs the command on a file of these objects."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = file
        self._capsys = capsys

    def __call__(self, question: str, *objects: Obj, options: tuple[str, ...] = ("-o", "table"), code: int = 0) -> list[str]:
        return self.text(question, json.dumps({"kind": "List", "items": objects}), options=options, code=code)

    def text(self, question: str, text: str, *, options: tuple[str, ...] = ("-o", "table"), code: int = 0) -> list[str]:
        self._file.write_text(text)
        assert main(["simulate", question, "--cluster", str(self._file), *options]) == code
        out, err = self._capsys.readouterr()
        return (err if code else out).splitlines()


@pytest.fixture
def simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    return Simulate(tmp_path / "cluster.json", capsys)


@pytest.mark.parametrize("label", CLOUD_GROUP_LABELS)
def test_groups_are_found_by_the_labels_of_clouds(simulate: Simulate, label: str) -> None:
    node = a_node("n1")
    node["metadata"]["labels"][label] = "blue"
    table = simulate("scale-up", node, a_pod("a"), a_pod("b"))
    assert table[1].split() == ["blue", "1", "1"]
    assert "nodes: 1 new; pods: 1 get a new node, 1 fit already, 0 cannot be helped" in table
    (kept,) = json.loads(simulate("scale-down", node, a_node("n2"), options=("-o", "json"))[0])["kept"]
    assert (kept["node"], kept["reason"]) == ("n2", "NotAutoscaled"), "with groups, only their nodes count"


def test_our_own_label_comes_before_a_clouds_and_an_option_names_any_other(simulate: Simulate) -> None:
    node = a_node("n1", **{"slackwater.dev__node-group": "ours", "agentpool": "theirs", "team__pool": "red"})
    assert simulate("scale-up", node, a_pod("a"), a_pod("b"))[1].split()[0] == "ours"
    del node["metadata"]["labels"]["slackwater.dev/node-group"]
    named = ("--group-label", "team/pool", "-o", "table")
    assert simulate("scale-up", node, a_pod("a"), a_pod("b"), options=named)[1].split()[0] == "red"


def test_a_label_that_no_node_has_is_refused_with_those_that_are_there(simulate: Simulate) -> None:
    (problem,) = simulate("scale-up", a_node("n1", team__pool="red"), a_pod("a"), options=("--group-label", "pool"), code=2)
    assert problem == "slackwater: --group-label: got pool, which no node has, want one of the nodes' labels: team/pool"


@pytest.mark.parametrize(
    ("question", "objects", "words"),
    [
        ("scale-up", [a_node("n1"), a_pod("a")], "got no node group"),
        ("placement", [a_pod("a")], "got no node, want nodes too"),
        ("scale-down", [a_pod("a")], "got no node, want nodes too"),
        ("placement", [], "got no node and no pod, want what `kubectl get nodes,pods -A -o json` prints"),
        ("scale-up", [], "got no node and no pod"),
        ("scale-down", [], "got no node and no pod"),
    ],
)
def test_what_a_file_lacks_is_said_with_what_to_do(simulate: Simulate, question: str, objects: list[Obj], words: str) -> None:
    problem = simulate(question, *objects, code=2)
    assert words in problem[0]


def test_without_pending_pods_the_answer_is_a_sentence(simulate: Simulate) -> None:
    node, placed = a_node("n1", agentpool="blue"), {**a_pod("placed"), "spec": {**a_pod("placed")["spec"], "nodeName": "n1"}}
    nothing = "no pod is pending: each has a node or has ended"
    assert simulate("placement", node, placed) == [nothing]
    assert simulate("placement", node, placed, options=("--sequential", "-o", "table")) == [nothing]
    assert nothing in simulate("scale-up", node, placed)


def test_pending_pods_that_do_not_count_are_pending(simulate: Simulate) -> None:
    cheap = {**a_pod("cheap"), "spec": {**a_pod("cheap")["spec"], "priority": -100}}
    table = simulate("scale-up", a_node("n1", agentpool="blue"), cheap)
    assert "not counted: 1 pod: expendable" in table
    assert "nodes: 0 new; pods: 0 get a new node, 0 fit already, 0 cannot be helped" in table


def test_where_no_node_can_go_there_is_no_empty_table(simulate: Simulate) -> None:
    full = {**a_pod("full"), "spec": {**a_pod("full")["spec"], "nodeName": "n1"}}
    assert simulate("scale-down", a_node("n1"), full)[0] == "none of 1 nodes can go together"


def test_equal_rows_are_one_and_pods_that_cannot_be_helped_are_named(simulate: Simulate) -> None:
    node = a_node("n1", agentpool="blue")
    large = [a_pod(f"large-{number:02}", cpu="9") for number in range(30)]
    assert simulate("placement", node, *large)[1] == "30 pods, such as shop/large-00  0/1    1 Insufficient cpu"
    table = simulate("scale-up", node, *large, a_pod("alone", cpu="20"))
    assert "nodes: 0 new; pods: 0 get a new node, 0 fit already, 31 cannot be helped" in table
    assert "31 pods, such as shop/alone  blue   Insufficient cpu" in table


def a_dump() -> str:
    """What a running service answers to /dumpstate: a full node of a group, and a pod that waits."""
    state_machine, now = StateMachine(installed.POLICY), Instant(5.0)
    node = structs.replace(builders.a_node("n1", cpu="4", labels={"agentpool": "blue"}), scalars=(("pods", 110),))
    for event in (NodeSeen(node), PodSeen(builders.a_pod("on", on="n1", cpu="3")), PodSeen(builders.a_pod("waits", cpu="3"))):
        state_machine.apply(event, now)
    state_machine.apply(Synced(), now)
    return msgspec.json.encode(dump.state_of(dump.Dump(state_machine, now))).decode()


def test_a_dumpstate_is_read_as_a_file_of_kubectl_is(simulate: Simulate) -> None:
    text = a_dump()
    (line,) = simulate.text("placement", text, options=("-o", "json"))
    assert json.loads(line)["rejected"]["n1"]["reasons"] == ["Insufficient cpu"]
    assert simulate.text("scale-up", text)[1].split() == ["blue", "1", "1"]
    assert "1 of 1 nodes" not in "".join(simulate.text("scale-down", text))
    (problem,) = simulate.text("placement", text.replace("v1alpha3", "v9", 1), code=2)
    assert "dumpstate that cannot be read: version: got 'slackwater.dev/dumpstate/v9'" in problem


@pytest.mark.parametrize("command", [("worth", "-o", "json"), ("simulate", "scale-up", "-o", "json")])
def test_the_state_of_a_service_that_is_named_needs_no_kubeconfig(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is the use of another cluster's pods read, to which kubectl happens to speak."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with answering(a_dump().encode(), at="/dumpstate") as (url, asked):
        assert main([*command, "--url", url]) == 0
    assert json.loads(capsys.readouterr().out)
    assert [path for path, _ in asked] == ["/dumpstate"]
