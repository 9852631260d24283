"""Chooses the node where the victims cost least, by kube-scheduler's order of criteria (pickOneNodeForPreemption, 1.36).

Pods that are leaving anyway cost nothing and count in no criterion, so a node where they suffice comes before all others.
"""

from collections.abc import Iterable
from typing import Final

from slackwater.controllers.preemption.victims import Candidate, PotentialVictim, PreemptionNode, needed_victims
from slackwater.model.ids import NodeName
from slackwater.model.resources import Amounts

#: MaxInt32 + 1, added to each priority in the sum: priorities may be negative, and each further victim must add to the cost.
_OFFSET: Final = 1 << 31


def choose(wanted: Amounts, preemption_nodes: Iterable[PreemptionNode]) -> Candidate | None:
    """The cheapest candidate that makes `wanted` fit on one of the nodes; None if no node has enough potential victims."""
    found = (needed_victims(wanted, preemption_node) for preemption_node in preemption_nodes)
    return min((candidate for candidate in found if candidate is not None), key=cost, default=None)


def cost(candidate: Candidate) -> tuple[bool, int, int, int, int, str, int, NodeName]:
    """The sort key of candidates, the cheapest first. 1. no victim at all  2. fewest violated budgets  3. lowest priority of
    the most important victim  4. lowest sum of priorities  5. fewest victims  6. the most important victims started last
    7. fewest pods to wait for  8. the node's name: arbitrary, but the same on every run."""
    victims = candidate.victims
    highest = max((victim.priority for victim in victims), default=0)
    return (
        bool(victims),
        candidate.violations,
        highest,
        sum(victim.priority + _OFFSET for victim in victims),
        len(victims),
        _later_first(earliest_start(victims, highest)),
        len(candidate.awaited),
        candidate.node,
    )


def earliest_start(victims: Iterable[PotentialVictim], priority: int) -> str:
    """When the first of the victims of that priority started; empty if there is none."""
    return min((victim.start for victim in victims if victim.priority == priority), default="")


def _later_first(text: str) -> str:
    """A text whose order is the reverse of the given one's."""
    return "".join(chr(0x10FFFF - ord(c)) for c in text)
