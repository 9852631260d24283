"""Drainability rules: whether a pod may move, so that its node can be removed. One rule a file; the first rule that decides
wins.

The rules and their order are Cluster Autoscaler's, except for three differences that ADR 30 explains: an old pod of kube-system
is still judged by the later rules, a pod that has ended is never moved, and budgets are checked last for every pod that has to
move. Karpenter's do-not-disrupt comes before them.
"""

from typing import Final

from slackwater.fit.drainability.daemon_set import judge_daemon_set
from slackwater.fit.drainability.do_not_disrupt import judge_do_not_disrupt
from slackwater.fit.drainability.expendable import judge_expendable
from slackwater.fit.drainability.local_storage import judge_local_storage
from slackwater.fit.drainability.long_terminating import judge_long_terminating
from slackwater.fit.drainability.mirror import judge_mirror
from slackwater.fit.drainability.not_safe_to_evict import judge_not_safe_to_evict
from slackwater.fit.drainability.on_completion import judge_on_completion
from slackwater.fit.drainability.pdb import judge_budget
from slackwater.fit.drainability.replica_count import judge_replica_count
from slackwater.fit.drainability.replicated import judge_replicated
from slackwater.fit.drainability.safe_to_evict import judge_safe_to_evict
from slackwater.fit.drainability.system import SYSTEM_NAMESPACE, judge_system
from slackwater.fit.drainability.terminal import judge_terminal
from slackwater.fit.drainability.verdict import MOVE, DrainabilityOutcome, DrainPolicy, RuleFacts, Verdict
from slackwater.fit.drainability.virtual_machine import judge_machine
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder

__all__ = ["RULES", "DrainPolicy", "DrainabilityOutcome", "RuleFacts", "Verdict", "judge"]

#: The rules about the pod itself, in order.
RULES: Final = (
    judge_do_not_disrupt,
    judge_mirror,
    judge_long_terminating,
    judge_expendable,
    judge_replica_count,
    judge_daemon_set,
    judge_terminal,
    judge_safe_to_evict,
    judge_on_completion,
    judge_machine,
    judge_replicated,
    judge_system,
    judge_not_safe_to_evict,
    judge_local_storage,
)


def judge(pod: Pod, facts: RuleFacts) -> Verdict:
    """Judges a pod whose node is to be removed. A placeholder always moves: no pod is evicted for it."""
    if is_placeholder(pod):
        return MOVE
    verdict = _judge_itself(pod, facts)
    return (judge_budget(pod, facts) or verdict) if verdict is MOVE else verdict


def _judge_itself(pod: Pod, facts: RuleFacts) -> Verdict:
    """The verdict of `RULES`. For most pods the rules read only the eviction facts, which replicas share, so the verdict is
    cached for the eviction facts."""
    if pod.ended or pod.overdue_at is not None or pod.vertical is not None or pod.key.namespace == SYSTEM_NAMESPACE:
        return _first_word(pod, facts)
    if (
        pod.eviction_facts.do_not_disrupt
        or facts.policy.custom_controllers
        or pod.priority < facts.policy.expendable_pods_priority_cutoff
    ):
        return _first_word(pod, facts)
    known = facts.judged.get(id(pod.eviction_facts))
    if known is None:
        # The entry keeps the eviction facts alive, so that no other object gets their id.
        known = facts.judged[id(pod.eviction_facts)] = (pod.eviction_facts, _first_word(pod, facts))
    return known[1]


def _first_word(pod: Pod, facts: RuleFacts) -> Verdict:
    for rule in RULES:
        verdict = rule(pod, facts)
        if verdict is not None:
            return verdict
    return MOVE
