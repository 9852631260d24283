"""The fewest pods of one node that have to leave so that a more important pod fits there.

All pods of lower priority are taken away in thought; then each is spared again that the pod fits beside, the most important
first and those before all whose leaving would violate a budget (kube-scheduler's reprieve pass). Pods that are leaving anyway
are never spared: their room costs nothing. What a pod gives back is its account's, not its request: a virtual machine that has
grown gives back all of it. Deliberately absent: which pods may be taken at all, which the caller knows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.model.ids import NodeName, PodUid
from slackwater.model.resources import Amounts

#: After every start: who has not started loses least.
_NOT_YET: Final = "9999"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A pod on the node that the preemptor may take. `reserved` is what its leaving gives back.

    `started_at` is RFC 3339, all in one zone, so that texts compare as instants; empty where the pod has not started.
    `leaving`: it goes, whatever is decided.
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
class Site:
    """A node that the preemptor could go to, were there room. `free` may be negative; `occupants` are in any order."""

    node: NodeName
    free: Amounts
    occupants: Sequence[Occupant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sacrifice:
    """What making room on a node costs: `victims`, the most important first, are to be deleted; `awaited` leave anyway."""

    node: NodeName
    victims: tuple[Occupant, ...]
    awaited: tuple[Occupant, ...]

    @property
    def violations(self) -> int:
        return sum(victim.violates_budget for victim in self.victims)


def importance(occupant: Occupant) -> tuple[int, str, PodUid]:
    """Most important first, as kube-scheduler has it: 1. higher priority  2. started first  3. uid: arbitrary, but the same on
    every run."""
    return (-occupant.priority, occupant.start, occupant.uid)


def spared_first(occupant: Occupant) -> tuple[bool, int, str, PodUid]:
    """The order of the reprieve pass: 1. a budget would be violated  2. importance."""
    return (not occupant.violates_budget, *importance(occupant))


def needed_victims(wanted: Amounts, site: Site) -> Sacrifice | None:
    """The fewest occupants whose leaving makes `wanted` fit on the site; None where not even all of them would do."""
    free = given_back(site.free, site.occupants)
    if not fits(wanted, free):
        return None
    victims, awaited = [], []
    for occupant in sorted((o for o in site.occupants if not o.leaving), key=spared_first):
        without = free.minus(occupant.reserved)
        if fits(wanted, without):
            free = without
        else:
            victims.append(occupant)
    # The free ones last: whom the pod need not wait for, it does not.
    for occupant in sorted((o for o in site.occupants if o.leaving), key=importance):
        without = free.minus(occupant.reserved)
        if fits(wanted, without):
            free = without
        else:
            awaited.append(occupant)
    return Sacrifice(node=site.node, victims=tuple(sorted(victims, key=importance)), awaited=tuple(awaited))


def fits(wanted: Amounts, free: Amounts) -> bool:
    """Equal is within; a resource of which nothing is asked is not judged."""
    return all(amount == 0 or amount <= room for amount, room in zip(wanted, free, strict=True))


def given_back(free: Amounts, occupants: Iterable[Occupant]) -> Amounts:
    """What is free once all of them are gone."""
    for occupant in occupants:
        free = free.plus(occupant.reserved)
    return free
