"""Divides a set of nodes, and the places that were found for their pods, into small moves.

Pods of one equivalence group can take one another's places. So a node that goes takes the places of its pods on new nodes that
are there already first, then on present nodes, and only then a further new node comes. That node goes next which saves the most
for what it disturbs, where a place that a new node has to come for costs what room for the pod is worth. A move is complete as
soon as it saves enough; what never does is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.controllers.consolidation.candidates import Candidate
from slackwater.controllers.scaleup.packing.problem import Floats
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.snapshot.equivalence_groups import KindId

#: The most entries (nodes times equivalence groups) for which the best next node is searched.
_MOST_ENTRIES = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a trial placed the pods of a set of nodes. `present`: rows for pods of each kind. `prices`: of each new node.
    `new`: how many pods of each kind each new node takes, shape (new nodes, kinds). `counts`: how many pods of each kind each
    node of the set has, shape (nodes, kinds)."""

    kinds: Sequence[KindId]
    present: Sequence[list[int]]
    prices: Sequence[int]
    new: Int64
    counts: Int64


@dataclass(slots=True, kw_only=True)
class Draft:
    """A move: positions of nodes that go, and of new nodes that come. `places[i]`: for each kind the places of the pods of the
    i-th node: the position of a new node, or ~row of a present one."""

    leaving: list[int] = field(default_factory=list)
    coming: list[int] = field(default_factory=list)
    places: list[dict[int, list[int]]] = field(default_factory=list)


#: Whether nodes that go, positions of new nodes that come for them, and the pods that move, pay.
Pays = Callable[[Sequence[Candidate], Sequence[int], int], bool]


def divided(candidates: Sequence[Candidate], places: Places, values: Floats, pays: Pays) -> list[Draft]:
    """The moves, in order. `candidates`: the set, those that save the most for the room first. `values`: what room for a pod of
    each kind costs, in micros an hour, shape (kinds,)."""
    return list(_Division(candidates, places, values, pays).drafts())


class _Division:
    def __init__(self, candidates: Sequence[Candidate], places: Places, values: Floats, pays: Pays) -> None:
        self._candidates, self._places, self._values, self._pays = candidates, places, values, pays
        self._prices: Floats = np.array([each.price for each in candidates], np.float64)
        self._disruptions: Floats = np.array([each.disruption for each in candidates])
        self._present = [list(reversed(rows)) for rows in places.present]
        self._opened: list[list[int]] = [[] for _ in places.kinds]
        #: How many places are left for each kind without a further new node.
        self._left: Int64 = np.array([len(rows) for rows in places.present], np.int64)
        self._unopened: Mask = np.ones(len(places.prices), np.bool_)
        self._pods: Int64 = places.counts.sum(axis=1)

    def drafts(self) -> list[Draft]:
        found: list[Draft] = []
        waiting: Rows = np.arange(len(self._candidates))
        draft, pods = Draft(), 0
        while len(waiting):
            at = self._next(waiting)
            node = int(waiting[at])
            waiting = np.delete(waiting, at)
            if not self._take(node, draft):
                continue
            pods += int(self._pods[node])
            if self._pays([self._candidates[each] for each in draft.leaving], draft.coming, pods):
                found.append(draft)
                draft, pods = Draft(), 0
        return found

    def _next(self, waiting: Rows) -> int:
        """The first node that saves the most for what it disturbs."""
        if len(waiting) * len(self._left) > _MOST_ENTRIES:
            return 0
        lacking = np.maximum(self._places.counts[waiting] - self._left, 0) @ self._values
        return int(((self._prices[waiting] - lacking) / np.maximum(self._disruptions[waiting], 1e-9)).argmax())

    def _take(self, node: int, draft: Draft) -> bool:
        """Adds the node to the move, with the new nodes that it needs beside those that are there. False if there are not
        enough places."""
        wanted: Int64 = self._places.counts[node]
        coming: list[int] = []
        lacking = np.maximum(wanted - self._left, 0)
        while lacking.any():
            kinds = np.flatnonzero(lacking)  # a few of perhaps thousands
            helping = self._unopened * np.minimum(self._places.new[:, kinds], lacking[kinds]).sum(axis=1)
            best = int(helping.argmax()) if len(helping) else 0
            if not helping.any():
                for new in coming:
                    self._unopened[new] = True
                return False
            coming.append(best)
            self._unopened[best] = False
            lacking = np.maximum(lacking - self._places.new[best], 0)
        for new in coming:
            self._left += self._places.new[new]
            for kind in np.flatnonzero(self._places.new[new]).tolist():
                self._opened[kind] += [new] * int(self._places.new[new, kind])
        self._left -= wanted
        taken: dict[int, list[int]] = {}
        for kind in np.flatnonzero(wanted).tolist():
            taken[kind] = [self._place(kind) for _ in range(int(wanted[kind]))]
        used = {place for places in taken.values() for place in places}
        for new in coming:
            if new not in used:  # one that was opened after it has all that the node needs
                self._close(new)
        draft.leaving.append(node)
        draft.coming += [new for new in coming if new in used]
        draft.places.append(taken)
        return True

    def _close(self, new: int) -> None:
        """Leaves a new node of which no place is taken for a later move."""
        self._unopened[new] = True
        self._left -= self._places.new[new]
        for kind in np.flatnonzero(self._places.new[new]).tolist():
            self._opened[kind] = [each for each in self._opened[kind] if each != new]

    def _place(self, kind: int) -> int:
        return self._opened[kind].pop() if self._opened[kind] else ~self._present[kind].pop()
