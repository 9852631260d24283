"""A report as tables: medians of the rounds by subject and quantity, and the ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from tests.bench.report import Measurement, Ratio, Report

_WIDTH: Final = 118


def figure(value: float) -> str:
    """Three digits at least, as many as that many mean something."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Texts, ready to be drawn: the heads of all columns, and each row with its own head first."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grid(measurements: Sequence[Measurement]) -> Grid:
    """The medians; subjects are the rows, or the columns where there are fewer of them than of quantities."""
    cells = {(m.subject, _quantity(m)): _cell(m) for m in measurements}
    subjects = list(dict.fromkeys(subject for subject, _ in cells))
    quantities = list(dict.fromkeys(quantity for _, quantity in cells))
    if len(subjects) < len(quantities):
        rows = ((q, *(cells.get((s, q), "") for s in subjects)) for q in quantities)
        return Grid(("median", *subjects), tuple(rows))
    return Grid(("median", *quantities), tuple((s, *(cells.get((s, q), "") for q in quantities)) for s in subjects))


def ratio_grid(ratios: Sequence[Ratio]) -> Grid:
    """One row for each ratio."""
    rows = ((r.name, f"{r.median:.3f}", f"{min(r.samples):.3f}", f"{max(r.samples):.3f}", verdict(r)) for r in ratios)
    return Grid(("ratio", "median", "lowest", "highest", "goal"), tuple(rows))


def _quantity(measurement: Measurement) -> str:
    return f"{measurement.quantity} ({measurement.unit})" if measurement.unit else measurement.quantity


def _cell(measurement: Measurement) -> str:
    said = verdict(measurement)
    return f"{figure(measurement.median)} ({said})" if said else figure(measurement.median)


def verdict(item: Measurement | Ratio) -> str:
    """What the goal says to the median; empty without a goal."""
    if item.goal is None:
        return ""
    return f"{item.goal} {'met' if item.goal.met_by(item.median) else 'missed'}"


def as_table(report: Report, *, width: int) -> str:
    """The whole report as text, in at least 118 columns."""
    console = Console(file=StringIO(), width=max(width, _WIDTH), highlight=False)
    said = ", ".join(f"{name} {value}" for name, value in report.parameters.items())
    console.print(f"\n[bold]{report.bench}[/bold]{' (quick)' if report.quick else ''}: {said}")
    console.print(_drawn(grid(report.measurements)))
    console.print(_drawn(ratio_grid(report.ratios)))
    for note in report.notes:
        console.print(f"  {note}")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def _drawn(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(grid.heads):
        table.add_column(name, justify="right" if number else "left")
    for row in grid.rows:
        table.add_row(*row)
    return table
