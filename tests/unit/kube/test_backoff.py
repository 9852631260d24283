"""Waits grow to a bound, with jitter, and start short again after a success."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.kube.backoff import Backoff


@given(seed=st.integers(), attempts=st.integers(1, 200))
def test_every_wait_lies_between_half_and_the_whole_of_its_ceiling(seed: int, attempts: int) -> None:
    backoff = Backoff(rng=Random(seed), first_seconds=0.1, longest_seconds=5.0)
    waits = [backoff.next_seconds() for _ in range(attempts)]
    ceilings = [min(5.0, 0.1 * 2**attempt) for attempt in range(attempts)]
    assert all(ceiling / 2 <= wait <= ceiling for wait, ceiling in zip(waits, ceilings, strict=True))
    backoff.reset()
    assert backoff.next_seconds() <= 0.1
