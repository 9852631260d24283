"""Drainability rule 9, system pods: a young pod of kube-system blocks if no budget covers it.

Once the pod is older than `system_pod_time`, this rule no longer decides, but the later rules do: see ADR 30.
"""

from typing import Final

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block, unix_time
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason

SYSTEM_NAMESPACE: Final = "kube-system"


def judge_system(pod: Pod, facts: RuleFacts) -> Verdict | None:
    if not facts.policy.system_pods or pod.key.namespace != SYSTEM_NAMESPACE:
        return None
    if facts.disruptions is None or facts.disruptions.covers(pod):
        return None
    young = not pod.created_at or facts.now - unix_time(pod.created_at) <= facts.policy.system_pod_time
    return block(UnremovableReason.UNMOVABLE_SYSTEM_POD) if young else None
