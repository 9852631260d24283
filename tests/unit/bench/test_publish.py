"""What `python -m tests.bench --write-docs` leaves of the page: results of benches that were not run stay."""

import json
from pathlib import Path
from typing import Any

from tests.bench.publish import BEGIN, END, write_docs

MACHINE = {"cores": 2, "cpu": "AMD EPYC", "memoryGiB": 24, "python": "3.11", "kubernetes": "v1.36.3", "finishedAt": "now"}
PAGE = f"# Page\n\n{BEGIN}\n\n### agents\n\nold words\n\n### simulate\n\nkept words\n\n{END}\n\nThe rest.\n"


def document(bench: str, value: float) -> dict[str, Any]:
    measured = {"subject": "a", "quantity": "whole", "unit": "s", "samples": [value], "goal": None}
    return {"bench": bench, "parameters": {}, "machine": MACHINE, "measurements": [measured], "ratios": [], "notes": []}


def published(folder: Path, *benches: str) -> str:
    page = folder / "page.md"
    page.write_text(PAGE)
    for bench in benches:
        (folder / f"{bench}.json").write_text(json.dumps(document(bench, 0.25)))
    return write_docs(folder, page).read_text()


def test_a_bench_that_was_not_run_keeps_its_results(tmp_path: Path) -> None:
    text = published(tmp_path, "agents")

    assert "old words" not in text
    assert "| a | 0.25 |" in text
    assert "### simulate\n\nkept words\n" in text
    assert text.startswith("# Page\n")
    assert text.endswith("The rest.\n")


def test_results_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    text = published(tmp_path, "simulate", "devices", "agents")

    assert [line for line in text.splitlines() if line.startswith("### ")] == ["### agents", "### devices", "### simulate"]
    assert write_docs(tmp_path, tmp_path / "page.md").read_text() == text, "the same again"
