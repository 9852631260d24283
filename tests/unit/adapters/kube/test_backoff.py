"""Waits grow to a bound, with jitter, and start short again after a success."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from slackwater.adapters.kube.backoff import Backoff


@given(seed=st.integers(), attempts=st.integers(1, 200))
def test_every_wait_lies_between_half_and_the_whole_of_its_ceiling(seed: int, attempts: int) -> None:
    backoff = Backoff(rng=Random(seed), first_seconds=0.1, longest_seconds=5.0)
    waits = [backoff.next_seconds() for _ in range(attempts)]
    permit_limits = [min(5.0, 0.1 * 2**attempt) for attempt in range(attempts)]
    assert all(permit_limit / 2 <= wait <= permit_limit for wait, permit_limit in zip(waits, permit_limits, strict=True))
    backoff.reset()
    assert backoff.next_seconds() <= 0.1
