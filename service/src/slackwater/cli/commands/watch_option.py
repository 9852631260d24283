"""`--watch`: shows an answer again every two seconds, in place, until Ctrl-C."""

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
#: Go to the first line; erase to the end of the line, of the screen.
_HOME, _LINE_END, _SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEARED: Final = "\x1b[2J"


class _Page(io.StringIO):
    """What is written to a terminal, to be shown at once."""

    def isatty(self) -> bool:
        return True


def add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="show it again every two seconds, until Ctrl-C")


def watched(args: argparse.Namespace, show: Callable[[], int], *, pause: Callable[[float], None] = time.sleep) -> int:
    """Calls `show` once, or with `--watch` again and again. Returns its code. Raises what `show` raises the first time;
    later failures are shown, and `show` is called again: a service may restart meanwhile."""
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
    """The page as it is drawn over the last one, cut to the terminal's height. What is cut is counted."""
    lines = [*page.splitlines(), *notes.splitlines()]
    room = shutil.get_terminal_size().lines - 2
    if len(lines) > room:
        lines = [*lines[: room - 1], f"... {len(lines) - room + 1} more lines; without --watch all of them are printed"]
    head = f"{time.strftime('%H:%M:%S')}, every {_EVERY_SECONDS:g} s; Ctrl-C ends it"
    return _HOME + "".join(f"{line}{_LINE_END}\n" for line in (head, *lines)) + _SCREEN_END
