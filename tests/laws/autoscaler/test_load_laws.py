"""The autoscaler over hours of load, with its default timers: no node is bought that helps no pod, none is bought and removed
within an hour where the load is constant or stays within the slack, and no pod is evicted that has no place to go.

A few shapes with fixed seeds; `make loads` plays all forty for twelve hours, and `make soak` does so with a fresh seed.
"""

import pytest

from tests.loads.play import play
from tests.loads.shapes import GroupName, LoadName, a_shape

_SLACK = 250_000


@pytest.mark.parametrize(
    ("load", "group", "slack_ppm", "seed", "hours"),
    [
        ("constant", "plain", _SLACK, 6, 2),
        ("constant", "plain", _SLACK, 14, 2),
        ("constant", "odd", _SLACK, 1, 2),
        ("constant", "odd", 0, 1, 3),
        ("constant", "failing", _SLACK, 1, 4),
        ("sine", "failing", _SLACK, 2, 3),
        ("rolling", "minimum", _SLACK, 2, 2),
        ("batch", "plain", 0, 2, 3),
    ],
)
def test_nothing_is_bought_removed_or_evicted_in_vain(
    load: LoadName, group: GroupName, slack_ppm: int, seed: int, hours: int
) -> None:
    shape = a_shape(load, group, slack_ppm=slack_ppm, seed=seed, hours=hours)
    outcome = play(shape, hours=hours)
    assert outcome.violations(shape) == []
    assert load != "constant" or group != "plain" or (outcome.bought, outcome.removed, outcome.evicted) == (0, 0, 0)


def test_a_wave_within_the_slack_buys_nothing_again() -> None:
    shape = a_shape("wave", "plain", slack_ppm=_SLACK, seed=2, hours=3)
    outcome = play(shape, hours=3)
    assert (outcome.bought, outcome.removed, outcome.evicted) == (0, 0, 0)
