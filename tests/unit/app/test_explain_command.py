"""`slackwater explain` against a small HTTP server: the tables, the JSON, and every way the answer can be no."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from slackwater.app.cli import main

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


@contextmanager
def answering(answer: object, *, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    body = json.dumps(answer).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join(10)


def test_the_table_has_reasons_groups_remedies_and_what_has_to_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(ANSWER) as (url, asked):
        assert main(["explain", "pod", "shop/web", "--url", url, "-o", "table"]) == 0
    said = capsys.readouterr().out
    assert asked == ["/explain/pods/shop/web"]
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
    with answering(ANSWER) as (url, _):
        assert main(["explain", "node", "n1", "--url", url]) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER


def test_what_is_not_there_is_a_no_in_the_listeners_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({"detail": "group pool: no provider has told of it"}, status=404) as (url, _):
        assert main(["explain", "group", "pool", "--url", url]) == 1
    assert "group pool: no provider has told of it" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("pod", "web"), ("pod", "a/b/c"), ("node", "a/b"), ("pod", "/web")])
def test_a_name_of_the_wrong_shape_is_bad_input(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words]) == 2
    assert "want" in capsys.readouterr().err


def test_an_unknown_kind_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "deployment", "web"]) == 2
    assert "pod" in capsys.readouterr().err


def test_an_answer_that_is_no_explanation_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    with answering([]) as (url, _):
        assert main(["explain", "node", "n1", "--url", url]) == 1
    assert "want an explanation" in capsys.readouterr().err
