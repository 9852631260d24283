"""Needed victims: the fewest pods of one node that have to leave so that a more important pod fits there.

As in kube-scheduler's reprieve pass, all potential victims are assumed gone at first. Then each is spared if the preemptor fits
beside it: first those whose deletion would violate a budget, and the most important first. Pods that are leaving anyway take no
part in this: their room costs nothing. A pod gives back what is Reserved for it, not its request: a virtual machine that has
grown gives back all of it. Deliberately absent: which pods are potential victims.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.model.ids import NodeName, PodUid
from slackwater.model.resources import Amounts

#: Sorts after every start time: a pod that has not started loses least.
_NOT_YET: Final = "9999"


@dataclass(frozen=True, slots=True, kw_only=True)
class PotentialVictim:
    """A pod on a node that may be deleted for the preemptor. `reserved`: the room that this frees.

    `started_at`: RFC 3339, always in the same zone, so that texts compare as instants; "" if the pod has not started.
    `leaving`: the pod leaves anyway. `violates_budget`: its deletion would violate a PodDisruptionBudget.
    """

    uid: PodUid
    priority: int
    started_at: str
    reserved: Amounts
    leaving: bool = False
    violates_budget: bool = False

    @property
    def start(self) -> str:
        return self.started_at or _NOT_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionNode:
    """A node where the preemptor lacks nothing but room. `free`: the free room, which may be negative. `potential_victims` are
    in any order."""

    node: NodeName
    free: Amounts
    potential_victims: Sequence[PotentialVictim]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node with the pods that have to leave so that the preemptor fits. `victims`, the most important first, are to be
    deleted; `awaited` leave anyway."""

    node: NodeName
    victims: tuple[PotentialVictim, ...]
    awaited: tuple[PotentialVictim, ...]

    @property
    def violations(self) -> int:
        return sum(victim.violates_budget for victim in self.victims)


def importance(potential_victim: PotentialVictim) -> tuple[int, str, PodUid]:
    """The sort key of pods, the most important first, as in kube-scheduler: 1. higher priority;  2. earlier start;  3. UID:
    arbitrary, but the same on every run."""
    return (-potential_victim.priority, potential_victim.start, potential_victim.uid)


def reprieve_order(potential_victim: PotentialVictim) -> tuple[bool, int, str, PodUid]:
    """The sort key of the reprieve pass, the first to be spared first: 1. pods whose deletion would violate a budget;
    2. importance."""
    return (not potential_victim.violates_budget, *importance(potential_victim))


def needed_victims(wanted: Amounts, preemption_node: PreemptionNode) -> Candidate | None:
    """The candidate for this node: the fewest potential victims whose deletion makes `wanted` fit. None if not even all of them
    make enough room.
    """
    free = freed_by(preemption_node.free, preemption_node.potential_victims)
    if not fits(wanted, free):
        return None
    victims, awaited = [], []
    for potential_victim in sorted((o for o in preemption_node.potential_victims if not o.leaving), key=reprieve_order):
        without = free.minus(potential_victim.reserved)
        if fits(wanted, without):
            free = without
        else:
            victims.append(potential_victim)
    # Leaving pods come last: the preemptor waits only for those whose room it still needs.
    for potential_victim in sorted((o for o in preemption_node.potential_victims if o.leaving), key=importance):
        without = free.minus(potential_victim.reserved)
        if fits(wanted, without):
            free = without
        else:
            awaited.append(potential_victim)
    return Candidate(node=preemption_node.node, victims=tuple(sorted(victims, key=importance)), awaited=tuple(awaited))


def fits(wanted: Amounts, free: Amounts) -> bool:
    """Does `wanted` fit into `free`? Equal amounts fit. A resource of which nothing is wanted always fits, even if `free` is
    negative."""
    return all(amount == 0 or amount <= room for amount, room in zip(wanted, free, strict=True))


def freed_by(free: Amounts, potential_victims: Iterable[PotentialVictim]) -> Amounts:
    """What is free once all these potential victims are gone."""
    for potential_victim in potential_victims:
        free = free.plus(potential_victim.reserved)
    return free
