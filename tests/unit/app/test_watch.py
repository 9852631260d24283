"""`--watch`: on a terminal the answer is shown again in place, until Ctrl-C; elsewhere it is refused."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TextIO, cast

import pytest

from slackwater.cli.commands.output import CommandFailed, watched
from slackwater.cli.main import main
from tests.support.http_answers import answering
from tests.unit.app.test_dumpstate_command import STATE


class Enough(Exception):
    """Ends a watch after some rounds."""


class Terminal:
    """A stdout that is a terminal, and keeps what it is given."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setenv("LINES", "10")
    return screen


def rounds(number: int) -> Callable[[float], None]:
    left = [number]

    def pause(seconds: float) -> None:
        assert seconds == 2.0
        left[0] -= 1
        if not left[0]:
            raise Enough

    return pause


def test_each_round_is_drawn_over_the_last(terminal: Terminal) -> None:
    def show() -> int:
        print("one line")
        return 0

    with redirect_stdout(cast("TextIO", terminal)), pytest.raises(Enough):
        watched(Namespace(watch=True), show, pause=rounds(2))
    assert terminal.text.count("\x1b[H") == 2
    assert terminal.text.count("\x1b[2J") == 1, "the screen is cleared once, and does not flicker"
    assert terminal.text.count("one line\x1b[K\n") == 2
    assert "every 2 s; Ctrl-C ends it" in terminal.text


def test_what_does_not_fit_on_the_screen_is_counted(terminal: Terminal) -> None:
    def show() -> int:
        print("\n".join(f"line {number}" for number in range(20)))
        return 0

    with redirect_stdout(cast("TextIO", terminal)), pytest.raises(Enough):
        watched(Namespace(watch=True), show, pause=rounds(1))
    assert "line 6\x1b[K" in terminal.text
    assert "line 7\x1b[K" not in terminal.text
    assert "... 13 more lines" in terminal.text


def test_the_first_failure_ends_it_and_later_ones_are_shown(terminal: Terminal) -> None:
    answers = iter([True, False, True])

    def show() -> int:
        if not next(answers):
            raise CommandFailed(["nobody there"])
        print("fine")
        return 0

    with redirect_stdout(cast("TextIO", terminal)), pytest.raises(Enough):
        watched(Namespace(watch=True), show, pause=rounds(3))
    assert "slackwater: nobody there" in terminal.text
    assert terminal.text.count("fine") == 2
    answers = iter([False])
    with redirect_stdout(cast("TextIO", terminal)), pytest.raises(CommandFailed, match="nobody there"):
        watched(Namespace(watch=True), show, pause=rounds(1))


@pytest.mark.parametrize("command", [["dumpstate"], ["drains"], ["explain", "node", "n"], ["doctor"], ["pause"]])
def test_without_a_terminal_it_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--watch"]) == 2
    assert capsys.readouterr().err == "slackwater: --watch: got no terminal, want one\n"


def test_a_pause_cannot_be_watched_and_set_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pause", "all", "--watch"]) == 2
    assert "--watch: got it with an activity" in capsys.readouterr().err


def test_dumpstate_on_a_terminal_goes_on_until_ctrl_c() -> None:
    with answering(json.dumps(STATE).encode(), at="/dumpstate") as (url, asked):
        reader, writer = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "30"}
        # Who runs the tests in the background ignores Ctrl-C, and so do its children, unless they say otherwise.
        program = (
            "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
            "runpy.run_module('slackwater', run_name='__main__', alter_sys=True)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, "dumpstate", "--watch", "--url", url],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env=environment,
        )
        os.close(writer)
        seen, deadline = b"", time.monotonic() + 240
        while len(asked) < 2 or seen.count(b"node-a") < 2:
            assert time.monotonic() < deadline, seen.decode()
            if select.select([reader], [], [], 1)[0]:
                seen += os.read(reader, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        os.close(reader)
    assert max(len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)) for line in seen.decode().splitlines()) <= 80
