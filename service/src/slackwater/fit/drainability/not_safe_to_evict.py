"""Drainability rule 10, annotation safe-to-evict false: the pod must not be moved, so it blocks."""

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


def judge_not_safe_to_evict(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    return block(UnremovableReason.NOT_SAFE_TO_EVICT) if pod.eviction_facts.safe_to_evict == "false" else None
