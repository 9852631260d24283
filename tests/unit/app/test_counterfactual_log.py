"""The log of both sides, and the counts of durations in it."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.app.counterfactual.durations import bucket_of, quantile, seconds_of, total
from slackwater.app.counterfactual.lines import AnyLine, BadLog, Began, NodeCame, Sample, Waits, read, written

BEGAN = Began(at=0.0, version="1", sides=("real", "ours"), currency="USD")
CAME = NodeCame(at=1.0, side="ours", node="n-1", micros=96_000, decision=3)
SAMPLE = Sample(at=60.0, side="ours", nodes=1, micros=96_000, pending=2)
WAITS = Waits(at=3600.0, side="real", seconds={0: {0: 3, 71: 1}})


def test_a_log_is_read_as_it_was_written() -> None:
    lines: list[AnyLine] = [BEGAN, CAME, SAMPLE, WAITS]
    assert list(read(written(lines).splitlines(keepends=True))) == lines


def test_a_later_part_begins_with_the_nodes_that_were_there() -> None:
    assert list(read(written([BEGAN, CAME, SAMPLE, WAITS]).splitlines(keepends=True), since=100.0)) == [BEGAN, CAME, WAITS]


def test_a_line_that_is_being_written_is_left_out() -> None:
    assert list(read(written([BEGAN, SAMPLE])[:-5].splitlines(keepends=True))) == [BEGAN]


def test_a_line_that_cannot_be_read_is_named() -> None:
    with pytest.raises(BadLog, match="line 2: "):
        list(read([written([BEGAN]), b'{"line":"sample","at":"noon"}\n']))


@given(st.lists(st.floats(1.0, 1e6), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_within_five_percent(seconds: list[float], share: float) -> None:
    found = quantile(total({bucket_of(each): 1} for each in seconds), share)
    exact = sorted(seconds)[ceil(share * len(seconds)) - 1]
    assert found == pytest.approx(exact, rel=0.05)


def test_durations_below_a_second_have_a_bucket_of_their_own() -> None:
    assert (seconds_of(bucket_of(0.4)), seconds_of(bucket_of(1.0)) > 0) == (0.0, True)
    assert quantile({}, 0.5) is None
