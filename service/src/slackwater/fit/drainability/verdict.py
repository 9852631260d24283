"""The verdicts of drainability rules, and what the rules read in addition to the pod.

- `Verdict`, `DrainabilityOutcome`: what happens to a pod when its node is removed.
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
from slackwater.model.reasons import UnremovableReason


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


MOVE: Final = Verdict(DrainabilityOutcome.MOVE)
DAEMON: Final = Verdict(DrainabilityOutcome.DAEMON)
SKIP: Final = Verdict(DrainabilityOutcome.SKIP)
WAIT: Final = Verdict(DrainabilityOutcome.WAIT)


def block(unremovable_reason: UnremovableReason) -> Verdict:
    return Verdict(DrainabilityOutcome.BLOCK, unremovable_reason)


def unix_time(text: str) -> float:
    """A time of the API as Unix seconds. The adapter has checked the text."""
    return datetime.fromisoformat(text).timestamp()


_MINUTE: Final = 60.0


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
