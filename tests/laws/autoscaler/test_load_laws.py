"""The autoscaler over hours of load, with its default timers: no node is bought that helps no pod, none is bought and removed
within an hour where the load is constant or stays within the slack, and no pod is evicted that has no place to go.

A few shapes with fixed seeds; `make loads` plays all for twelve hours, and `make soak` does so with a fresh seed.
"""

import pytest

from tests.loads.play import play
from tests.loads.shapes import GroupName, LoadName, SlackName, a_shape


@pytest.mark.parametrize(
    ("load", "group", "slack", "seed", "hours"),
    [
        ("constant", "plain", "slack", 6, 2),
        ("constant", "plain", "slack", 14, 2),
        ("constant", "odd", "slack", 1, 2),
        ("constant", "odd", "bare", 1, 3),
        ("constant", "failing", "slack", 1, 4),
        ("sine", "failing", "slack", 2, 3),
        ("rolling", "minimum", "slack", 2, 2),
        ("batch", "plain", "bare", 2, 3),
        ("batch", "odd", "slack", 5, 2),
    ],
)
def test_nothing_is_bought_removed_or_evicted_in_vain(
    load: LoadName, group: GroupName, slack: SlackName, seed: int, hours: int
) -> None:
    shape = a_shape(load, group, slack, seed=seed, hours=hours)
    outcome = play(shape, hours=hours)
    assert outcome.violations(shape) == []
    assert load != "constant" or group != "plain" or (outcome.bought, outcome.removed, outcome.evicted) == (0, 0, 0)


def test_a_wave_within_the_slack_buys_nothing_again() -> None:
    shape = a_shape("wave", "plain", "slack", seed=2, hours=3)
    outcome = play(shape, hours=3)
    assert (outcome.bought, outcome.removed, outcome.evicted) == (0, 0, 0)
