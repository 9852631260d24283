"""The result of a scale-down plan: the nodes that can be removed together, why others stay, and the state for the next loop."""

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
    """A node that can be removed (the candidate set). `since`: since when it has been a candidate. `moves`: its pods and their
    destinations, in the order in which they were placed.

    `awaited`: pods that have to complete before the node is removed. `risky`: a budget now allows fewer disruptions than it has
    pods on the node, so the drain will have to wait. `ripe_after_seconds`: how long the node must have been a candidate before
    its removal begins.
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
        """Is the node without pods that have to leave or to complete? Placeholders do not count, since they exist only in
        plans."""
        return not self.awaited and all(is_placeholder(pod) for pod, _ in self.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownPlan:
    """The result of planning a scale-down: which nodes can be removed, and why the others stay.

    `removable`: in the order in which nodes were tried. `kept`: in the order of the node list. `homeless`: set if a pod that is
    leaving its node or has been evicted fits nowhere; then no node is removable. `evaluated`: the number of nodes that were
    tried. `cut`: time was over before all eligible nodes were tried.
    """

    state: ScaleDownState
    removable: tuple[Removable, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    homeless: KeptNode | None = None
    evaluated: int = 0
    cut: bool = False

    @property
    def unneeded(self) -> Mapping[GroupName, int]:
        """The number of removable nodes of each group."""
        return Counter(found.group for found in self.removable)

    @property
    def reasons(self) -> Mapping[UnremovableReason, int]:
        """The number of nodes that stay, for each reason."""
        return Counter(kept.unremovable_reason for kept in self.kept)
