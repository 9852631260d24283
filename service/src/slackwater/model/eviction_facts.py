"""Eviction facts: what decides whether a pod may leave its node, namely its controller, its annotations and its local volumes.

Replicas of one workload have equal eviction facts, so the adapter gives them the same instance. `fit.drainability` judges what
they mean for removing a node.
"""

from dataclasses import dataclass
from typing import Final, Literal

#: The values of annotation `safe-to-evict` that have a meaning.
SafeToEvict = Literal["true", "false", "on-completion"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod, in the pod's namespace. `group` is empty for the core API."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class EvictionFacts:
    """The facts about one pod that decide whether it may leave its node. `owner` is None if no controller makes a new pod for
    this one.

    `mirror_pod`: the kubelet runs the pod from a file; the API only shows it. `daemon`: an annotation says that the pod is to
    be treated like a DaemonSet's. `local_volumes` are its emptyDirs on disk and hostPaths, without those that an annotation
    exempts. `deletion_cost` says what an eviction costs, by the annotations for that. `slack` is the text of the
    annotation that asks for room for more such pods, "" without one.
    `do_not_disrupt`: for so many seconds after its start the pod may not be disrupted; infinite if it never may, 0 if no
    annotation protects it.
    """

    owner: Owner | None = None
    mirror_pod: bool = False
    daemon: bool = False
    safe_to_evict: SafeToEvict | None = None
    local_volumes: tuple[str, ...] = ()
    deletion_cost: int = 0
    slack: str = ""
    do_not_disrupt: float = 0.0


NO_EVICTION_FACTS: Final = EvictionFacts()
