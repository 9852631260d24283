"""Drainability rule 3, replica count: if the policy says that custom controllers block, the pod's controller must exist and
want enough replicas."""

from typing import Final

from slackwater.fit.drainability.verdict import RuleFacts, Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason

#: The controller kinds that are looked up; the value says whether the number of replicas is checked.
_KNOWN: Final = {
    ("", "ReplicationController"): True,
    ("apps", "ReplicaSet"): True,
    ("batch", "Job"): False,
    ("apps", "StatefulSet"): False,
    ("apps", "DaemonSet"): False,
}


def judge_replica_count(pod: Pod, facts: RuleFacts) -> Verdict | None:
    owner = pod.eviction_facts.owner
    if not facts.policy.custom_controllers or facts.replicas is None or owner is None:
        return None
    counted = _KNOWN.get((owner.group, owner.kind))
    if counted is None:
        return None
    replicas = facts.replicas.get((pod.key.namespace, owner))
    if replicas is None:
        return block(UnremovableReason.CONTROLLER_NOT_FOUND)
    return block(UnremovableReason.MIN_REPLICAS_REACHED) if counted and replicas < facts.policy.min_replicas else None
