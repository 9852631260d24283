"""`slackwater completion`: the scripts complete commands, options and files in the shells themselves."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slackwater.app.offline.workload_objects import WORKLOADS
from slackwater.cli.main import main

TOP = {"demo", "serve", "config", "explain", "dumpstate", "pause", "completion"}


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    path = folder / f"_slackwater.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("slackwater ex", {"explain"}),
        ("slackwater simulate ", {"placement", "scale-up", "scale-down", "consolidate"}),
        ("slackwater simulate scale-up --clu", {"--cluster"}),
        ("slackwater explain ", {"pod", "node", "group", *WORKLOADS, "permit", "migration", "gate"}),
        ("slackwater dumpstate -o ", {"table", "json"}),
        ("slackwater pause scale-d", {"scale-down"}),
        ("slackwater config check sl", {"slackwater.yaml"}),
    ],
)
def test_bash_completes(line: str, want: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    (tmp_path / "slackwater.yaml").touch()
    words = line.split(" ")
    program = (
        f'source {path}; COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}; _shtab_slackwater; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program, "bash", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert set(done.stdout.split()) == want, done.stderr


def test_bash_knows_which_command_it_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("bash", tmp_path, capsys)
    done = subprocess.run(["bash", "--norc", "-c", f"source {path}; complete -p slackwater"], capture_output=True, check=True)
    assert done.stdout.decode().endswith("_shtab_slackwater slackwater\n")


@needs("fish")
def test_fish_completes_with_a_line_about_each_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script("fish", tmp_path, capsys)

    def completed(line: str) -> dict[str, str]:
        program = f"source {path}; complete -C'{line}'"
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(["fish", "-N", "-c", program], capture_output=True, text=True, env=environment, check=True)
        return dict(part.partition("\t")[::2] for part in done.stdout.splitlines())

    assert completed("slackwater ").keys() >= TOP
    assert completed("slackwater ex") == {"explain": "why a pod waits, a node stays, a group does not grow"}
    assert completed("slackwater simulate scale-").keys() == {"scale-up", "scale-down"}
    assert "--cluster" in completed("slackwater simulate scale-up --clu")


@needs("zsh")
def test_zsh_completes_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "_slackwater").write_text(script("zsh", tmp_path, capsys).read_text())
    reader, writer = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "ZDOTDIR": str(tmp_path)}
    (tmp_path / ".zshrc").write_text(
        f"PS1='> '; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D; print ready\n"
    )
    with subprocess.Popen(
        ["zsh", "-i"], stdin=writer, stdout=writer, stderr=writer, env=environment, start_new_session=True
    ) as zsh:
        os.close(writer)
        try:
            until(reader, "ready")
            os.write(reader, b"slackwater simulate scale-u\t--clu\t")
            assert "slackwater simulate scale-up " in until(reader, "--cluster ")
        finally:
            zsh.kill()
    os.close(reader)


def until(reader: int, wanted: str) -> str:
    """What the terminal shows, as soon as it has the wanted text."""
    seen, deadline = "", time.monotonic() + 240
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([reader], [], [], 1)[0]:
            seen += os.read(reader, 4096).decode(errors="replace")
    return seen


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "choose from bash, zsh, fish" in capsys.readouterr().err


def test_help_does_not_import_what_only_completion_needs() -> None:
    program = "import sys; from slackwater.cli.main import main; main(['--help']); sys.exit('shtab' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
