"""Drainability rule 7, annotation safe-to-evict on-completion: the node waits until the pod has completed."""

from slackwater.fit.drainability.verdict import WAIT, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_on_completion(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    return WAIT if pod.eviction_facts.safe_to_evict == "on-completion" else None
