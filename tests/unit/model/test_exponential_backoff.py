"""Pauses double with each failure in a row up to a bound; jitter takes at most half of them away."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.exponential_backoff import ExponentialBackoff

BACKOFF = ExponentialBackoff(first_seconds=0.1, longest_seconds=5.0)


@given(failures=st.integers(1, 10_000))
def test_the_pause_doubles_with_each_failure_up_to_the_longest(failures: int) -> None:
    assert BACKOFF.seconds(failures) == min(5.0, 0.1 * 2 ** min(failures - 1, 10))
    assert BACKOFF.seconds(failures) <= BACKOFF.seconds(failures + 1)


@given(drawn=st.floats(0, 1), failures=st.integers(1, 200))
def test_a_jittered_pause_lies_between_half_and_the_whole(drawn: float, failures: int) -> None:
    pause = BACKOFF.seconds(failures)
    assert pause / 2 <= BACKOFF.jittered(failures, drawn) <= pause


def test_without_a_failure_there_is_no_pause() -> None:
    assert BACKOFF.seconds(0) == BACKOFF.jittered(0, 1.0) == 0.0
