"""Drainability rule 8, replicated pods: a pod without a controller blocks, since nothing would create it again elsewhere."""

from typing import Final

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason

_BUILT_IN: Final = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})


def judge_replicated(pod: Pod, facts: RuleFacts) -> Verdict | None:
    owner = pod.eviction_facts.owner
    if owner is None or (facts.policy.custom_controllers and owner.kind not in _BUILT_IN):
        return block(UnremovableReason.NOT_REPLICATED)
    return None
