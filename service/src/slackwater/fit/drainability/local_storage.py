"""Drainability rule 11, local storage: a pod blocks if it keeps data on the node's own disks, since the data would be lost."""

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


def judge_local_storage(pod: Pod, facts: RuleFacts) -> Verdict | None:
    return block(UnremovableReason.LOCAL_STORAGE) if facts.policy.local_storage and pod.eviction_facts.local_volumes else None
