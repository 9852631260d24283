"""Drainability: whether a pod may move, so that its node can be removed. The first rule of `RULES` that decides wins.

The rules and their order are Cluster Autoscaler's, except for three differences that ADR 30 explains: an old pod of kube-system
is still judged by the later rules, a pod that has ended is never moved, and budgets are checked last for every pod that has to
move. Karpenter's do-not-disrupt comes before them. docs/evacuation.md lists the rules for people.

- `judge`: the `Verdict` on a pod.
- `DrainPolicy`, `RuleFacts`: the settings of the rules, and facts about budgets and controllers.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.auxiliary import Targets
from slackwater.model.eviction_facts import EvictionFacts
from slackwater.model.ids import Seconds, UnixTime
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import UnremovableReason

#: How long after the end of its grace period a pod counts as overdue.
_OVERDUE_SECONDS: Final = 30.0
_SYSTEM_NAMESPACE: Final = "kube-system"
#: The controller kinds that are looked up; the value says whether the number of replicas is checked.
_KNOWN: Final = {
    ("", "ReplicationController"): True,
    ("apps", "ReplicaSet"): True,
    ("batch", "Job"): False,
    ("apps", "StatefulSet"): False,
    ("apps", "DaemonSet"): False,
}
_BUILT_IN: Final = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})


class DrainabilityOutcome(Enum):
    """What happens to a pod when its node is removed.

    - MOVE: the pod needs another node, if its budgets allow it to leave.
    - DAEMON: the pod goes with the node, and needs no other one.
    - SKIP: the pod is ending, or belongs to the node: it is not moved and does not block.
    - WAIT: the pod is not moved, but the node waits until the pod has completed.
    - BLOCK: the node has to stay because of the pod.
    """

    MOVE = "move"
    DAEMON = "daemon"
    SKIP = "skip"
    WAIT = "wait"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one pod; `unremovable_reason` is set if and only if the outcome is BLOCK."""

    outcome: DrainabilityOutcome
    unremovable_reason: UnremovableReason | None = None


_MOVE: Final = Verdict(DrainabilityOutcome.MOVE)
_DAEMON: Final = Verdict(DrainabilityOutcome.DAEMON)
_SKIP: Final = Verdict(DrainabilityOutcome.SKIP)
_WAIT: Final = Verdict(DrainabilityOutcome.WAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPolicy:
    """Settings of the drainability rules. Most names are Cluster Autoscaler's `skip-nodes-with-...` and similar flags.

    A pod of kube-system without a budget blocks for `system_pod_time` after its creation. With `custom_controllers` only
    pods of the built-in controllers may be moved, and no pod whose controller has fewer than `min_replicas`. With
    `machines_migrate`, virtual machines that may migrate do. With `fixed_machines` all others block; without, they are evicted.
    Pods of a priority below `expendable_pods_priority_cutoff` are expendable: they go with their node.
    """

    system_pods: bool
    system_pod_time: Seconds
    local_storage: bool
    custom_controllers: bool
    min_replicas: int
    machines_migrate: bool
    fixed_machines: bool
    expendable_pods_priority_cutoff: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """The facts that rules read: `disruptions` is what budgets still allow, `replicas` how many pods controllers want.

    A field is None if such objects are not read; rules that need them are then skipped.
    """

    now: UnixTime
    policy: DrainPolicy
    disruptions: Disruptions | None = None
    replicas: Targets | None = None
    #: Cached verdicts by the identity of the eviction facts; only `fit.drainability` writes here.
    judged: dict[int, tuple[EvictionFacts, Verdict]] = field(default_factory=dict, compare=False, repr=False)


def judge(pod: Pod, facts: RuleFacts) -> Verdict:
    """Judges a pod whose node is to be removed. A placeholder always moves: no pod is evicted for it."""
    if is_placeholder(pod):
        return _MOVE
    verdict = _judge_itself(pod, facts)
    return (_judge_budget(pod, facts) or verdict) if verdict is _MOVE else verdict


def _judge_itself(pod: Pod, facts: RuleFacts) -> Verdict:
    """The verdict of `RULES`. For most pods the rules read only the eviction facts, which replicas share, so the verdict is
    cached for the eviction facts."""
    if pod.ended or pod.overdue_at is not None or pod.vertical is not None or pod.key.namespace == _SYSTEM_NAMESPACE:
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


def lasting_verdict(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """The verdict of the rules about the pod itself (`judge` then asks its budgets), if that changes only with the pod and the
    policy; None if time, budgets or its controller decide it, too."""
    if is_placeholder(pod):
        return _MOVE
    if pod.overdue_at is not None or pod.eviction_facts.do_not_disrupt or facts.policy.custom_controllers:
        return None
    if facts.policy.system_pods and pod.key.namespace == _SYSTEM_NAMESPACE:
        return next((verdict for rule in _BEFORE_SYSTEM if (verdict := rule(pod, facts)) is not None), None)
    return _judge_itself(pod, facts)


def _first_word(pod: Pod, facts: RuleFacts) -> Verdict:
    return next((verdict for rule in RULES if (verdict := rule(pod, facts)) is not None), _MOVE)


# --- the rules --------------------------------------------------------------------------------------------------------------


def judge_do_not_disrupt(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A pod with Karpenter's annotation blocks while it is active. As in Karpenter, this also holds for mirror pods, pods of
    DaemonSets and expendable pods. A duration counts from the pod's start; a pod without a known start is protected."""
    seconds = pod.eviction_facts.do_not_disrupt
    if not seconds or pod.ended or pod.deleting:
        return None
    over = pod.started_at and facts.now >= _unix_time(pod.started_at) + seconds
    return None if over else _block(UnremovableReason.DO_NOT_DISRUPT)


def judge_mirror(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """The kubelet runs a mirror pod from a file, so it goes with its node and cannot be moved."""
    return _SKIP if pod.eviction_facts.mirror_pod else None


def judge_long_terminating(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A pod that should have ended long ago (its kubelet may be dead) does not block."""
    return _SKIP if pod.overdue_at is not None and facts.now > pod.overdue_at + _OVERDUE_SECONDS else None


def judge_expendable(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A pod with a priority below the cutoff goes with its node. It keeps no node, and no node is added for it."""
    return _DAEMON if pod.expendable(facts.policy.expendable_pods_priority_cutoff) else None


def judge_replica_count(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """If the policy says that custom controllers block, the pod's controller must exist and want enough replicas."""
    owner = pod.eviction_facts.owner
    if not facts.policy.custom_controllers or facts.replicas is None or owner is None:
        return None
    counted = _KNOWN.get((owner.group, owner.kind))
    if counted is None:
        return None
    replicas = facts.replicas.get((pod.key.namespace, owner))
    if replicas is None:
        return _block(UnremovableReason.CONTROLLER_NOT_FOUND)
    return _block(UnremovableReason.MIN_REPLICAS_REACHED) if counted and replicas < facts.policy.min_replicas else None


def judge_daemon_set(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """A DaemonSet's pod goes with its node and needs no other one, since each node has its own."""
    owner = pod.eviction_facts.owner
    made_by_one = owner is not None and (owner.group, owner.kind) == ("apps", "DaemonSet")
    return _DAEMON if made_by_one or pod.eviction_facts.daemon else None


def judge_terminal(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """A pod that has ended needs no other node, whatever the later rules say."""
    return _SKIP if pod.ended else None


def judge_safe_to_evict(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """Annotation safe-to-evict true: the pod may be moved, and no later rule about the pod itself applies."""
    return _MOVE if pod.eviction_facts.safe_to_evict == "true" else None


def judge_on_completion(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """Annotation safe-to-evict on-completion: the node waits until the pod has completed."""
    return _WAIT if pod.eviction_facts.safe_to_evict == "on-completion" else None


def judge_machine(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A virtual machine is migrated, not evicted. One that may not migrate blocks, unless the policy evicts it."""
    vertical, policy = pod.vertical, facts.policy
    if vertical is None or vertical.machine is None or not policy.fixed_machines or _migrates(pod, policy):
        return None
    return _block(UnremovableReason.MACHINE_CANNOT_MIGRATE)


def judge_replicated(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A pod without a controller blocks, since nothing would create it again elsewhere."""
    owner = pod.eviction_facts.owner
    if owner is None or (facts.policy.custom_controllers and owner.kind not in _BUILT_IN):
        return _block(UnremovableReason.NOT_REPLICATED)
    return None


def judge_system(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A young pod of kube-system blocks if no budget covers it. Once it is older than `system_pod_time`, this rule no longer
    decides, but the later rules do: see ADR 30."""
    if not facts.policy.system_pods or pod.key.namespace != _SYSTEM_NAMESPACE:
        return None
    if facts.disruptions is None or facts.disruptions.covers(pod):
        return None
    young = not pod.created_at or facts.now - _unix_time(pod.created_at) <= facts.policy.system_pod_time
    return _block(UnremovableReason.UNMOVABLE_SYSTEM_POD) if young else None


def judge_not_safe_to_evict(pod: Pod, _facts: RuleFacts) -> Verdict | None:
    """Annotation safe-to-evict false: the pod must not be moved, so it blocks."""
    return _block(UnremovableReason.NOT_SAFE_TO_EVICT) if pod.eviction_facts.safe_to_evict == "false" else None


def judge_local_storage(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """A pod blocks if it keeps data on the node's own disks, since the data would be lost."""
    return _block(UnremovableReason.LOCAL_STORAGE) if facts.policy.local_storage and pod.eviction_facts.local_volumes else None


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

#: Those that come before the rule that asks about a pod's budgets and age.
_BEFORE_SYSTEM: Final = RULES[: RULES.index(judge_system)]


def _judge_budget(pod: Pod, facts: RuleFacts) -> Verdict | None:
    """The last rule: the Eviction API must allow every eviction that the removal needs.

    It applies to every pod that moves, even if an earlier rule allows the move (ADR 30). The API never evicts a pod with
    several budgets, so waiting does not help (ADR 162). A virtual machine that migrates is not evicted; its budgets count
    nevertheless, since the machine is disrupted.
    """
    disruptions = facts.disruptions
    if disruptions is None:
        return None
    if not _migrates(pod, facts.policy) and disruptions.never_evicted(pod):
        return _block(UnremovableReason.MULTIPLE_PDBS)
    return None if disruptions.allows(pod) else _block(UnremovableReason.NOT_ENOUGH_PDB)


def _migrates(pod: Pod, policy: DrainPolicy) -> bool:
    """Whether the pod leaves its node by a migration instead of an eviction."""
    return policy.machines_migrate and pod.migratable


def _block(unremovable_reason: UnremovableReason) -> Verdict:
    return Verdict(DrainabilityOutcome.BLOCK, unremovable_reason)


def _unix_time(text: str) -> float:
    """A time of the API as Unix seconds. The adapter has checked the text."""
    return datetime.fromisoformat(text).timestamp()
