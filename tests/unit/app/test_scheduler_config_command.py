"""`slackwater scheduler-config`: what it prints, what its check says, exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest
import trustme
import yaml

from slackwater.cli.main import main
from tests.support.configuration import HEADER


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "slackwater.yaml"
    path.write_text(HEADER)
    return path


@pytest.fixture
def generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["scheduler-config"]) == 0
    path = tmp_path / "scheduler.yaml"
    path.write_text(capsys.readouterr().out)
    return path


def test_it_prints_yaml_that_says_what_was_asked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(HEADER + "schedulerName: mine")
    argv = ["--config", str(config), "--kubeconfig", "/k", "--extender-url", "http://127.0.0.1:5/scheduler"]
    assert main(["scheduler-config", *argv]) == 0
    file = yaml.safe_load(capsys.readouterr().out)
    assert file["profiles"] == [{"schedulerName": "mine", "percentageOfNodesToScore": 1}]
    assert file["clientConnection"]["kubeconfig"] == "/k"
    assert file["extenders"][0]["urlPrefix"] == "http://127.0.0.1:5/scheduler"


def test_it_writes_a_file_where_there_is_no_shell_to_do_it(
    tmp_path: Path, generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "written.yaml"
    assert main(["scheduler-config", "--write", str(file)]) == 0
    assert capsys.readouterr().out == ""
    assert file.read_text() == generated.read_text()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--write", "/nowhere/at/all"], "/nowhere/at/all: No such file or directory, want a file that can be written"),
        (["--write", "f", "--check", "g"], "--check and --write: got both, want one of them"),
    ],
)
def test_what_it_cannot_write_is_an_error(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler-config", *argv]) == 2
    assert words in capsys.readouterr().err


def test_what_it_prints_is_clean(generated: Path, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler-config", "--check", str(generated)]) == 0
    assert capsys.readouterr() == (f"{generated}: clean\n", "")
    assert main(["scheduler-config", "--check", str(generated), "--config", str(config)]) == 0


def test_findings(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated.write_text(generated.read_text().replace("ignorable: false", "ignorable: true"))
    assert main(["scheduler-config", "--check", str(generated)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "warning  extenders[0].ignorable: ignorable",
        "         why: while Slackwater does not answer, pods are placed without it and nodes go over their total",
        "         fix: remove ignorable, or set extender.ignorable: true in Slackwater's configuration if that is wanted",
    ]
    assert err == f"slackwater: {generated}: 1 finding: extenders[0].ignorable (ignorable)\n"


def test_advice_leaves_a_file_clean(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated.write_text(generated.read_text().replace("leaderElect: false", "leaderElect: true"))
    assert main(["scheduler-config", "--check", str(generated)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("advice   leaderElection.resourceName: shared-lease\n")
    assert out.endswith(f"{generated}: clean\n")
    assert err == ""


def test_findings_as_json(generated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated.write_text(generated.read_text().replace("httpTimeout: 5s", "httpTimeout: 5ms"))
    assert main(["scheduler-config", "--check", str(generated), "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (finding,) = report["findings"]
    assert (report["file"], report["clean"]) == (str(generated), False)
    assert finding.keys() == {"path", "trap", "severity", "why", "fix"}
    assert (finding["path"], finding["trap"]) == ("extenders[0].httpTimeout", "http-timeout")


@pytest.mark.parametrize(
    ("text", "want_error"),
    [
        (None, "the file: got No such file or directory, want a file to read"),
        ("a: [", "the file: got a syntax error on line "),
        ("", "the file: got nothing in it, want kind: KubeSchedulerConfiguration and apiVersion: "),
        ("- a", "the file: got a list, want kind: KubeSchedulerConfiguration and apiVersion: "),
        (HEADER, 'kind: got "SlackwaterConfiguration", want KubeSchedulerConfiguration'),
    ],
    ids=["missing", "syntax", "empty", "list", "other-kind"],
)
def test_a_file_that_is_no_scheduler_configuration(
    text: str | None, want_error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scheduler.yaml"
    if text is not None:
        path.write_text(text)
    assert main(["scheduler-config", "--check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"slackwater: {path}: {want_error}")


def test_a_bad_configuration_of_ours_is_bad_input(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(HEADER + "extender: {weight: 0}")
    assert main(["scheduler-config", "--config", str(config)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"slackwater: {config}: extender.weight: got 0, want a whole number >= 1 and <= 100\n"


def test_a_missing_client_certificate_is_bad_input(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(HEADER + "listeners: {extender: {tls: {certFile: c, keyFile: k, clientCAFile: a}}}")
    assert main(["scheduler-config", "--config", str(config)]) == 2
    assert capsys.readouterr().err.startswith(f"slackwater: {config}: extender.schedulerTLS.certFile: got nothing, want ")


def test_one_stdin_is_not_two_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler-config", "--check", "-", "--config", "-"]) == 2
    assert capsys.readouterr().err.startswith("slackwater: --config and --check: got - twice")


def test_a_file_from_stdin(generated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(generated.read_bytes())))
    assert main(["scheduler-config", "--check", "-"]) == 0
    assert capsys.readouterr().out == "stdin: clean\n"


@pytest.fixture
def with_tls(tmp_path: Path, config: Path) -> Path:
    trustme.CA().issue_cert("slackwater.svc").cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    config.write_text(f"{HEADER}listeners: {{extender: {{tls: {{certFile: {tmp_path}/tls.crt, keyFile: k}}}}}}\n")
    return config


def test_the_listeners_certificate_is_looked_into(with_tls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler-config", "--config", str(with_tls)]) == 0
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text(capsys.readouterr().out)
    assert main(["scheduler-config", "--check", str(scheduler), "--config", str(with_tls)]) == 1
    assert "extenders[0].tlsConfig.serverName (https-server-name)" in capsys.readouterr().err

    with_tls.write_text(with_tls.read_text() + "extender: {schedulerTLS: {serverName: slackwater.svc}}\n")
    assert main(["scheduler-config", "--config", str(with_tls)]) == 0
    scheduler.write_text(capsys.readouterr().out)
    assert main(["scheduler-config", "--check", str(scheduler), "--config", str(with_tls)]) == 0


def test_a_certificate_that_is_elsewhere_is_said_to_be_unchecked(
    with_tls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scheduler-config", "--config", str(with_tls)]) == 0
    scheduler = tmp_path / "scheduler.yaml"
    scheduler.write_text(capsys.readouterr().out)
    (tmp_path / "tls.crt").unlink()
    assert main(["scheduler-config", "--check", str(scheduler), "--config", str(with_tls)]) == 0
    out, err = capsys.readouterr()
    assert "advice   extenders[0].tlsConfig.serverName: https-server-name" in out
    assert err == f"slackwater: note: {tmp_path}/tls.crt: no certificate to read here, so its names are not checked\n"
