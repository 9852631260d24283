"""A report as a table for the terminal: one row for each subject, one column for each quantity, medians of the rounds."""

from collections.abc import Sequence
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


def columns(measurements: Sequence[Measurement]) -> list[str]:
    """The heads of the columns, in the order of first appearance."""
    return list(dict.fromkeys(head(m) for m in measurements))


def head(measurement: Measurement) -> str:
    return f"{measurement.quantity} ({measurement.unit})" if measurement.unit else measurement.quantity


def rows(measurements: Sequence[Measurement]) -> list[tuple[str, list[Measurement | None]]]:
    """Each subject with its measurement in each column, None where it has none."""
    heads = columns(measurements)
    cells: dict[str, dict[str, Measurement]] = {}
    for measurement in measurements:
        cells.setdefault(measurement.subject, {})[head(measurement)] = measurement
    return [(subject, [found.get(name) for name in heads]) for subject, found in cells.items()]


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
    console.print(_measurements(report.measurements))
    console.print(_ratios(report.ratios))
    for note in report.notes:
        console.print(f"  {note}")
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def _measurements(measurements: Sequence[Measurement]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("median")
    for name in columns(measurements):
        table.add_column(name, justify="right")
    for subject, cells in rows(measurements):
        table.add_row(subject, *(_cell(cell) for cell in cells))
    return table


def _cell(measurement: Measurement | None) -> str:
    if measurement is None:
        return ""
    said = verdict(measurement)
    return f"{figure(measurement.median)} ({said})" if said else figure(measurement.median)


def _ratios(ratios: Sequence[Ratio]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("ratio", "median", "lowest", "highest", "goal"):
        table.add_column(name, justify="left" if name in {"ratio", "goal"} else "right")
    for ratio in ratios:
        least, most = min(ratio.samples), max(ratio.samples)
        table.add_row(ratio.name, f"{ratio.median:.3f}", f"{least:.3f}", f"{most:.3f}", verdict(ratio))
    return table
