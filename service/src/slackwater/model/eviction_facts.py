"""What ties a pod to its node, or lets it go: who made it, and what its annotations and volumes say of leaving.

Replicas of one workload have the same ties, so the edge gives equal ones the same instance. What the ties mean for
removing a node is judged in `fit.drainability`.
"""

from dataclasses import dataclass
from typing import Final, Literal

#: The values of annotation `safe-to-evict` that mean something.
SafeToEvict = Literal["true", "false", "on-completion"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod, in the pod's namespace. `group` is empty for the core API."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class EvictionFacts:
    """`owner` is None where no controller makes a new pod for this one.

    `mirror`: the kubelet runs it from a file; the API only shows it. `daemon`: an annotation says that it counts as a
    DaemonSet's. `local_volumes` are its emptyDirs on disk and hostPaths, without those that an annotation gives free.
    `deletion_cost` is its controller's order of removal: the lower, the sooner. `slack` is the annotation that asks for room
    for more such pods, "" without one.
    """

    owner: Owner | None = None
    mirror_pod: bool = False
    daemon: bool = False
    safe_to_evict: SafeToEvict | None = None
    local_volumes: tuple[str, ...] = ()
    deletion_cost: int = 0
    slack: str = ""


NO_EVICTION_FACTS: Final = EvictionFacts()
