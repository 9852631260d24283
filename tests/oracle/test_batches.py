"""Batches of clusters: what is planned, what a log leaves to do, and what a run writes."""

import json
from pathlib import Path

import pytest

from tests.oracle import batches
from tests.oracle.batches import Batch, code_digest, left, main, plan, read_log, table

pytestmark = pytest.mark.timeout(600)


def a_batch(first: int, clusters: int = 5) -> Batch:
    return Batch(kubernetes="1.36.3", mode="placement", devices=False, seed=3, first=first, clusters=clusters)


def entry(batch: Batch, *, code: str = "now", differing: int = 0) -> batches.Entry:
    fields = {name: getattr(batch, name) for name in Batch.__dataclass_fields__}
    return {**fields, "code": code, "commit": "c1", "differing": differing, "seconds": 1.0, "differences": []}


def test_batches_cover_all_clusters_of_every_series() -> None:
    options = [
        "--log",
        "x",
        "--clusters",
        "12",
        "--batch",
        "5",
        "--kubernetes",
        "1.36.3",
        "--modes",
        "placement",
        "scores",
        "--all",
    ]
    planned = plan(batches._parser().parse_args(options))
    assert [(batch.first, batch.clusters) for batch in planned[::4]] == [(0, 5), (5, 5), (10, 2)]
    assert {batch.series for batch in planned} == {
        "1.36.3 placement",
        "1.36.3 placement with devices",
        "1.36.3 scores",
        "1.36.3 scores with devices",
    }


def test_only_batches_that_no_entry_of_the_same_code_has_are_left() -> None:
    entries = [entry(a_batch(0)), entry(a_batch(5), code="before")]
    assert left([a_batch(0), a_batch(5)], entries, "now") == [a_batch(5)]


def test_a_line_that_a_crash_cut_off_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(json.dumps(entry(a_batch(0))) + "\n" + json.dumps(entry(a_batch(5)))[:20])
    assert [each["first"] for each in read_log(log)] == [0]
    assert read_log(tmp_path / "none") == []


def test_the_table_adds_clusters_and_differences_up_by_series() -> None:
    text = table([entry(a_batch(0)), entry(a_batch(5), differing=2)])
    assert "1.36.3 placement" in text
    assert "10 clusters, 2 differ" in text


def test_a_second_run_of_the_same_code_has_nothing_left_to_judge(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    options = [
        "--log",
        str(log),
        "--clusters",
        "6",
        "--batch",
        "3",
        "--kubernetes",
        "1.36.3",
        "--modes",
        "sequential",
        "--processes",
        "1",
    ]
    assert program.exists()
    assert main(options) == 0
    assert [(each["first"], each["differing"], each["code"]) for each in read_log(log)] == [
        (0, 0, code_digest()),
        (3, 0, code_digest()),
    ]
    assert main(options) == 0
    assert len(read_log(log)) == 2
    assert "2 of 2 batches" in capsys.readouterr().err
