"""The preempt verb: what kube-scheduler's victims are worth in our accounting, node by node.

kube-scheduler found victims with its in-tree filters alone. A node is kept when the pod fits in our accounting once they are
gone; more victims are added where they do not suffice; a node where even that does not help is dropped. Victims are never taken
away: in-tree filters needed them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slackwater.model.ids import PodUid
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod on the node that might go. `reserved` is what its leaving gives back."""

    uid: PodUid
    priority: int
    started_at: str
    deleting: bool
    violates_budget: bool
    reserved: Amounts


def victim_order(victim: Victim) -> tuple[bool, bool, int, str, PodUid]:
    """Who goes first. 1. already leaving  2. no budget violated  3. lower priority  4. started last (least work lost)
    5. uid: arbitrary, but the same on every run. RFC 3339 texts of one zone compare as instants."""
    return (not victim.deleting, victim.violates_budget, victim.priority, _inverted(victim.started_at), victim.uid)


def importance(victim: Victim) -> tuple[int, str, PodUid]:
    """Most important first, as kube-scheduler takes a node's first victim for its most important: 1. higher priority
    2. started first 3. uid, arbitrary."""
    return (-victim.priority, victim.started_at, victim.uid)


def _inverted(text: str) -> str:
    return "".join(chr(0x10FFFF - ord(c)) for c in text)


def sufficient_victims(
    wanted: Amounts, free: Amounts, chosen: Sequence[Victim], others: Iterable[Victim]
) -> tuple[Victim, ...] | None:
    """The chosen victims, plus as few others as make `wanted` fit into `free` and what they give back; None if none do.

    `free` may be negative. `others` are the pods on the node that the preemptor may preempt, in any order. Others that turn out
    not to be needed are spared again, the most important first (kube-scheduler's reprieve pass).
    """
    free = _given_back(free, chosen)
    if _fits(wanted, free):
        return tuple(chosen)
    added: list[Victim] = []
    for victim in sorted(others, key=victim_order):
        added.append(victim)
        free = free.plus(victim.reserved)
        if _fits(wanted, free):
            return (*chosen, *_reprieved(wanted, free, added))
    return None


def _reprieved(wanted: Amounts, free: Amounts, added: list[Victim]) -> list[Victim]:
    kept = list(added)
    for victim in reversed(added):
        without = free.minus(victim.reserved)
        if _fits(wanted, without):
            free = without
            kept.remove(victim)
    return kept


def _given_back(free: Amounts, victims: Iterable[Victim]) -> Amounts:
    for victim in victims:
        free = free.plus(victim.reserved)
    return free


def _fits(wanted: Amounts, free: Amounts) -> bool:
    return all(amount == 0 or amount <= room for amount, room in zip(wanted, free, strict=True))
