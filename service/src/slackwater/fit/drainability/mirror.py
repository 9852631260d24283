"""1. A pod that the kubelet runs from a file goes with its node: nobody could move it."""

from slackwater.fit.drainability.facts import Facts
from slackwater.fit.drainability.verdict import SKIP, Verdict
from slackwater.model.objects import Pod


def judge_mirror(pod: Pod, _facts: Facts) -> Verdict | None:
    return SKIP if pod.eviction_facts.mirror_pod else None
