"""The preempt verb: what still suffices of victims that kube-scheduler proposes for a node.

kube-scheduler found them with its in-tree filters alone. Where they do not suffice in our accounting, as few others of the node
are added as make the pod fit. Victims are never taken away: in-tree filters needed them.
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
    """Who of the site has to leave beside the proposed victims, who are none of its potential victims; None where not even all
    of them would do. Those who leave anyway are among them, as far as they have to be waited for."""
    more = needed_victims(
        wanted,
        PreemptionNode(
            node=preemption_node.node,
            free=given_back(preemption_node.free, proposed),
            potential_victims=preemption_node.potential_victims,
        ),
    )
    return None if more is None else (*more.victims, *more.awaited)
