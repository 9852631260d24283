"""A bench that fails is reported in one sentence, and the others go on; any other error ends the run."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench import publish, state_machine_events
from tests.bench.__main__ import _failure, main
from tests.bench.options import BenchFailed, Options, WriteFrame
from tests.bench.report import Bounds, Ratio, Report


def test_failures_in_task_groups_are_reported_like_failures_outside() -> None:
    failed = BenchFailed("2 of 16 dashboards")
    failed.add_note("logs: /there")
    want = "2 of 16 dashboards\nlogs: /there"
    assert _failure(failed) == want
    assert _failure(ExceptionGroup("", [ExceptionGroup("", [failed])])) == want


@pytest.mark.parametrize("errors", [[ValueError("a bug")], [BenchFailed("one"), ValueError("a bug")]])
def test_any_other_error_is_raised(errors: list[Exception]) -> None:
    group = ExceptionGroup("", errors)
    with pytest.raises(ExceptionGroup) as raised:
        _failure(group)
    assert raised.value is group


def played(monkeypatch: pytest.MonkeyPatch, rounds: Iterator[dict[str, float] | Exception]) -> None:
    """Benches `fake` and `other` whose runs find these ratios in turn; 1..2 are not absurd."""
    bounds = Bounds(low=1, high=2, why="so it is")

    async def measure(options: Options, _tell: WriteFrame) -> Report:
        found = next(rounds)
        if isinstance(found, Exception):
            raise found
        ratios = tuple(Ratio(name=name, samples=(value,), bounds=bounds) for name, value in found.items())
        return Report(bench="fake", quick=options.quick, parameters={}, measurements=(), ratios=ratios)

    monkeypatch.setattr(bench, "BENCHES", {"fake": measure, "other": measure})
    monkeypatch.setattr(bench, "build", lambda _: None)
    monkeypatch.setattr(publish, "write", lambda _: Path("nowhere"))
    monkeypatch.setattr(bench, "_load", lambda: "at rest")


@pytest.mark.parametrize(
    ("rounds", "want"),
    [
        ([{"a": 1.0, "b": 1.0}], []),
        ([{"a": 9.0, "b": 1.0}, {"a": 1.0, "b": 1.0}], []),
        ([{"a": 9.0, "b": 1.0}, {"a": 1.0, "b": 9.0}], []),
        ([{"a": 9.0, "b": 9.0}, {"a": 0.5, "b": 1.0}, {"a": 8.0, "b": 1.0}], ["a is 8.00"]),
    ],
    ids=["never", "once", "each once", "always"],
)
def test_at_a_size_for_ci_a_ratio_has_to_be_absurd_in_each_of_three_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rounds: list[dict[str, float]], want: list[str]
) -> None:
    left = iter(rounds)
    played(monkeypatch, left)
    assert main(["--quick", "--only", "fake"]) == bool(want)
    assert list(left) == []
    failed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("FAILED")]
    assert failed == [f"FAILED fake: {each}, want 1..2: so it is (in each of 3 runs)" for each in want]


def test_a_full_run_has_rounds_enough_and_what_failed_is_printed_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, iter([{"a": 9.0}, BenchFailed("no answer")]))
    assert main(["--only", "fake", "--only", "other"]) == 1
    want = ["FAILED fake: a is 9.00, want 1..2: so it is", "FAILED other: no answer"]
    assert capsys.readouterr().err.splitlines()[-2:] == want


def test_what_failed_before_a_bug_ended_the_run_is_printed_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, iter([BenchFailed("no answer"), ValueError("a bug")]))
    with pytest.raises(ValueError, match="a bug"):
        main(["--quick"])
    assert capsys.readouterr().err.splitlines()[-1] == "FAILED fake: no answer"


def test_what_the_state_machine_costs_has_no_time_in_it_in_which_the_machine_did_something_else() -> None:
    assert state_machine_events._each([0.2], time.sleep) < 0.1e9
