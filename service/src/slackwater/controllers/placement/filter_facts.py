"""What the state machine knows of a pod in addition to the cluster snapshot, as filter and explanations read it."""

from dataclasses import dataclass

from slackwater.model.ids import NodeName
from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterFacts:
    """The facts from which filter decides its answer for one pod. `reason`: why filter refuses the pod on every node, or OK.

    `denied`: nodes in bind back-off for the pod. `quarantined`: nodes in quarantine. `waits_for`: victims of its preemption.
    `only_on`: the only node allowed, because room is kept there for the pod's bind or migration under way.
    """

    reason: Reason = Reason.OK
    denied: frozenset[NodeName] = frozenset()
    quarantined: frozenset[NodeName] = frozenset()
    waits_for: tuple[str, ...] = ()
    only_on: NodeName | None = None

    @property
    def closed(self) -> frozenset[NodeName]:
        """Nodes that cannot take the pod now, whatever its requests and constraints are."""
        return self.denied | self.quarantined
