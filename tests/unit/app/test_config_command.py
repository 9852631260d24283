"""`slackwater config check | schema`: reports and exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from slackwater.app.settings import schema
from slackwater.cli.main import main
from tests.support.configuration import HEADER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slackwater.yaml"


def test_a_valid_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(HEADER)
    assert main(["config", "check", str(path)]) == 0
    assert capsys.readouterr() == (f"{path}: valid\n", "")


def test_a_bad_file_is_reported_on_stdout_and_summed_up_on_stderr(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(HEADER + "nodes: {watermark: {cpu: 1.5}, foo: 1}")
    assert main(["config", "check", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{path}: nodes.watermark.cpu: got 1.5, want > 0 and <= 1",
        f"{path}: nodes.foo: got an unknown key, want one of watermark, system, score",
    ]
    assert err == f"slackwater: {path}: 2 problems: nodes.watermark.cpu, nodes.foo\n"


def test_notes_leave_a_file_valid(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(HEADER + "autoscaler: {enabled: true}")
    assert main(["config", "check", str(path)]) == 0
    out, err = capsys.readouterr()
    note, verdict = out.splitlines()
    assert note.startswith(f"{path}: note: autoscaler.nodeGroups: got none, want a group")
    assert verdict == f"{path}: valid"
    assert err == ""


@pytest.mark.parametrize("text", [None, "a: [", "\x00"], ids=["missing", "syntax", "control"])
def test_a_file_that_cannot_be_read(text: str | None, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        path.write_text(text)
    assert main(["config", "check", str(path)]) == 2
    assert capsys.readouterr().err == f"slackwater: {path}: 1 problem: the file\n"


def test_the_report_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(HEADER + "extender: {weight: 0}")
    assert main(["config", "check", str(path), "-o", "json"]) == 1
    wanted = "a whole number >= 1 and <= 100"
    assert json.loads(capsys.readouterr().out) == {
        "file": str(path),
        "valid": False,
        "problems": [
            {"path": "extender.weight", "seen": "0", "wanted": wanted, "message": f"extender.weight: got 0, want {wanted}"}
        ],
        "notes": [],
    }


def test_the_notes_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(HEADER + "autoscaler: {scanInterval: 5s}")
    assert main(["config", "check", str(path), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], report["problems"], len(report["notes"])) == (True, [], 1)


def test_a_file_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(HEADER.encode())))
    assert main(["config", "check", "-"]) == 0
    assert capsys.readouterr().out == "stdin: valid\n"


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
