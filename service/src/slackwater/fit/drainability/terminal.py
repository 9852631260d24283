"""Drainability rule 5, ended pods: a pod that has ended needs no other node, whatever the later rules say."""

from slackwater.fit.drainability.verdict import SKIP, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_terminal(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    return SKIP if pod.ended else None
