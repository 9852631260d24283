"""11. What the pod keeps on the node's own disks would be lost."""

from slackwater.model.hindrances import Hindrance
from slackwater.model.objects import Pod
from slackwater.simulate.drainability.facts import Facts
from slackwater.simulate.drainability.verdict import Verdict, block


def judge_local_storage(pod: Pod, facts: Facts) -> Verdict | None:
    return block(Hindrance.LOCAL_STORAGE) if facts.policy.local_storage and pod.ties.local_volumes else None
