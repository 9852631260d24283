"""Drainability rule 6, annotation safe-to-evict true: the pod may be moved, and no later rule about the pod itself applies."""

from slackwater.fit.drainability.verdict import MOVE, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_safe_to_evict(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    return MOVE if pod.eviction_facts.safe_to_evict == "true" else None
