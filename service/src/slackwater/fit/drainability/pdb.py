"""Drainability rule 12, PodDisruptionBudgets: the Eviction API must allow every eviction that the removal needs.

The rule applies to every pod that moves, even if an earlier rule allows the move (ADR 30). The API never evicts a pod with
several budgets, so waiting does not help (ADR 162). A virtual machine that migrates is not evicted; its budgets count
nevertheless, since the machine is disrupted.
"""

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block
from slackwater.fit.drainability.virtual_machine import migrates
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


def judge_budget(pod: Pod, facts: RuleFacts) -> Verdict | None:
    disruptions = facts.disruptions
    if disruptions is None:
        return None
    if not migrates(pod, facts.policy) and disruptions.never_evicted(pod):
        return block(UnremovableReason.MULTIPLE_PDBS)
    return None if disruptions.allows(pod) else block(UnremovableReason.NOT_ENOUGH_PDB)
