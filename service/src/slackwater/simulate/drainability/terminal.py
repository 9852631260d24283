"""5. A pod that has ended needs no other place, whatever else is true of it."""

from slackwater.model.objects import Pod
from slackwater.simulate.drainability.facts import Facts
from slackwater.simulate.drainability.verdict import SKIP, Verdict


def judge_terminal(pod: Pod, _facts: Facts) -> Verdict | None:
    return SKIP if pod.ended else None
