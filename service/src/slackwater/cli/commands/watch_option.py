"""Implements `--watch`: shows an answer again every two seconds, in place, until Ctrl-C."""

import argparse
import io
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Final

from slackwater.cli.commands.failure import CommandFailed

_EVERY_SECONDS: Final = 2.0
#: Terminal sequences: go to the first line; erase to the end of the line; erase to the end of the screen.
_HOME, _LINE_END, _SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEARED: Final = "\x1b[2J"


class _Page(io.StringIO):
    """Collects output to show it on the terminal at once. It says that it is a terminal, so that commands print tables."""

    def isatty(self) -> bool:
        return True


def add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="show it again every two seconds, until Ctrl-C")


def watched(args: argparse.Namespace, show: Callable[[], int], *, pause: Callable[[float], None] = time.sleep) -> int:
    """Calls `show` once and returns its exit code. With `--watch`, calls `show` again and again, and does not return.

    With `--watch`, an error of the first call is raised. Later errors are displayed and `show` is called again, because the
    service may be restarting.
    """
    if not args.watch:
        return show()
    if not sys.stdout.isatty():
        raise CommandFailed(["--watch: got no terminal, want one"])
    first = True
    while True:
        page, notes = _Page(), io.StringIO()
        try:
            with redirect_stdout(page), redirect_stderr(notes):
                show()
        except CommandFailed as failed:
            if first:
                raise
            notes.writelines(f"slackwater: {line}\n" for line in failed.lines)
        sys.stdout.write((_CLEARED if first else "") + _screen(page.getvalue(), notes.getvalue()))
        sys.stdout.flush()
        first = False
        pause(_EVERY_SECONDS)


def _screen(page: str, notes: str) -> str:
    """The text that draws the page over the previous one, cut to the terminal's height. A last line counts the lines cut
    off."""
    lines = [*page.splitlines(), *notes.splitlines()]
    room = shutil.get_terminal_size().lines - 2
    if len(lines) > room:
        lines = [*lines[: room - 1], f"... {len(lines) - room + 1} more lines; without --watch all of them are printed"]
    head = f"{time.strftime('%H:%M:%S')}, every {_EVERY_SECONDS:g} s; Ctrl-C ends it"
    return _HOME + "".join(f"{line}{_LINE_END}\n" for line in (head, *lines)) + _SCREEN_END
