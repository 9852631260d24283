"""Drainability rule 4, DaemonSets: a DaemonSet's pod goes with its node and needs no other one, since each node has its own."""

from slackwater.fit.drainability.verdict import DAEMON, RuleFacts, Verdict
from slackwater.model.objects import Pod


def judge_daemon_set(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    owner = pod.eviction_facts.owner
    made_by_one = owner is not None and (owner.group, owner.kind) == ("apps", "DaemonSet")
    return DAEMON if made_by_one or pod.eviction_facts.daemon else None
