"""Runners-up: the candidates that were not chosen for a preemption, with the reason why each ranked lower.

    cost(candidate)                      # the sort key of candidates
    runners_up(chosen, candidates)       # the next few, shown to people who ask which other nodes were considered

A reason is the first criterion of `cost` in which the two candidates differ. Its text is made when the preemption begins.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from slackwater.controllers.preemption.victims import Candidate, PotentialVictim
from slackwater.model.ids import NodeName
from slackwater.model.texts import count_text

#: The most runners-up that are kept for one preemption.
MOST_RUNNERS_UP: Final = 4
#: MaxInt32 + 1, added to each priority in the sum: priorities may be negative, and each further victim must add to the cost.
_OFFSET: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerUp:
    """A node that was not chosen: how many pods would have been deleted there, and why it ranked lower."""

    node: NodeName
    n_victims: int
    why: str

    @property
    def text(self) -> str:
        return f"{self.node}: {count_text(self.n_victims, 'victim')}, {self.why}"


def cost(candidate: Candidate) -> tuple[bool, int, int, int, int, str, int, NodeName]:
    """The sort key of candidates, the cheapest first: 1. no victim at all;  2. fewest violated budgets;  3. lowest priority of
    the most important victim;  4. lowest sum of priorities;  5. fewest victims;  6. latest start of the first-started among the
    victims of the highest priority;  7. fewest pods to wait for;  8. the node's name: arbitrary, but the same on every run."""
    victims = candidate.victims
    highest = _highest(candidate)
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
    """The earliest start of the victims of this priority, as RFC 3339; "" if no victim has this priority."""
    return min((victim.start for victim in victims if victim.priority == priority), default="")


def runners_up(chosen: Candidate, candidates: Iterable[Candidate]) -> tuple[RunnerUp, ...]:
    """The cheapest candidates on other nodes than the chosen one, the cheapest first; at most `MOST_RUNNERS_UP`."""
    others = nsmallest(MOST_RUNNERS_UP, (each for each in candidates if each.node != chosen.node), key=cost)
    return tuple(RunnerUp(node=each.node, n_victims=len(each.victims), why=_why_lower(each, chosen)) for each in others)


def _why_lower(other: Candidate, chosen: Candidate) -> str:
    """The text for the first criterion of `cost` in which the two candidates differ."""
    mine, best = cost(other), cost(chosen)
    if mine < best:
        return "chosen otherwise by kube-scheduler"
    many, few = len(other.victims), len(chosen.victims)
    words = (
        f"none on {chosen.node}",
        f"{count_text(other.violations, 'disruption budget')} violated instead of {chosen.violations}",
        f"the most important has priority {_highest(other)} instead of {_highest(chosen)}",
        "of higher priority in sum" if many == few else f"instead of {few}",
        f"instead of {few}",
        "which started earlier",
        f"and {count_text(len(other.awaited), 'pod')} to wait for instead of {len(chosen.awaited)}",
        "equal; the name of the node decided",
    )
    return next(text for text, one, two in zip(words, mine, best, strict=True) if one != two)


def _highest(candidate: Candidate) -> int:
    return max((victim.priority for victim in candidate.victims), default=0)


def _later_first(text: str) -> str:
    """Maps a text to another one, so that the order of the mapped texts is the reverse of the order of the texts."""
    return "".join(chr(0x10FFFF - ord(c)) for c in text)
