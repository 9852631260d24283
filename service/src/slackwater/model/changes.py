"""What changed in the cluster state of the cluster since it was last collected: the serving side gives it, planners take it.

Frozen values, so that they may be handed to another thread. A pod is given *as it counts*: `node` is where it takes room,
also where its bind is still on its way, and its kind's requests are what is Reserved for it where that is more. A node's
allocatable is what may be promised on it. Deliberately absent: how it is noticed (`state_machine.changes`), and what is made of
it (`snapshot.replica`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slackwater.model.ids import Generation, NodeName, PodUid
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.storage import Storage


class NodeChange(NamedTuple):
    """A node as it is now; None: it is gone."""

    name: NodeName
    node: Node | None


class PodChange(NamedTuple):
    """A pod as it counts now; None: it is gone, or has ended."""

    uid: PodUid
    pod: Pod | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Of several entries about one object the last is true. A field that is None did not change.

    `promised` are pods without a node for which room is kept all the same: victims leave for them (all of them, each time).
    """

    generation: Generation
    nodes: Sequence[NodeChange] = ()
    pods: Sequence[PodChange] = ()
    promised: frozenset[PodUid] = field(default_factory=frozenset)
    budgets: tuple[DisruptionBudget, ...] | None = None
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    storage: Storage | None = None
