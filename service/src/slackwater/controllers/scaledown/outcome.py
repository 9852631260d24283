"""The outcome of a plan: the nodes that can go together, why the others stay, and the state for the next loop."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.controllers.scaledown.removal_score import RemovalScore
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import UnremovableReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """A node of the candidate set. `moves` are its pods and their destinations, in the order in which they were placed.

    `awaited` are pods that have to complete before the node goes. `risky`: a budget allows fewer disruptions now than the node
    has pods of it, so its drain will have to wait. The node may go after `ripe_after_seconds` in the candidate set.
    """

    node: NodeName
    group: GroupName
    since: UnixTime
    ready: bool
    moves: tuple[tuple[Pod, NodeName], ...]
    awaited: tuple[PodKey, ...]
    risky: bool
    ripe_after_seconds: float
    removal_score: RemovalScore

    @property
    def empty(self) -> bool:
        """Does no pod have to leave? Placeholders exist only in plans."""
        return not self.awaited and all(is_placeholder(pod) for pod, _ in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownPlan:
    """The result of planning a scale-down: which nodes can go, and why the others stay.

    `removable` is in the order in which nodes were tried, `kept` in the order of the node list.
    `homeless`: a pod that is leaving its node, or has left it, fits nowhere. No node may be a candidate then.
    `evaluated` nodes were tried. `cut`: time was over before the last one.
    """

    state: ScaleDownState
    removable: tuple[Removable, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    homeless: KeptNode | None = None
    evaluated: int = 0
    cut: bool = False

    @property
    def unneeded(self) -> Mapping[GroupName, int]:
        """How many nodes of each group can go."""
        return Counter(found.group for found in self.removable)

    @property
    def reasons(self) -> Mapping[UnremovableReason, int]:
        """How many nodes stay for each reason."""
        return Counter(kept.unremovable_reason for kept in self.kept)
