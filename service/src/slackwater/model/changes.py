"""Changes of the cluster state since they were last collected.

The values are frozen, so that they may be handed to another thread or process. A pod is given *as it counts*: `node` is the
node where it takes room, also while its bind is under way, and its requests are what is Reserved for it where that is more. A
node's allocatable is what may be reserved on it. Deliberately absent: how changes are collected (`runtime.changes`) and applied
(`snapshot.replica`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage


class NodeChange(NamedTuple):
    """A node as it is now; None: the node is gone."""

    name: NodeName
    node: Node | None


class PodChange(NamedTuple):
    """A pod as it counts now; None: the pod is gone, or has ended."""

    uid: PodUid
    pod: Pod | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One collection of changes. Of several entries about one object the last is true. A field that is None did not change.

    `promised` are pods without a node for which room is kept all the same, because victims leave for them. Each collection
    names all of them.
    """

    generation: Generation
    nodes: Sequence[NodeChange] = ()
    pods: Sequence[PodChange] = ()
    promised: frozenset[PodUid] = field(default_factory=frozenset)
    budgets: tuple[DisruptionBudget, ...] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
