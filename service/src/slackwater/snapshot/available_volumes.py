"""The available volumes of one storage class, and which of them each node would give to a pod's claims.

Claims choose one after another, as in kube-scheduler: each takes the smallest volume that suits it, that the node can reach,
and that no earlier claim of the pod took. The whole choice is made for all nodes at once.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from slackwater.model.columns import Mask, Rows
from slackwater.model.selectors import selects
from slackwater.model.storage import Claim, Volume
from slackwater.snapshot.label_index import Alternatives, LabelIndex, alternatives
from slackwater.snapshot.node_facts import NodeFacts

#: Stands for a volume's number where the node has none for the claim.
NO_VOLUME: Final = -1


class AvailableVolumes:
    """The volumes of one class. Each has a number: the smallest comes first, equally small ones come in the given order."""

    def __init__(self, volumes: Iterable[Volume]) -> None:
        self.volumes = sorted(volumes, key=lambda volume: volume.capacity)
        #: Increases whenever a volume is taken or given back.
        self.version = 0
        self._number = {volume.name: number for number, volume in enumerate(self.volumes)}
        self._free: Mask = np.ones(len(self.volumes), np.bool_)
        selectors: dict[Alternatives, int] = {}
        reached_by = [selectors.setdefault(alternatives(v.node_terms), len(selectors)) for v in self.volumes]
        #: The number of the node selector of each volume: volumes that the same nodes can reach have the same one.
        self._reach: Rows = np.array(reached_by, np.intp)
        self._n_reaches = len(selectors)
        self._nodes = LabelIndex(list(selectors))
        self._capacities = [volume.capacity for volume in self.volumes]
        #: The volumes that suit claims of one shape, whatever their size.
        self._alike: dict[object, Rows] = {}

    def number(self, name: str) -> int:
        """The volume's number, or NO_VOLUME for one that is not in this class."""
        return self._number.get(name, NO_VOLUME)

    def set_free(self, name: str, *, free: bool) -> None:
        number = self._number.get(name)
        if number is not None:
            self._free[number] = free
            self.version += 1

    def suit(self, claim: Claim) -> bool:
        """Whether any volume suits the claim, free or not."""
        return bool(self.volumes) and bool(len(self._suiting(claim)))

    def first_free(self, claim: Claim, facts: NodeFacts, rows: Rows, taken: Sequence[Rows]) -> Rows:
        """The number of the volume that the claim takes on each row, or NO_VOLUME. `taken` are the choices of earlier
        claims."""
        none = len(self.volumes)
        chosen = np.full(len(rows), none, np.intp)
        suiting = self._suiting(claim)
        usable = suiting[self._free[suiting]]
        if len(usable):
            at, reach = self._nodes.pairs(facts, rows)
            in_reach = _Columns(usable, self._reach[usable], self._n_reaches, none=none)
            found = in_reach.take(reach, 0)
            for step in range(1, len(taken) + 1):
                is_taken = np.any([found == earlier[at] for earlier in taken], axis=0)
                found = np.where(is_taken, in_reach.take(reach, step), found)
            np.minimum.at(chosen, at, found)
        chosen[chosen == none] = NO_VOLUME
        return chosen

    def _suiting(self, claim: Claim) -> Rows:
        """The numbers of the volumes that suit the claim, free or not, whatever nodes can reach them."""
        shape = shape_of(claim)
        found = self._alike.get(shape)
        if found is None:
            found = np.array([number for number, volume in enumerate(self.volumes) if _suits(claim, volume)], np.intp)
            self._alike[shape] = found
        smallest = bisect_left(self._capacities, claim.size or 0)
        return found[np.searchsorted(found, smallest) :]


class _Columns:
    """Numbers in ascending order, split into parts: `take` gives the first of each part, the second of each, and so on."""

    def __init__(self, numbers: Rows, of: Rows, n_parts: int, *, none: int) -> None:
        order = np.argsort(of, kind="stable")
        self._numbers = np.append(numbers[order], none)
        bounds = np.searchsorted(of[order], np.arange(n_parts + 1))
        self._starts, self._ends = bounds[:-1], bounds[1:]

    def take(self, parts: Rows, step: int) -> Rows:
        """The number at position `step` of each part; `none` where it has fewer."""
        at = self._starts[parts] + step
        found: Rows = self._numbers[np.where(at < self._ends[parts], at, len(self._numbers) - 1)]
        return found


def shape_of(claim: Claim) -> tuple[object, ...]:
    """The fields of a claim that decide which volumes suit it, apart from its size and existing reservations."""
    return (claim.mode, claim.attributes_class, claim.access_modes, claim.has_selector, claim.selector)


def may_hold(claim: Claim, volume: Volume) -> bool:
    """Whether the volume is large enough, has the claim's mode and attributes class, and is not reserved for another claim."""
    if volume.deleting or (volume.claim is not None and not is_reserved_for(volume, claim)):
        return False
    return _is_alike(claim, volume) and volume.capacity >= (claim.size or 0)


def is_reserved_for(volume: Volume, claim: Claim) -> bool:
    ref = volume.claim
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return ref.uid in ("", claim.uid)


def _is_alike(claim: Claim, volume: Volume) -> bool:
    return volume.mode == claim.mode and volume.attributes_class == claim.attributes_class


def _suits(claim: Claim, volume: Volume) -> bool:
    """Whether the volume suits the claim, whatever its size."""
    selected = not claim.has_selector or selects(claim.selector, volume.labels)
    return selected and _is_alike(claim, volume) and set(claim.access_modes) <= set(volume.access_modes)
