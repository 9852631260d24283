"""The command line as a whole: help that teaches, one line for each error, exit codes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.cli.main import main

COMMANDS = ("serve", "demo", "config check", "config schema", "scheduler-config", "dumpstate")


def test_help_names_every_command_in_its_group_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in text
        assert f"  slackwater {command}" in text or command == "config schema"
    assert [line for line in text.splitlines() if line in ("run:", "configure:", "look inside:")] != []
    assert "exit codes: 0" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: slackwater {command} ")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"slackwater {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "want_error"),
    [
        ([], "slackwater: the following arguments are required: COMMAND\nslackwater: see `slackwater --help`\n"),
        (["config"], "slackwater: the following arguments are required: COMMAND\nslackwater: see `slackwater config --help`\n"),
        (["config", "check"], "slackwater: the following arguments are required: F\n"),
        (["srve"], "slackwater: argument COMMAND: invalid choice: 'srve'"),
        (["serve", "--conf", "x"], "slackwater: unrecognized arguments: --conf x\n"),
        (["serve", "--log-format", "xml"], "slackwater: argument --log-format: invalid choice: 'xml'"),
        (["scheduler-config", "-o", "yaml"], "slackwater: argument -o: invalid choice: 'yaml'"),
        (["demo", "--nodes", "0"], "slackwater: argument --nodes: got 0, want a whole number from 1 to 100000\n"),
        (["demo", "--pods", "1e3"], "slackwater: argument --pods: got 1e3, want a whole number from 1 to 100000\n"),
        (["demo", "--pods", "100001"], "slackwater: argument --pods: got 100001, want a whole number from 1 to 100000\n"),
        (["demo", "--duration", "30"], 'slackwater: argument --duration: got 30, want a duration > 0 such as "30s"\n'),
        (["demo", "--duration", "0s"], 'slackwater: argument --duration: got 0s, want a duration > 0 such as "30s"\n'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments_are_one_line_and_a_way_to_help(
    argv: list[str], want_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith(want_error)
    assert error.endswith(" --help`\n")


def test_help_does_not_wait_for_what_commands_need() -> None:
    heavy = "{'pydantic', 'yaml', 'anyio', 'httpx', 'numpy', 'structlog', 'cryptography'}"
    program = f"import sys; from slackwater.cli.main import main; main(['--help']); sys.exit(repr({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == "set()"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As in `slackwater config schema | head -1`."""
    read, write = os.pipe()
    os.close(read)
    program = "import sys; from slackwater.cli.main import main; sys.exit(main(['config', 'schema']))"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


HEADER = "apiVersion: config.slackwater.dev/v1alpha1\nkind: SlackwaterConfiguration\n"


def test_serve_refuses_a_bad_file_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEADER + "nodes: {watermark: {cpu: 1.5}}\nextender: {weight: 0}\n")
    assert main(["serve", "--config", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"slackwater: {path}: extender.weight: got 0, want a whole number >= 1 and <= 100",
        f"slackwater: {path}: nodes.watermark.cpu: got 1.5, want > 0 and <= 1",
    ]


def test_serve_refuses_an_autoscaler_with_nothing_to_grow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEADER + "autoscaler: {enabled: true}\n")
    assert main(["serve", "--config", str(path)]) == 2
    wanted = "a group or a provider: with none of them no node can be added"
    want = f"slackwater: {path}: autoscaler.nodeGroups: got none, want {wanted}\n"
    assert capsys.readouterr().err == want


def test_serve_refuses_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    assert main(["serve", "--config", str(path)]) == 2
    want = f"slackwater: {path}: the file: got No such file or directory, want a file to read\n"
    assert capsys.readouterr().err == want


def test_serve_cannot_watch_stdin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", "-"]) == 2
    assert capsys.readouterr().err == "slackwater: --config: got -, want a file: it is watched for changes\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of loopback that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def on_ports(path: Path, *, extender: int, ops: int) -> list[str]:
    listeners = f'{{extender: {{address: "127.0.0.1:{extender}"}}, ops: {{address: "127.0.0.1:{ops}"}}}}'
    path.write_text(f"{HEADER}listeners: {listeners}\n")
    return ["serve", "--config", str(path), "--kubeconfig", str(path.parent / "no-kubeconfig")]


@pytest.mark.usefixtures("loggers_as_before")
def test_serve_names_the_address_that_is_taken(taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(on_ports(tmp_path / "s.yaml", extender=free_port(), ops=taken)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"slackwater: listeners.ops.address: cannot listen on 127.0.0.1:{taken}: ")


@pytest.mark.usefixtures("loggers_as_before")
def test_serve_names_the_kubeconfig_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(on_ports(tmp_path / "s.yaml", extender=free_port(), ops=free_port())) == 2
    error = capsys.readouterr().err
    assert error.startswith("slackwater: ")
    assert "no-kubeconfig" in error
