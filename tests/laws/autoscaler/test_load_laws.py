"""The autoscaler over hours of load, with its default timers: no node is bought that helps no pod, none is bought and removed
within an hour where the load is constant or stays within the slack, and no pod is evicted that has no place to go.

A few shapes with a fixed seed; `make loads` plays all forty for twelve hours, with a fresh seed in `make soak`.
"""

import pytest

from tests.loads.play import play
from tests.loads.shapes import a_shape

_HOURS = 5


@pytest.mark.parametrize("group", ["plain", "failing"])
@pytest.mark.parametrize("slack_ppm", [0, 250_000])
def test_a_constant_load_buys_and_removes_nothing(group: str, slack_ppm: int) -> None:
    shape = a_shape("constant", "plain" if group == "plain" else "failing", slack_ppm=slack_ppm, seed=1, hours=_HOURS)
    outcome = play(shape, hours=_HOURS)
    assert outcome.violations(shape) == []
