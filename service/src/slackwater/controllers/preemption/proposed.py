"""Rules of the preempt verb: whether the victims that kube-scheduler proposes for a node suffice, and which to add.

kube-scheduler found them with its in-tree filters alone. If they do not suffice in our accounting, as few other pods of the
node are added as make the pod fit. Proposed victims are never removed: the in-tree filters needed them.
"""

from collections.abc import Sequence

from slackwater.controllers.preemption.victims import PotentialVictim, PreemptionNode, fits, given_back, needed_victims
from slackwater.model.resources import Amounts


def suffices(wanted: Amounts, free: Amounts, proposed: Sequence[PotentialVictim]) -> bool:
    """Does the pod fit once the proposed victims are gone? `free` may be negative."""
    return fits(wanted, given_back(free, proposed))


def added_victims(
    wanted: Amounts, proposed: Sequence[PotentialVictim], preemption_node: PreemptionNode
) -> tuple[PotentialVictim, ...] | None:
    """The potential victims of the node that have to leave in addition to the proposed ones, which are not among them; None if
    not even all of them would do. Pods that leave anyway are included if they have to be waited for."""
    more = needed_victims(
        wanted,
        PreemptionNode(
            node=preemption_node.node,
            free=given_back(preemption_node.free, proposed),
            potential_victims=preemption_node.potential_victims,
        ),
    )
    return None if more is None else (*more.victims, *more.awaited)
