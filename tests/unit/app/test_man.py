"""Manual pages and the completion of kubectl's plug-in: both are made of the parser that parses commands."""

import os
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.cli import completed_names, kubectl_complete
from slackwater.cli.kubectl_complete import completions
from slackwater.cli.main import main, make_parser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man1")
    assert main(["man", "--into", str(folder)]) == 0
    return folder


def test_every_command_has_a_page_with_each_of_its_options(pages: Path) -> None:
    names = {path.name for path in pages.iterdir()}
    assert {"slackwater.1", "slackwater-explain.1", "slackwater-simulate-scale-down.1", "slackwater-man.1"} <= names
    said = (pages / "slackwater-explain.1").read_text()
    for words in (f'"Slackwater {__version__}"', r"\fB\-n\fR, \fB\-\-namespace\fR \fINS\fR", "Exit code 0: explained"):
        assert words in said
    assert r"slackwater\-simulate\-placement(1)" in (pages / "slackwater-simulate.1").read_text()


def test_groff_finds_nothing_wrong_with_any_page(pages: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for page in pages.iterdir():
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=True)
        assert not done.stderr, page.name


def test_one_page_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", "simulate", "placement"]) == 0
    assert capsys.readouterr().out.startswith('.TH "SLACKWATER-SIMULATE-PLACEMENT" "1"')


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["explode"], "man: got 'explode', want a command of `slackwater --help`"),
        (["explain", "--into", "/tmp"], "--into: got it with explain, want it alone"),
        (["--into", "/dev/null/man1"], "--into: /dev/null/man1: "),
    ],
)
def test_what_is_no_command_has_no_page(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", *arguments]) == 2
    assert want in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "want", "directive"),
    [
        ("", {"explain", "worth", "man"}, 4),
        ("expl", {"explain"}, 4),
        ("explain ", {"pod", "node", "deployment"}, 4),
        ("explain po", {"pod"}, 4),
        ("explain pod web --wat", {"--watch"}, 4),
        ("explain -n shop d", {"deployment", "daemonset"}, 4),
        ("explain pod web -o ", {"table", "json"}, 4),
        ("simulate scale-", {"scale-up", "scale-down"}, 4),
        ("explain --cluster ", set(), 0),
        ("explode ", set(), 4),
        ("explain pod web more ", set(), 4),
    ],
)
def test_kubectl_completes_the_plugin(line: str, want: set[str], directive: int) -> None:
    lines, seen = completions(make_parser(plugin=True), line.split(" "), lambda *_: [])
    assert seen == directive
    choices = {each.partition("\t")[0] for each in lines}
    assert want <= choices if not line or line.endswith("explain ") else want == choices


@pytest.mark.parametrize(
    ("line", "asked", "want"),
    [
        ("explain po we", "pod we", ["web-1", "web-2"]),
        ("explain -n shop deployments.apps w", "deployment w --namespace=shop", ["web-1", "web-2"]),
        ("explain sts/we", "statefulset we", ["sts/web-1", "sts/web-2"]),
        ("explain --context=prod gate shop/we", "gate we --context=prod --namespace=shop", ["shop/web-1", "shop/web-2"]),
        ("history --kubeconfig k no we", "node we --kubeconfig=k", ["web-1", "web-2"]),
        ("drains cancel we", "node we", ["web-1", "web-2"]),
        ("explain -n we", "namespace we", ["web-1", "web-2"]),
        ("simulate placement --context we", "context we", ["web-1", "web-2"]),
        ("explain cronjob we", "", []),
    ],
)
def test_names_are_completed_as_kubectl_names_them(line: str, asked: str, want: list[str]) -> None:
    asks: list[str] = []

    def ask(kind: str, begun: str, typed: Namespace) -> list[str]:
        options = (f"--{name}={value}" for name in ("kubeconfig", "context", "namespace") if (value := getattr(typed, name)))
        asks.append(" ".join((kind, begun, *options)))
        return ["web-1", "web-2"]

    assert completions(make_parser(plugin=True), line.split(" "), ask) == (want, 4)
    assert asks == ([asked] if asked else [])


@pytest.mark.parametrize(
    ("kind", "answers", "want"),
    [
        ("pod", "echo web-1; echo web-2; echo :4", ["web-1", "web-2"]),
        ("gate", '[ "$*" = "__complete --context=c --namespace=shop get pods we" ] && echo web-1', ["web-1"]),
        ("group", "echo 'nodeGroups: [{name: web-b}, {name: web-a}]'", ["web-a", "web-b"]),
        ("group", "echo '{'", []),
        ("node", "echo forbidden >&2; exit 1", []),
        ("node", "exec sleep 60", []),
    ],
)
def test_kubectl_is_asked_for_names_and_nothing_is_said_where_it_fails(
    kind: str, answers: str, want: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{answers}\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # A busy machine may start no program within a second.
    monkeypatch.setattr(completed_names, "PATIENCE_SECONDS", 0.1 if "sleep" in answers else 60.0)
    assert completed_names.names_of(kind, "we", Namespace(kubeconfig=None, context="c", namespace="shop")) == want


def test_without_kubectl_there_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert completed_names.names_of("pod", "we", Namespace(kubeconfig=None, context=None, namespace=None)) == []


def test_the_program_prints_choices_and_a_directive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-slackwater", "resu"])
    assert kubectl_complete.main() == 0
    assert capsys.readouterr().out == "resume\tlet a paused activity go on\n:4\n"
