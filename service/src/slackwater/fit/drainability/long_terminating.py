"""Drainability rule 2, long terminating pods: a pod that should have ended long ago (its kubelet may be dead) does not
block."""

from typing import Final

from slackwater.fit.drainability.verdict import SKIP, RuleFacts, Verdict
from slackwater.model.objects import Pod

#: How long after the end of its grace period a pod counts as overdue.
_EXTRA_SECONDS: Final = 30.0


def judge_long_terminating(pod: Pod, facts: RuleFacts) -> Verdict | None:
    overdue = pod.overdue_at is not None and facts.now > pod.overdue_at + _EXTRA_SECONDS
    return SKIP if overdue else None
