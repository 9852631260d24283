"""12. Every PodDisruptionBudget of a pod that has to move must allow one more disruption.

Asked of every such pod, whatever an earlier rule said in its favour: the eviction API would refuse it (ADR 30). A pod that is
being deleted already needs no leave.
"""

from slackwater.model.hindrances import Hindrance
from slackwater.model.objects import Pod
from slackwater.simulate.drainability.facts import Facts
from slackwater.simulate.drainability.verdict import Verdict, block


def judge_budget(pod: Pod, facts: Facts) -> Verdict | None:
    if pod.deleting or facts.disruptions is None or facts.disruptions.allows(pod):
        return None
    return block(Hindrance.NOT_ENOUGH_PDB)
