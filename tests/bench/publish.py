"""Reports as JSON files in tests/output/bench/, and from there into docs/benchmarks.md.

The page gets only full runs: a quick one is written under another name. Between its two markers everything is generated.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tests.bench import machine
from tests.bench.options import BenchFailed
from tests.bench.report import Goal, Measurement, Ratio, Report
from tests.bench.show import Grid, grid, ratio_grid

_ROOT: Final = Path(__file__).parents[2]
OUTPUT: Final = _ROOT / "tests" / "output" / "bench"
PAGE: Final = _ROOT / "docs" / "benchmarks.md"
BEGIN: Final = "<!-- results: written by `python -m tests.bench --write-docs` -->"
END: Final = "<!-- end of results -->"


def as_document(report: Report) -> dict[str, Any]:
    """What is written: every sample, the medians, the machine, and the time by its clock now."""
    document = asdict(report) | {"machine": machine.described()}
    medians = {"measurements": [m.median for m in report.measurements], "ratios": [r.median for r in report.ratios]}
    for kind, values in medians.items():
        for entry, value in zip(document[kind], values, strict=True):
            entry["median"] = value
    return document


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2)


def write(document: Mapping[str, Any], folder: Path = OUTPUT) -> Path:
    """The file that the document is in now."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{document['bench']}{'.quick' if document['quick'] else ''}.json"
    file.write_text(as_text(document) + "\n")
    return file


def write_docs(folder: Path = OUTPUT, page: Path = PAGE) -> Path:
    """Puts every full result of `folder` into the page, between its markers, in place of that bench's older one. Raises
    BenchFailed where there is none."""
    files = sorted(file for file in folder.glob("*.json") if not file.name.endswith(".quick.json"))
    if not files:
        raise BenchFailed(f"{folder}: no results of a full run; `python -m tests.bench` writes them")
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    published, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchFailed(f"{page}: want the lines {BEGIN} and {END}, in this order")
    sections = _sections(published)
    for document in (json.loads(file.read_text()) for file in files):
        sections[document["bench"]] = "\n".join(_section(document)).strip()
    results = "\n\n".join(f"### {name}\n\n{sections[name]}" for name in sorted(sections))
    page.write_text(f"{before}{BEGIN}\n\n{results}\n\n{END}{after}")
    return page


def _sections(published: str) -> dict[str, str]:
    """The published results by bench, without their headings."""
    parts = (part.partition("\n") for part in published.strip().removeprefix("### ").split("\n### "))
    return {name.strip(): text.strip() for name, _, text in parts if name.strip()}


def _section(document: Mapping[str, Any]) -> Iterator[str]:
    yield _said(document["parameters"], document["machine"])
    yield ""
    yield from _drawn(grid([_measurement(entry) for entry in document["measurements"]]))
    yield ""
    if document["ratios"]:
        yield from _drawn(ratio_grid([_ratio(entry) for entry in document["ratios"]]))
        yield ""
    for note in document["notes"]:
        yield note
        yield ""


def _drawn(grid: Grid) -> Iterator[str]:
    yield f"| {' | '.join(grid.heads)} |"
    yield f"|---|{'---:|' * (len(grid.heads) - 1)}"
    for row in grid.rows:
        yield f"| {' | '.join(row)} |"


def _said(parameters: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in parameters.items())
    where = f"{seen['cores']} cores of {seen['cpu']}, {seen['memoryGiB']} GiB, Python {seen['python']}"
    return f"{sizes}. {where}, Kubernetes {seen['kubernetes']}; {seen['finishedAt']}."


def _measurement(entry: Mapping[str, Any]) -> Measurement:
    return Measurement(
        subject=entry["subject"],
        quantity=entry["quantity"],
        unit=entry["unit"],
        samples=tuple(entry["samples"]),
        goal=_goal(entry),
    )


def _ratio(entry: Mapping[str, Any]) -> Ratio:
    return Ratio(name=entry["name"], samples=tuple(entry["samples"]), goal=_goal(entry))


def _goal(entry: Mapping[str, Any]) -> Goal | None:
    return None if entry["goal"] is None else Goal(**entry["goal"])
