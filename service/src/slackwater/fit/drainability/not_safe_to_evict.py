"""10. Annotation safe-to-evict false: the pod must not be moved."""

from slackwater.fit.drainability.facts import Facts
from slackwater.fit.drainability.verdict import Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.unremovable_reasons import UnremovableReason


def judge_not_safe_to_evict(pod: Pod, _facts: Facts) -> Verdict | None:
    return block(UnremovableReason.NOT_SAFE_TO_EVICT) if pod.eviction_facts.safe_to_evict == "false" else None
