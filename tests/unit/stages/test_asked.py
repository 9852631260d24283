"""What the service asked in each worker's session reaches the test that looks back on all of them."""

import json
from pathlib import Path

import pytest

from tests.cluster.support import asked


def a_log(path: Path, *lines: tuple[str, str, str]) -> Path:
    events = [
        {
            "stage": "ResponseComplete",
            "user": {"username": user},
            "verb": verb,
            "objectRef": {"resource": resource, "name": "one", "namespace": "ns"},
            "responseStatus": {"code": 200},
        }
        for user, verb, resource in lines
    ]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


def test_requests_of_the_service_are_kept_by_kind_for_the_sessions_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(asked.FOLDER, str(tmp_path / "kept"))
    log = a_log(tmp_path / "log", ("slackwater", "get", "pods"), ("slackwater", "get", "pods"), ("admin", "list", "nodes"))
    asked.keep(log, files={"test_a.py"})
    requests, files = asked.kept()
    assert {(request.verb, request.resource, request.status, request.name) for request in requests} == {
        ("get", "pods", 200, "")
    }
    assert requests == asked.by_service(log)
    assert files == {"test_a.py"}


def test_where_no_folder_is_named_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(asked.FOLDER, raising=False)
    asked.keep(a_log(tmp_path / "log", ("slackwater", "get", "pods")), files={"test_a.py"})
    assert asked.kept() == (set(), set())
