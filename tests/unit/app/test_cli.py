"""The command line as a whole: help that teaches, one line for each error, exit codes."""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import Any

import pytest

from slackwater import __version__
from slackwater.app import process
from slackwater.app.settings import Settings
from slackwater.cli.main import main, make_parser
from slackwater.sandbox.free_ports import FreePorts
from tests.support.configuration import HEADER

COMMANDS = (
    "completion",
    *(
        "demo",
        "serve",
        "config check",
        "config schema",
        "config rbac",
        "doctor",
        "scheduler-config",
        "pause",
        "resume",
        "cleanup",
    ),
    *("simulate placement", "simulate scale-up", "simulate scale-down", "explain", "dumpstate", "drains", "replay"),
)


def test_help_names_every_command_in_its_group_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert [line for line in text.splitlines() if line.endswith(":")][:3] == [
        "try and run it:",
        "configure:",
        "ask what would happen:",
    ]
    assert "exit codes: 0" in text


def test_the_first_example_is_the_one_that_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert capsys.readouterr().out.partition("examples:\n")[2].startswith("  slackwater demo ")


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from every_parser(below)


def test_no_help_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parsers = list(every_parser(make_parser()))
    assert len(parsers) > len(COMMANDS)
    wide = [(each.prog, line) for each in parsers for line in each.format_help().splitlines() if len(line) > 80]
    assert wide == []


def test_kubectl_is_named_where_kubectl_runs_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-slackwater", "explain", "--help"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("usage: kubectl slackwater explain ")


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
        (
            ["srve"],
            "slackwater: argument COMMAND: invalid choice: 'srve' (did you mean serve?)\nslackwater: see `slackwater --help`",
        ),
        (["xyz"], "slackwater: argument COMMAND: invalid choice: 'xyz' (choose from demo, serve, "),
        (["why", "pod", "a/b"], "slackwater: argument COMMAND: invalid choice: 'why' (did you mean explain?)"),
        (["rbac"], "slackwater: argument COMMAND: invalid choice: 'rbac' (did you mean config rbac?)"),
        (["config", "chek"], "slackwater: argument COMMAND: invalid choice: 'chek' (did you mean check?)"),
        (["explain", "podz", "a/b"], "slackwater: argument KIND: invalid choice: 'podz' (did you mean pod?)"),
        (
            ["serve", "--conf", "x"],
            "slackwater: unrecognized arguments: --conf x; did you mean --config?\nslackwater: see `slackwater serve --help`\n",
        ),
        (["dumpstate", "--urll=x"], "slackwater: unrecognized arguments: --urll=x; did you mean --url?\n"),
        (["dumpstate", "--zzz"], "slackwater: unrecognized arguments: --zzz\n"),
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


def test_help_takes_less_than_a_quarter_of_a_second_of_a_core() -> None:
    """The least of three runs, in seconds of the processor: other tests run beside this one."""

    def spent() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "slackwater", "--help"], stdout=subprocess.DEVNULL, timeout=60, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(spent() for _ in range(3)) < 0.25


def test_help_does_not_wait_for_what_commands_need() -> None:
    heavy = "{'pydantic', 'yaml', 'anyio', 'httpx', 'numpy', 'structlog', 'cryptography', 'ssl'}"
    program = f"import sys; from slackwater.cli.main import main; main(['--help']); sys.exit(repr({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == "set()"


def test_a_simulation_does_not_wait_for_what_only_the_service_needs() -> None:
    parts = ["runtime.state_machine", "runtime.dispatcher", "controllers.scaledown.plan", "controllers.consolidation.plan"]
    parts += ["runtime.change_collector", "cluster.cluster_state", "controllers.scaleup.packing.option"]
    parts += ["app.scheduler_config.check"]
    heavy = {"structlog", "cryptography", "httpx", *(f"slackwater.{part}" for part in parts)}
    imports = "import slackwater.app.offline.files, slackwater.app.whatif.question, sys"
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}; sys.exit(repr({heavy} & set(sys.modules)))"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
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


def test_serve_refuses_a_bad_file_with_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEADER + "nodes: {watermark: {cpu: 1.5}}\nextender: {weight: 0}\n")
    assert main(["serve", "--config", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"slackwater: {path}: extender.weight: got 0, want a whole number >= 1 and <= 100",
        f"slackwater: {path}: nodes.watermark.cpu: got 1.5, want > 0 and <= 1",
    ]


@pytest.mark.parametrize(("more", "enabled"), [([], True), (["--config", "F"], False)])
def test_a_shadow_without_a_file_plans(more: list[str], enabled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "slackwater.yaml"
    path.write_text(HEADER)
    served: list[Settings] = []

    async def serve_shadow(settings: Settings, **_: Any) -> None:
        served.append(settings)

    monkeypatch.setattr(process, "serve_shadow", serve_shadow)
    more = [str(path) if word == "F" else word for word in more]
    assert main(["serve", "--shadow", "--kubeconfig", "unread", *more]) == 0
    assert [(each.mode, each.autoscaler.enabled) for each in served] == [("shadow", enabled)]


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


def test_serve_without_a_kubeconfig_names_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["serve"]) == 2
    want = "slackwater: got no --kubeconfig, and this is no Pod with an account: want --kubeconfig F, such as ~/.kube/config\n"
    assert capsys.readouterr().err == want


def test_serve_cannot_watch_stdin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", "-"]) == 2
    assert capsys.readouterr().err == "slackwater: --config: got -, want a file: it is watched for changes\n"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of loopback that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def on_ports(path: Path, *, extender: int, ops: int) -> list[str]:
    listeners = f'{{extender: {{address: "127.0.0.1:{extender}"}}, ops: {{address: "127.0.0.1:{ops}"}}}}'
    path.write_text(f"{HEADER}listeners: {listeners}\n")
    return ["serve", "--config", str(path), "--kubeconfig", str(path.parent / "no-kubeconfig")]


@pytest.mark.usefixtures("loggers_as_before")
def test_serve_names_the_address_that_is_taken(taken: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = FreePorts(SystemRandom())
    assert main(on_ports(tmp_path / "s.yaml", extender=free.take(), ops=taken)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"slackwater: listeners.ops.address: cannot listen on 127.0.0.1:{taken}: ")


@pytest.mark.usefixtures("loggers_as_before")
def test_serve_names_the_kubeconfig_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = FreePorts(SystemRandom())
    assert main(on_ports(tmp_path / "s.yaml", extender=free.take(), ops=free.take())) == 2
    error = capsys.readouterr().err
    assert error.startswith("slackwater: ")
    assert "no-kubeconfig" in error
