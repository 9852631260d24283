"""`slackwater dumpstate` against a small HTTP server: the table, the JSON, and every way the answer can be no."""

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from slackwater.cli.main import main
from tests.support.http_answers import answering

AMOUNTS = {"watermark": 0, "buffer": 0, "capacityPressure": 0, "pressureAccountedFor": 0}
STATE: dict[str, Any] = {
    "version": "1",
    "synced": True,
    "paused": {"scale-down": "since 10:00: incident 42"},
    "nodes": [
        {
            "name": "node-a",
            "cpu": {"total": 4000, "reserved": 1500, **AMOUNTS},
            "memory": {"total": 8 << 30, "reserved": 200 << 20, **AMOUNTS},
            "ready": True,
            "unschedulable": False,
        },
        {
            "name": "n",
            "cpu": {"total": 0, "reserved": 0, **AMOUNTS},
            "memory": {"total": 0, "reserved": 0, **AMOUNTS},
            "ready": False,
            "unschedulable": True,
        },
    ],
    "pods": [{"node": "node-a"}, {"node": "node-a"}, {"node": "n"}],
    "pending": [{"namespace": "shop", "name": f"web-{number}"} for number in range(5)],
    "quarantine": [{"node": "n", "why": "unreadable", "sinceSeconds": 3}],
    "migrationQueue": [],
    "holds": [{}],
    "nominations": [],
    "gates": [],
    "migrations": [],
}


def test_the_table_has_status_pods_and_one_unit_in_each_column_and_names_pending_pods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answering(json.dumps(STATE).encode(), at="/dumpstate") as (url, _):
        assert main(["dumpstate", "--url", url, "-o", "table"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NODE    STATUS                                   PODS  CORES    OF   %  GIB   OF  %",
        "node-a  Ready                                       2   1.50  4.00  38  0.2  8.0  2",
        "n       NotReady,SchedulingDisabled,Quarantined     1   0.00  0.00   -  0.0  0.0  -",
        "pending: 5: shop/web-0, shop/web-1, shop/web-2 and 2 more",
        "  why: slackwater explain pod shop/web-0",
        "pods on nodes: 3, holds: 1",
        "paused: scale-down, since 10:00: incident 42",
    ]


def test_a_service_that_has_not_listed_everything_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps({**STATE, "synced": False, "pending": []}).encode()) as (url, _):
        assert main(["dumpstate", "--url", url, "-o", "table"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "pending: none" in said
    assert said[-1].startswith("not everything is listed yet")


def test_json_is_handed_on_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(STATE, indent=1)
    with answering(body.encode(), at="/dumpstate") as (url, _):
        assert main(["dumpstate", "--url", f"{url}/", "-o", "json"]) == 0
    assert capsys.readouterr().out == body + "\n"


@pytest.mark.parametrize(
    ("status", "body", "want"),
    [
        (503, b"not synced", "got status 503, want 200: not synced"),
        (200, b"<html>", "got no JSON: "),
        (200, b"[]", "got JSON without a list of nodes, want a dumpstate"),
    ],
    ids=["status", "no-json", "other-json"],
)
def test_an_answer_that_is_no_state(status: int, body: bytes, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(body, status=status, at="/dumpstate") as (url, _):
        assert main(["dumpstate", "--url", url]) == 4
    assert capsys.readouterr().err.startswith(f"slackwater: {url}/dumpstate: {want}")


def test_no_listener_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"", at="/dumpstate") as (url, _):
        pass
    assert main(["dumpstate", "--url", url]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"slackwater: {url}/dumpstate: ")
    assert err.endswith("; does the service run?\n")


@pytest.mark.parametrize("url", ["127.0.0.1:10298", "ftp://127.0.0.1", "http://[::1"])
def test_a_url_that_is_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dumpstate", "--url", url]) == 2
    assert capsys.readouterr().err.startswith(f"slackwater: --url: got {url}, want http://HOST:PORT")


def test_a_listener_with_tls_is_verified_by_the_given_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    with answering(json.dumps(STATE).encode(), tls=context, at="/dumpstate") as (url, _):
        assert main(["dumpstate", "--url", url, "--ca-file", str(tmp_path / "ca.crt")]) == 0
        assert main(["dumpstate", "--url", url]) == 4
    assert "certificate verify failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        (["--key-file", "k"], "slackwater: --key-file: got no --cert-file, want the certificate of the key\n"),
        (["--ca-file", "/nowhere/ca"], "slackwater: --ca-file, --cert-file, --key-file: "),
    ],
)
def test_files_that_cannot_be_used(argv: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dumpstate", *argv]) == 2
    assert capsys.readouterr().err.startswith(want)
