"""12. The Eviction API must let every pod go that has to be evicted: as far as its PodDisruptionBudgets are concerned.

Asked of every such pod, whatever an earlier rule said in its favour (ADR 30). Of a pod with several budgets the API lets none
go, ever: no wait helps (ADR 162). A virtual machine that migrates is not evicted; its budgets are asked all the same, for
it is disturbed.
"""

from slackwater.fit.drainability.facts import Facts
from slackwater.fit.drainability.machine import migrates
from slackwater.fit.drainability.verdict import Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.unremovable_reasons import UnremovableReason


def judge_budget(pod: Pod, facts: Facts) -> Verdict | None:
    disruptions = facts.disruptions
    if disruptions is None:
        return None
    if not migrates(pod, facts.policy) and disruptions.never_evicted(pod):
        return block(UnremovableReason.MULTIPLE_PDBS)
    return None if disruptions.allows(pod) else block(UnremovableReason.NOT_ENOUGH_PDB)
