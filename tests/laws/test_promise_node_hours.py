"""What a promise costs in hours of whole nodes, against the smallest slack that, the same at all times, keeps it.

SLACKWATER_PROMISE_SEED=n plays that trace; by default the first. SLACKWATER_PROMISE_DAYS=n judges n days.
"""

import os

import numpy as np
import pytest

from tests.support.arrivals import DAY, JOBS
from tests.support.nodehours import WEB, Book, lived, smallest_static

#: The past that has to be there: three days to look back on, a day to try it on, and one to correct it.
LEARNT = 5
#: More room than any trace ever needs.
MOST_PODS = 300


def share(ours: float, static: float, none: float) -> float:
    """Of slack's own node-hours: what the same pods take without any is taken off both."""
    return (ours - none) / (static - none)


@pytest.mark.parametrize("trace", JOBS)
def test_the_promise_is_kept_at_few_node_hours(trace: str) -> None:
    seed = int(os.environ.get("SLACKWATER_PROMISE_SEED") or 1)
    days = int(os.environ.get("SLACKWATER_PROMISE_DAYS") or 1)
    arrivals = JOBS[trace](np.random.default_rng(seed), LEARNT + days)
    judged, live = days * DAY, arrivals[-days * DAY - 60 :]
    ours = lived(arrivals, Book(), judged=judged, seed=seed)
    none = lived(live, 0, judged=judged, seed=seed)
    pods, static = smallest_static(live, judged=judged, seed=seed, most=MOST_PODS)
    of_all = ours.node_hours / static.node_hours
    of_slack = share(ours.node_hours, static.node_hours, none.node_hours)
    print(
        f"\n{trace}, seed {seed}: kept {ours.share:.2%} with {ours.node_hours:.0f} node-hours; without slack {none.share:.2%} "
        f"with {none.node_hours:.0f}; the smallest static slack, {pods} pods, {static.share:.2%} with {static.node_hours:.0f}. "
        f"Of its node-hours: {of_all:.1%} of all, {of_slack:.1%} of slack's own"
    )
    assert ours.share * 1_000_000 >= WEB.share_ppm, f"seed {seed}"
    if trace == "steady":
        assert of_all <= 1.05, f"seed {seed}"
    else:
        assert of_slack <= 0.8, f"seed {seed}"
