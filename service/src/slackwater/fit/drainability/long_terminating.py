"""2. A pod that should have been gone long ago (its kubelet may be dead) holds nobody up."""

from typing import Final

from slackwater.fit.drainability.facts import Facts
from slackwater.fit.drainability.verdict import SKIP, Verdict
from slackwater.model.objects import Pod

#: Beyond the pod's own time to end.
_PATIENCE_SECONDS: Final = 30.0


def judge_long_terminating(pod: Pod, facts: Facts) -> Verdict | None:
    overdue = pod.overdue_at is not None and facts.now > pod.overdue_at + _PATIENCE_SECONDS
    return SKIP if overdue else None
