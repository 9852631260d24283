"""`slackwater dumpstate` against a small HTTP server: the table, the JSON, and every way the answer can be no."""

import json
import ssl
from pathlib import Path

import pytest
import trustme

from slackwater.cli.main import main
from tests.support.http_answers import answering

AMOUNTS = {"watermark": 0, "buffer": 0, "capacityPressure": 0, "pressureAccountedFor": 0}
STATE = {
    "version": "1",
    "nodes": [
        {
            "name": "node-a",
            "cpu": {"total": 4000, "reserved": 1500, **AMOUNTS},
            "memory": {"total": 8 << 30, "reserved": 2 << 30, **AMOUNTS},
        },
        {"name": "n", "cpu": {"total": 0, "reserved": 0, **AMOUNTS}, "memory": {"total": 0, "reserved": 0, **AMOUNTS}},
    ],
    "pods": [{}, {}],
    "migrationQueue": [],
    "holds": [{}],
    "nominations": [],
    "gates": [],
    "migrations": [],
}


def test_the_table_shows_what_each_node_has_promised(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps(STATE).encode(), at="/dumpstate") as (url, _):
        assert main(["dumpstate", "--url", url, "-o", "table"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NODE    CPU RESERVED  CPU TOTAL  CPU %  MEM RESERVED  MEM TOTAL  MEM %",
        "node-a         1500m          4     38           2Gi        8Gi     25",
        "n                  0          0      -             0          0      -",
        "pods: 2, migrationQueue: 0, holds: 1, nominations: 0, gates: 0, migrations: 0",
    ]


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
        assert main(["dumpstate", "--url", url]) == 1
    assert capsys.readouterr().err.startswith(f"slackwater: {url}/dumpstate: {want}")


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"", at="/dumpstate") as (url, _):
        pass
    assert main(["dumpstate", "--url", url]) == 1
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
        assert main(["dumpstate", "--url", url]) == 1
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
