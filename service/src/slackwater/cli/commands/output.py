"""Provides the option `-o table|json` and prints tables. The default is a table on a terminal, and JSON elsewhere.

On a terminal `rich` draws tables and folds long cells inside their column. Elsewhere a table is plain text, with columns as
wide as their widest cell.
"""

import argparse
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Final

#: Larger tables are not drawn by `rich`, which would take seconds.
_MOST_DRAWN: Final = 2_000


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", dest="output", choices=("table", "json"), help="default: table on a terminal, else json")


def as_json(args: argparse.Namespace) -> bool:
    """Is the output JSON? `-o` decides; without it, the output is JSON unless stdout is a terminal."""
    return bool(args.output == "json" or (args.output is None and not sys.stdout.isatty()))


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
