"""What a start-time SLO costs in hours of whole nodes, compared with the smallest constant slack that meets it.

Node-hours of slack: those that the same pods take without any are taken off both. The smallest static slack is told in
hindsight, on the days that are judged: the same pods in the same steps, the same simulator, the same SLO.

The seed is printed: SLACKWATER_SLO_SEED=n plays that one, SLACKWATER_PROMISE_DAYS=n judges n days.
"""

import os

import numpy as np
import pytest

from tests.support.arrivals import DAY, JOBS
from tests.support.nodehours import WEB, Book, by_steps, lived, smallest_static
from tests.support.seeds import a_seed

#: The past that has to be there: three days to look back on, a day to try it on, and one to correct it.
LEARNT = 5
#: A static slack that is the smallest for one day is so by the chance of that day.
JUDGED = 3
#: More room than any trace ever needs.
MOST_PODS = 300
#: Of the node-hours of the smallest static slack.
MOST = {"steady": 1.05, "daily": 0.8, "spikes": 0.8}


@pytest.mark.timeout(1200)  # eight days by ten seconds, and three of them some ten times over
@pytest.mark.parametrize("trace", JOBS)
def test_the_slo_is_met_at_few_node_hours(trace: str) -> None:
    seed = a_seed("SLACKWATER_SLO_SEED")
    days = int(os.environ.get("SLACKWATER_PROMISE_DAYS") or JUDGED)
    judged = days * DAY
    arrivals = by_steps(JOBS[trace](np.random.default_rng(seed), LEARNT + days), seed)
    live = arrivals[-judged - 60 :]
    ours = lived(arrivals, Book(), judged=judged)
    none = lived(live, 0, judged=judged)
    pods, static = smallest_static(live, judged=judged, most=MOST_PODS)
    of_slack = (ours.node_hours - none.node_hours) / (static.node_hours - none.node_hours)
    print(
        f"\n{trace}, seed {seed}: kept {ours.share:.2%} with {ours.node_hours:.0f} node-hours; without slack {none.share:.2%} "
        f"with {none.node_hours:.0f}; the smallest static slack, {pods} pods, {static.share:.2%} with {static.node_hours:.0f}. "
        f"Of its node-hours: {of_slack:.1%} of slack's own, {ours.node_hours / static.node_hours:.1%} of all"
    )
    assert ours.share * 1_000_000 >= WEB.share_ppm, f"seed {seed}"
    assert of_slack <= MOST[trace], f"seed {seed}"
