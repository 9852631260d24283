"""2. Long terminating pods: a pod that should have ended long ago (its kubelet may be dead) does not block."""

from typing import Final

from slackwater.fit.drainability.facts import Facts
from slackwater.fit.drainability.verdict import SKIP, Verdict
from slackwater.model.objects import Pod

#: How long after the end of the pod's grace period it is overdue.
_PATIENCE_SECONDS: Final = 30.0


def judge_long_terminating(pod: Pod, facts: Facts) -> Verdict | None:
    overdue = pod.overdue_at is not None and facts.now > pod.overdue_at + _PATIENCE_SECONDS
    return SKIP if overdue else None
