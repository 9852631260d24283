"""The sandbox' API server answers as the real one did when tests/cluster/test_sandbox_is_like_the_real_one.py asked both."""

import json
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from slackwater.sandbox.embedded.faults import Fault
from slackwater.sandbox.embedded.server import ApiServer
from tests.faults.virtualloop import virtual_time
from tests.support.sandboxed import held_with_sandbox

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture
ANSWERS = Path(__file__).parent / "answers.json"
PODS = "/api/v1/namespaces/ns/pods"


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(rng=Random(1), wall=lambda: 1.8e9)


def make(server: ApiServer, name: str, **meta: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name, **meta}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    answer = server.request("POST", PODS, body=json.dumps(body).encode())
    assert answer.status == 201, answer.body
    return dict(json.loads(answer.body))


async def test_every_answer_of_the_script_is_the_real_ones(server: ApiServer) -> None:
    found, real = await held_with_sandbox(server, "ns"), json.loads(ANSWERS.read_text())
    for got, want in zip(found["answers"], real["answers"], strict=True):
        assert got == want
    assert found["watched"] == real["watched"]


async def test_a_list_goes_on_from_its_first_page_whatever_happens_meanwhile(server: ApiServer) -> None:
    for name in "abc":
        make(server, name)
    first = json.loads(server.request("GET", PODS, params={"limit": "2"}).body)
    make(server, "d")
    more = {"limit": "2", "continue": first["metadata"]["continue"]}
    second = json.loads(server.request("GET", PODS, params=more).body)
    assert [item["metadata"]["name"] for page in (first, second) for item in page["items"]] == ["a", "b", "c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert server.request("GET", PODS, params=more).status == 410


async def test_a_watch_of_a_forgotten_version_is_refused(server: ApiServer) -> None:
    since = make(server, "a")["metadata"]["resourceVersion"]
    make(server, "b")
    server.store.compact()
    async with aclosing(server.watch(PODS, params={"resourceVersion": since, "timeoutSeconds": "1"})) as arriving:
        lines = [json.loads(line) for some in [await anext(arriving), await anext(arriving)] for line in some]
    assert [(line["type"], line["object"]["code"]) for line in lines] == [("ERROR", 410)]


async def test_a_selector_sees_objects_come_and_go_by_their_labels(server: ApiServer) -> None:
    since = make(server, "a", labels={"app": "x"})["metadata"]["resourceVersion"]
    for value in ("y", "x", "x"):
        patch = json.dumps({"metadata": {"labels": {"app": value}, "annotations": {"to": value}}}).encode()
        server.request("PATCH", f"{PODS}/a", body=patch, content_type="application/merge-patch+json")
    params = {"resourceVersion": since, "timeoutSeconds": "0.01", "labelSelector": "app in (x)"}
    async with aclosing(server.watch(PODS, params=params)) as arriving:
        lines = [json.loads(line)["type"] async for some in arriving for line in some]
    assert lines == ["DELETED", "ADDED"]


async def test_a_watch_where_nothing_happens_gets_bookmarks_and_an_end(server: ApiServer) -> None:
    since = make(server, "a")["metadata"]["resourceVersion"]
    params = {"resourceVersion": since, "timeoutSeconds": "0.05", "allowWatchBookmarks": "true"}
    with anyio.fail_after(60):
        async with aclosing(server.watch(PODS, params=params)) as arriving:
            lines = [json.loads(line) async for some in arriving for line in some]
    assert [(line["type"], line["object"]["metadata"]["resourceVersion"]) for line in lines] == [("BOOKMARK", since)]


async def test_what_it_does_not_serve_it_refuses(server: ApiServer) -> None:
    assert server.request("GET", "/apis/networking.k8s.io/v1/ingresses").status == 404
    assert server.request("POST", f"{PODS}/a/log").status in {400, 404}
    with pytest.raises(Fault, match="404"):
        await anext(server.watch("/apis/networking.k8s.io/v1/ingresses", params={}))
