"""Drainability rule for expendable pods: a pod with a priority below the cutoff goes with its node. It keeps no node, and no
node is added for it."""

from slackwater.fit.drainability.verdict import DAEMON, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_expendable(pod: Pod, facts: RuleFacts) -> Verdict | None:
    return DAEMON if pod.expendable(facts.policy.expendable_pods_priority_cutoff) else None
