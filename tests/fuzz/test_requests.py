"""Requests that are almost right, and requests that are nothing, to the running service: no fault, no hang, and a refused one
changes nothing."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.objects import AGENT, NODE, POD
from tests.fuzz.running import Target
from tests.fuzz.sizes import tried
from tests.support.mangled import DEEP, mangled_bytes, spoiled

RECORDED = sorted(Path("openapi/examples").glob("*-*.request.json"))
METHODS = ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"]
QUESTIONS = ("placement", "scale-up", "scale-down")
SUPPOSED = {
    "objects": [POD | {"kind": "Pod", "apiVersion": "v1"}, NODE | {"kind": "Node", "apiVersion": "v1"}],
    "remove": [{"kind": "Node", "name": "node-1"}],
    "configuration": {"nodes": {"watermark": {"cpu": 0.5}}},
    "accounting": True,
}


def asked(path: Path) -> tuple[str, str]:
    """The listener and the path of a recorded request."""
    verb = path.name.partition("-")[0]
    return ("agents", "/") if verb == "agent" else ("extender", f"/scheduler/{verb}")


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.name.partition(".")[0])
@tried
@given(data=st.data())
def test_a_recorded_request_with_something_else_in_it(target: Target, recorded: Path, data: st.DataObject) -> None:
    body = data.draw(mangled_bytes(json.loads(recorded.read_bytes())))
    target.post(*asked(recorded), body)


@pytest.mark.parametrize("question", QUESTIONS)
@tried
@given(data=st.data())
def test_what_if_with_something_else_in_it(target: Target, question: str, data: st.DataObject) -> None:
    supposed = data.draw(mangled_bytes(SUPPOSED))
    target.unchanged_by(lambda: target.post("ops", f"/simulate/{question}", supposed), "what-if, answered or not,")


NAMES = st.text(max_size=20) | st.sampled_from(["..", "node-1", "a/b", "%00", "%2e%2e", "é", " ", "x" * 5000])


@tried
@given(name=NAMES, other=NAMES, kind=st.sampled_from(["pods", "nodes", "groups", "none"]))
def test_paths_of_the_ops_listener(target: Target, name: str, other: str, kind: str) -> None:
    from urllib.parse import quote

    for path in (f"/explain/{kind}/{quote(name)}", f"/explain/{kind}/{quote(name)}/{quote(other)}", f"/{quote(name, safe='')}"):
        target.ask("ops", "GET", path)
    target.ask("ops", "POST", f"/drains/{quote(name)}/cancel")


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_are_refused_and_change_nothing(target: Target, method: str) -> None:
    for path in ("/scheduler/filter", "/scheduler/bind", "/none"):
        want = {404} if path == "/none" else {405}
        assert target.ask("extender", method, path, b"{}").status_code in want | {400}
    for path in ("/", "/any"):
        assert target.ask("agents", method, path, b"{}").status_code == 400
    for path in ("/drains/node-1/cancel", "/simulate/placement"):
        assert target.ask("ops", method, path, b"{}").status_code in {400, 405}


def test_nested_without_end_is_the_callers_fault(target: Target) -> None:
    deep = b"[" * DEEP
    for verb in ("filter", "prioritize", "bind", "preempt"):
        for body in (deep, b'{"Pod":' + deep, b'{"Pod":{"metadata":{"name":"p"},"x":' + deep):
            assert target.post("extender", f"/scheduler/{verb}", body).status_code == 400
    for body in (deep, b'{"metrics":' + deep, b'{"x":' * 200):
        assert target.post("agents", "/", body).status_code == 400
    for question in QUESTIONS:
        for body in (deep, b'{"objects":[{"a":' + deep):
            assert target.post("ops", f"/simulate/{question}", body).status_code == 400


def test_a_pods_annotation_that_is_nested_without_end_is_that_pods_problem(target: Target) -> None:
    annotations = {"slackwater.dev/bounds": '{"x":' + "[" * DEEP}
    pod: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "name": "deep", "uid": "deep", "annotations": annotations}}
    answer = target.post("extender", "/scheduler/filter", {"Pod": pod, "NodeNames": ["node-1"], "Nodes": None})
    assert answer.status_code == 200
    assert "node-1" not in (answer.json()["NodeNames"] or ())


@pytest.mark.parametrize("listener", ["extender", "agents", "ops"])
@tried
@given(data=st.data())
def test_bytes_that_are_no_http(target: Target, listener: str, data: st.DataObject) -> None:
    whole = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{}\r\n"
    message = data.draw(spoiled(whole) | st.binary(max_size=300))
    said = target.unchanged_by(lambda: _sent(target.urls[listener], message), f"{message!r}")
    assert not said.startswith(b"HTTP/1.1 5"), said[:300]


def _sent(url: str, message: bytes) -> bytes:
    """What is answered to `message` until the stream ends."""
    parts = urlsplit(url)
    said = b""
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=120) as stream:
        stream.sendall(message)
        stream.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while part := stream.recv(65536):
                said += part
    return said


def test_the_service_has_answered_all_the_same(target: Target) -> None:
    """After whatever the others have sent."""
    assert target.post("agents", "/", AGENT).status_code in {200, 404}
    assert target.ask("ops", "GET", "/readyz").status_code == 200
