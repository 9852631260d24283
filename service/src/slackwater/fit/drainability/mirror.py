"""Drainability rule 1, mirror pods: the kubelet runs the pod from a file, so the pod goes with its node and cannot be moved."""

from slackwater.fit.drainability.verdict import SKIP, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_mirror(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    return SKIP if pod.eviction_facts.mirror_pod else None
