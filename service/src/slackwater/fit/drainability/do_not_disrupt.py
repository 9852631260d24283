"""Drainability rule for Karpenter's annotation do-not-disrupt: a pod with it blocks while it is active.

As in Karpenter, this also holds for mirror pods, pods of DaemonSets and expendable pods. A duration counts from the pod's
start; a pod without a known start is protected.
"""

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block, unix_time
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


def judge_do_not_disrupt(pod: Pod, facts: RuleFacts) -> Verdict | None:
    seconds = pod.eviction_facts.do_not_disrupt
    if not seconds or pod.ended or pod.deleting:
        return None
    over = pod.started_at and facts.now >= unix_time(pod.started_at) + seconds
    return None if over else block(UnremovableReason.DO_NOT_DISRUPT)
