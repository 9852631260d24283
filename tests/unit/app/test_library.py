"""`import slackwater`: the page's examples, what an import loads, errors, a cluster that an API server has."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest
import yaml

import slackwater
from slackwater.cli.main import main
from tests.support.fakeapi import write_kubeconfig
from tests.support.library_page import played
from tests.support.manifests import node_manifest, pod_manifest

PAGE: Final = Path("docs/library.md").absolute()
SHOP: Final = Path("docs/guides/shop.yaml").absolute()
#: What only the service, the command line or a cluster needs.
HEAVY: Final = {"fastapi", "starlette", "uvicorn", "prometheus_client", "kubernetes_asyncio", "aiohttp", "httpx", "rich"}
OBJECTS: Final = (node_manifest("n1"), pod_manifest("web-1", on="n1"), pod_manifest("web-2", cpu="14"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shop.yaml").write_bytes(SHOP.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shop.yaml"


@pytest.mark.usefixtures("shop")
def test_the_examples_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    number, wrong = played(PAGE)
    assert wrong == ""
    assert number > 20
    (tmp_path / "wrong.md").write_text("```pycon\n>>> import slackwater\n>>> slackwater.__all__ == []\nTrue\n```\n")
    assert "Got:\n    False" in played(tmp_path / "wrong.md")[1]


def test_an_import_loads_nothing_and_questions_load_no_server(shop: Path) -> None:
    """In a process of its own: here everything is loaded already."""
    program = f"""
import json, sys
before = set(sys.modules)
import slackwater
names, loaded = dir(slackwater), sorted(set(sys.modules) - before)
cluster = slackwater.from_file({str(shop)!r})
list(cluster.placement()), cluster.scale_up(), cluster.scale_down(), cluster.consolidate(), cluster.worth()
cluster.explain("pod", "shop/train")
print(json.dumps([names, loaded, sorted(sys.modules)]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, loaded, at_the_end = json.loads(done.stdout)
    assert set(slackwater.__all__) <= set(names)
    others = {each for each in loaded if each.partition(".")[0] not in sys.stdlib_module_names}
    assert others == {"slackwater", "slackwater_protocol"}
    assert HEAVY & set(at_the_end) == set()
    assert {"numpy", "slackwater.explain.pods"} < set(at_the_end)


def test_every_name_is_there_and_no_other() -> None:
    assert all(getattr(slackwater, name) is not None for name in slackwater.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'from_flie'"):
        _ = slackwater.from_flie


def test_the_commands_print_what_the_library_answers(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = slackwater.from_file(shop)

    def printed(*words: str) -> Any:
        assert main([*words, "--cluster", str(shop), "-o", "json"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [{key: value for key, value in each.items() if key != "seconds"} for each in found]

    def answered(*answers: object) -> Any:
        found = [json.loads(msgspec.json.encode(each)) for each in answers]
        return [{key: value for key, value in each.items() if key != "seconds"} for each in found]

    assert printed("simulate", "placement") == answered(*cluster.placement())
    assert printed("simulate", "scale-up") == answered(cluster.scale_up())
    assert printed("simulate", "scale-down") == answered(cluster.scale_down())
    assert printed("simulate", "consolidate") == answered(cluster.consolidate())
    assert printed("explain", "pod", "shop/train") == answered(cluster.explain("pod", "shop/train"))


def test_a_supposition_leaves_the_first_cluster_as_it_is() -> None:
    cluster = slackwater.from_objects(OBJECTS, accounting=True)
    before = list(cluster.placement())
    changed = cluster.suppose(objects=[node_manifest("n2", cpu="20")], configuration={"schedulerName": "other"})
    assert [line.feasible for line in changed.placement()] == [["n2"]]
    assert list(cluster.placement()) == before
    with pytest.raises(slackwater.BadInput, match=r"remove\[0\]: got Node n9, want one that is there"):
        cluster.suppose(remove=[{"kind": "Node", "name": "n9"}])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: slackwater.from_file("/none.yaml"), "/none.yaml: the file: cannot be read"),
        (lambda: slackwater.from_objects([{"kind": object()}]), r"objects: \[0\]: Encoding objects of type object"),
        (lambda: slackwater.from_objects(cast("Any", ["x"])), r"objects: \[0\]: got str, want a dictionary"),
        (lambda: list(slackwater.from_objects([]).placement()), "got no node and no pod"),
        (lambda: slackwater.from_objects(OBJECTS, config="/none.yaml"), "/none.yaml: .*No such file"),
        (lambda: slackwater.from_objects(OBJECTS, config={"nodes": 1}), "nodes: got 1, want"),
        (lambda: slackwater.from_objects(OBJECTS, feature_gates="X"), "feature_gates: got 'X'"),
        (
            lambda: slackwater.from_objects(OBJECTS, **cast("Any", {"confg": "f"})),
            "confg: got an unknown argument, want one of",
        ),
        (lambda: slackwater.from_objects(OBJECTS, group_label="x").scale_up(), "group_label: got x, which no node has"),
        (lambda: slackwater.from_objects(OBJECTS[:1]).worth(), "objects: got no pod, want nodes and pods"),
        (
            lambda: slackwater.from_objects(OBJECTS).worth(horizon=timedelta()),
            "horizon: got 0:00:00, want a timedelta",
        ),
        (
            lambda: slackwater.from_objects(OBJECTS).worth(horizon=cast("Any", 30)),
            "horizon: got 30, want a timedelta",
        ),
        (lambda: slackwater.from_objects(OBJECTS).explain(cast("Any", "pods"), "x"), "kind: got 'pods', want one of"),
        (lambda: slackwater.from_objects(OBJECTS).suppose(objects=cast("Any", [1])), r"objects: \[0\]: got int"),
        (lambda: slackwater.from_objects(OBJECTS).suppose(remove=cast("Any", ["n1"])), r"remove: \[0\]: got str"),
        (lambda: slackwater.from_kubeconfig("/none"), "/none"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(call: Callable[[], object], said: str) -> None:
    with pytest.raises(slackwater.BadInput, match=said):
        call()


def test_what_is_not_there_cannot_be_explained() -> None:
    with pytest.raises(slackwater.NoSuchObject, match="objects: pod a/b"):
        slackwater.from_objects(OBJECTS).explain("pod", "a/b")


def test_objects_may_have_dates_as_yaml_reads_them() -> None:
    node = yaml.safe_load("{apiVersion: v1, kind: Node, metadata: {name: n1, creationTimestamp: 2026-01-02T03:04:05Z}}")
    assert not isinstance(node["metadata"]["creationTimestamp"], str)
    node["status"] = OBJECTS[0]["status"]
    (line,) = slackwater.from_objects([node, *OBJECTS[1:]]).placement()
    assert line.rejected


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        lists = {
            "/api/v1/nodes": {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": OBJECTS[:1]},
            "/api/v1/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": OBJECTS[1:]},
            "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
        }
        body = json.dumps(lists.get(path, {"kind": "Status", "code": 404})).encode()
        self.send_response(200 if path in lists else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            path = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{server.server_port}")
            monkeypatch.setenv("KUBECONFIG", path)
            yield path
        finally:
            server.shutdown()
            thread.join(10)


def test_a_cluster_is_read_from_the_api_server_also_where_a_loop_runs(kubeconfig: str) -> None:
    async def notebook() -> slackwater.Simulation:
        return slackwater.from_kubeconfig()

    for cluster in (slackwater.from_kubeconfig(kubeconfig), asyncio.run(notebook())):
        (line,) = cluster.placement()
        assert (line.pod, line.feasible) == ("shop/web-2", [])
        assert cluster.cluster.kubernetes.version.minor == 36


def test_a_cluster_that_does_not_answer_is_said(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    with pytest.raises(slackwater.ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        slackwater.from_kubeconfig(path)


def test_the_cluster_of_the_page_is_one_that_an_api_server_could_have() -> None:
    items = yaml.safe_load(SHOP.read_text())["items"]
    assert {each["kind"] for each in items} == {"Namespace", "Node", "ReplicaSet", "Pod"}
    assert [each for each in items if "apiVersion" not in each] == []


def test_a_notebook_shows_a_cluster_in_one_line() -> None:
    assert repr(slackwater.from_objects(OBJECTS)) == "<slackwater.Simulation of objects: 1 node, 2 pods>"
