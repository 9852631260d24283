"""10. Its annotation says that the pod must not be moved."""

from slackwater.model.hindrances import Hindrance
from slackwater.model.objects import Pod
from slackwater.simulate.drainability.facts import Facts
from slackwater.simulate.drainability.verdict import Verdict, block


def judge_not_safe_to_evict(pod: Pod, _facts: Facts) -> Verdict | None:
    return block(Hindrance.NOT_SAFE_TO_EVICT) if pod.ties.safe_to_evict == "false" else None
