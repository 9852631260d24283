"""Volumes of one storage class that no claim holds, and which of them each node would give to a pod's claims.

Claims choose one after another, as kube-scheduler lets them: each takes the smallest volume that suits it, that the node
reaches, and that no earlier claim of the pod took. The whole choice is made for all nodes at once.
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

#: In place of a volume's number: the node has none for the claim.
NO_VOLUME: Final = -1


class AvailableVolumes:
    """Volumes have numbers, the smallest first; equally small ones in the order in which they are given."""

    def __init__(self, volumes: Iterable[Volume]) -> None:
        self.volumes = sorted(volumes, key=lambda volume: volume.capacity)
        #: Moves whenever a volume is taken or given back.
        self.version = 0
        self._number = {volume.name: number for number, volume in enumerate(self.volumes)}
        self._free: Mask = np.ones(len(self.volumes), np.bool_)
        selectors: dict[Alternatives, int] = {}
        reached_by = [selectors.setdefault(alternatives(v.node_terms), len(selectors)) for v in self.volumes]
        #: Volumes that the same nodes reach have the same number here.
        self._reach: Rows = np.array(reached_by, np.intp)
        self._n_reaches = len(selectors)
        self._nodes = LabelIndex(list(selectors))
        self._capacities = [volume.capacity for volume in self.volumes]
        #: The volumes that claims of one shape could have, whatever the size.
        self._alike: dict[object, Rows] = {}

    def number(self, name: str) -> int:
        """NO_VOLUME for one that is not among these."""
        return self._number.get(name, NO_VOLUME)

    def set_free(self, name: str, *, free: bool) -> None:
        number = self._number.get(name)
        if number is not None:
            self._free[number] = free
            self.version += 1

    def suit(self, claim: Claim) -> bool:
        """Does any volume suit the claim, free or not?"""
        return bool(self.volumes) and bool(len(self._suiting(claim)))

    def first_free(self, claim: Claim, facts: NodeFacts, rows: Rows, taken: Sequence[Rows]) -> Rows:
        """For each row the number of the claim's volume, or NO_VOLUME. `taken` are the choices of earlier claims."""
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
        """The numbers of volumes that would do, if they were free and in reach."""
        shape = shape_of(claim)
        found = self._alike.get(shape)
        if found is None:
            found = np.array([number for number, volume in enumerate(self.volumes) if _suits(claim, volume)], np.intp)
            self._alike[shape] = found
        smallest = bisect_left(self._capacities, claim.size or 0)
        return found[np.searchsorted(found, smallest) :]


class _Columns:
    """Numbers in ascending order, split by what they belong to: the first of each, the second of each, and so on."""

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
    """What volumes are chosen by, apart from the size and whom they are reserved for."""
    return (claim.mode, claim.attributes_class, claim.access_modes, claim.has_selector, claim.selector)


def may_hold(claim: Claim, volume: Volume) -> bool:
    """Is the volume large enough and of the right kind, and reserved for nobody else?"""
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
    """Would the volume do for the claim, whatever its size?"""
    selected = not claim.has_selector or selects(claim.selector, volume.labels)
    return selected and _is_alike(claim, volume) and set(claim.access_modes) <= set(volume.access_modes)
