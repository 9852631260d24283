"""What commands read and write: texts from files and stdin, tables and JSON, answers that are shown again, and failures.

The option `-o table|json` has as its default a table on a terminal, and JSON elsewhere. On a terminal `rich` draws tables and
folds long cells inside their column. Elsewhere a table is plain text, with columns as wide as their widest cell.
`CommandFailed` is the error by which a command fails, with an exit code. `--watch` shows an answer again every two seconds, in
place, until Ctrl-C.
"""

import argparse
import io
import json
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slackwater.app.html_page import ReportView
    from slackwater.app.settings import Settings

#: Larger tables are not drawn by `rich`, which would take seconds.
_MOST_DRAWN: Final = 2_000


def add_output(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    said = default or "table on a terminal, else json"
    parser.add_argument("-o", dest="output", choices=("table", "json"), default=default, help=f"default: {said}")


def as_json(args: argparse.Namespace) -> bool:
    """Is the output JSON? `-o` decides; without it, the output is JSON unless stdout is a terminal."""
    return bool(args.output == "json" or (args.output is None and not sys.stdout.isatty()))


def show(args: argparse.Namespace, document: object, lines: Callable[[], Iterable[str]]) -> None:
    """Prints the document as JSON, or the lines."""
    print(json.dumps(document, indent=2) if as_json(args) else "\n".join(lines()))


def print_count(source: str, what: str, places: Sequence[str]) -> None:
    """Says on stderr how many problems a file has, and where; nothing if it has none. `what`: what one of them is called."""
    if places:
        count = f"1 {what}" if len(places) == 1 else f"{len(places)} {what}s"
        print(f"slackwater: {source}: {count}: {', '.join(places)}", file=sys.stderr)


def columns(rows: Sequence[tuple[str, ...]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Formats a table as lines. The first row contains the headings; columns whose index is in `right` are right-aligned."""
    if sys.stdout.isatty() and len(rows) <= _MOST_DRAWN:
        yield from _table_lines(rows, right)
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def add_report_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", dest="output", choices=("table", "json", "html"), default="table", help="default: table")


def report_lines(output: str, answer: object, view: "ReportView") -> Iterator[str]:
    """A report as lines: the answer as JSON, a page of HTML, or its main figures, its tables, and what it rests on."""
    import msgspec

    from slackwater.app.html_page import page_of

    if output == "json":
        yield msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()
        return
    if output == "html":
        yield page_of(view).rstrip("\n")
        return
    for name, figure, more in view.headline:
        yield f"{name}: {figure} ({more})"
    for table in view.tables:
        yield ""
        yield table.title
        yield from columns([table.head, *table.rows], right=table.right)
        if table.note:
            yield f"({table.note})"
    yield ""
    yield from view.notes


def _table_lines(rows: Sequence[tuple[str, ...]], right: Collection[int]) -> Iterator[str]:
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if column in right else "left", overflow="fold")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row))
    text = StringIO()
    Console(file=text, force_terminal=True, width=shutil.get_terminal_size().columns, highlight=False).print(table)
    yield from (line.rstrip() for line in text.getvalue().splitlines())


#: The command ran, and the result is negative: problems in a file, differences in a record.
ANSWERED_NO: Final = 1
#: The command could not run: its arguments or files are wrong.
BAD_INPUT: Final = 2
#: The object that was asked about does not exist.
NOT_FOUND: Final = 3
#: Nothing that can answer was reached, or its answer cannot be used.
NO_ANSWER: Final = 4
#: The account may not ask this.
FORBIDDEN: Final = 5
INTERRUPTED: Final = 130


def messages(group: BaseExceptionGroup[Exception]) -> list[str]:
    """The messages of all errors in a group, as a task group raises it, and in the groups within it."""
    return [
        line
        for error in group.exceptions
        for line in (messages(error) if isinstance(error, BaseExceptionGroup) else [str(error)])
    ]


def code_of_status(status: int) -> int:
    """The exit code for an HTTP answer that is no success."""
    return {400: BAD_INPUT, 401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 409: ANSWERED_NO}.get(status, NO_ANSWER)


class CommandFailed(Exception):
    """Ends a command with exit code `code`. Each of `lines` is printed to stderr as `slackwater: ...`."""

    def __init__(self, lines: Sequence[str], *, code: int = BAD_INPUT) -> None:
        super().__init__(lines, code)
        self.lines = tuple(lines)
        self.code = code


def need_unix(command: str) -> None:
    """Raises `CommandFailed` on Windows, for a command that runs the service, whose processes are forked and signalled."""
    if sys.platform == "win32":
        raise CommandFailed([f"{command} is not supported on Windows: run it on Linux or macOS, in WSL, or as the image"])


def settings_from(path: str | None) -> "Settings":
    """The settings of the file; the defaults if `path` is None. Raises `CommandFailed` with all problems of the file."""
    from slackwater.app.settings import Settings, SettingsError, loads

    if path is None:
        return Settings()
    try:
        return loads(text_of(path), source=name_of(path))
    except SettingsError as err:
        raise CommandFailed(err.lines()) from err


def text_of(path: str) -> str:
    """The text of the file; `-` reads stdin. Raises `UnreadableSettings`, which names the file."""
    from slackwater.app.settings.reading import decode, read_bytes
    from slackwater.configuration.text_tree import LARGEST_TEXT

    data = sys.stdin.buffer.read(LARGEST_TEXT + 1) if path == "-" else read_bytes(path)
    return decode(data, source=name_of(path))


def name_of(path: str) -> str:
    return {"-": "stdin", "": '""'}.get(path, path)


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
