"""Drainability rule for virtual machines: a machine is migrated, not evicted; a machine that may not migrate blocks, unless the
policy allows the eviction of machines."""

from slackwater.fit.drainability.verdict import DrainPolicy, RuleFacts, Verdict, block
from slackwater.model.objects import Pod
from slackwater.model.reasons import UnremovableReason


def judge_machine(pod: Pod, facts: RuleFacts) -> Verdict | None:
    vertical, policy = pod.vertical, facts.policy
    if vertical is None or vertical.machine is None or not policy.fixed_machines:
        return None
    return None if migrates(pod, policy) else block(UnremovableReason.MACHINE_CANNOT_MIGRATE)


def migrates(pod: Pod, policy: DrainPolicy) -> bool:
    """Whether the pod leaves its node by a migration instead of an eviction."""
    return policy.machines_migrate and pod.migratable
