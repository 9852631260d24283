"""Manual pages and the completion of kubectl's plug-in: both are made of the parser that parses commands."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.cli import kubectl_complete
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
    lines, seen = completions(make_parser(plugin=True), line.split(" "))
    assert seen == directive
    choices = {each.partition("\t")[0] for each in lines}
    assert want <= choices if not line or line.endswith("explain ") else want == choices


def test_the_program_prints_choices_and_a_directive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-slackwater", "resu"])
    assert kubectl_complete.main() == 0
    assert capsys.readouterr().out == "resume\tlet a paused activity go on\n:4\n"
