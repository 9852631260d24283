"""The equivalence groups of a snapshot, by number, with the labels that some selector reads.

Two pods have the same `KindId` if no rule can distinguish them: they have equal `Kind`s, and equal values of all labels whose
keys occur in a selector of some group of the snapshot. Labels that no selector reads (pod-template-hash, a StatefulSet's index)
split no group, so pods of different controllers can share a group. A pod that is being deleted is in another group: topology
spread does not count it.

If the selectors of a new `Kind` read a label key that no group's selectors read before, groups that already have numbers would
have to be split. `UnreadLabel` is raised instead, and the owner of the snapshot builds it again. Selectors with new keys are
rare.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType

import numpy as np

from slackwater.model.columns import Int64
from slackwater.model.objects import Labels
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind, PodConstraints
from slackwater.snapshot.node_facts import CPU, MEMORY, PODS, NodeFacts, grown

#: The number of an equivalence group in one snapshot; it means nothing in another snapshot.
KindId = NewType("KindId", int)


class UnreadLabel(Exception):
    """The selectors of a `Kind` read labels that the snapshot was built without. The caller has to build the snapshot again
    with this `Kind` in it."""

    def __init__(self, keys: frozenset[str]) -> None:
        super().__init__(keys)
        self.keys = keys

    def __str__(self) -> str:
        return f"a selector reads {', '.join(sorted(self.keys))}: the snapshot was built without these labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedGroup:
    """An equivalence group of pods with its number in the snapshot."""

    id: KindId
    kind: Kind
    labels: dict[str, str]  #: those that some selector reads
    deleting: bool
    asks: PodConstraints  #: the pod constraints of `kind`, or empty ones
    rare: bool  #: its pods take ports, disks or claims, which `PortsAndVolumes` counts


class KindTable:
    """Numbers the equivalence groups, and keeps the requests of each as columns."""

    def __init__(self, facts: NodeFacts, keys: Iterable[str] = ()) -> None:
        self._facts = facts
        self.keys = frozenset(keys)
        self.all: list[NumberedGroup] = []
        #: The number of groups plus that of all their rules: what the table costs.
        self.n_rules = 0
        self._ids: dict[tuple[Kind, Labels, bool], KindId] = {}
        #: What a pod of each group takes, shape (resources, groups); at index PODS it is 1.
        self.requests: Int64 = np.zeros((len(facts.resource), 64), np.int64)
        #: What scores assume that a pod of each group takes of CPU and memory, shape (2, groups).
        self.scored: Int64 = np.zeros((2, 64), np.int64)
        #: The same for each group, as pairs of index and amount, without the amounts that are 0.
        self.requests_of: list[tuple[tuple[int, int], ...]] = []
        self.scored_of: list[tuple[tuple[int, int], ...]] = []
        #: By group: what its pods request of resources that no node offers, which have no column.
        self.unoffered: dict[KindId, tuple[tuple[str, int], ...]] = {}

    def __len__(self) -> int:
        return len(self.all)

    def find(self, kind: Kind, labels: Labels, *, deleting: bool = False) -> KindId | None:
        return self._ids.get((kind, self.read_part(labels), deleting))

    def read_part(self, labels: Labels) -> Labels:
        """Those of the labels that some selector reads."""
        return tuple(pair for pair in labels if pair[0] in self.keys) if self.keys else ()

    def intern(self, kind: Kind, labels: Labels, *, deleting: bool = False) -> tuple[KindId, bool]:
        """The number of an equivalence group, and whether it is new. Raises `UnreadLabel`."""
        part = self.read_part(labels)
        found = self._ids.get((kind, part, deleting))
        if found is not None:
            return found, False
        unread = kind.keys_read - self.keys
        if unread:
            raise UnreadLabel(unread)
        new = KindId(len(self.all))
        self._ids[(kind, part, deleting)] = new
        self.n_rules += 1 + kind.n_rules
        asks = kind.pod_constraints or NO_POD_CONSTRAINTS
        rare = bool(asks.host_ports or asks.claims or asks.disks or asks.inline_disks)
        self.all.append(NumberedGroup(id=new, kind=kind, labels=dict(part), deleting=deleting, asks=asks, rare=rare))
        self._write(new, kind, asks)
        return new, True

    def _write(self, new: KindId, kind: Kind, asks: PodConstraints) -> None:
        if new >= self.requests.shape[1]:
            self.requests = grown(self.requests, 2 * new).astype(np.int64, copy=False)
            self.scored = grown(self.scored, 2 * new).astype(np.int64, copy=False)
        self.requests[CPU, new], self.requests[MEMORY, new] = kind.requests
        self.requests[PODS, new] = 1
        self.requests_of.append(())
        self._write_scalars(new, asks.scalars)
        self.scored[:, new] = kind.requests if asks.scored is None else asks.scored
        self.scored_of.append(_pairs(self.scored[:, new]))

    def _write_scalars(self, kind: KindId, scalars: tuple[tuple[str, int], ...]) -> None:
        lines = [(self._facts.line(name), amount) for name, amount in scalars]
        self.make_room(len(self._facts.resource))
        for line, amount in lines:
            if line is not None:
                self.requests[line, kind] = amount
        unoffered = tuple(pair for pair, (line, _) in zip(scalars, lines, strict=True) if line is None)
        self.unoffered.pop(kind, None)
        if unoffered:
            self.unoffered[kind] = unoffered
        self.requests_of[kind] = _pairs(self.requests[:, kind])

    def newly_offered(self) -> list[tuple[KindId, int, int]]:
        """Moves requests of resources that a node offers by now to their columns. Returns (group, index, amount) of each."""
        found = []
        known = self._facts.resource
        for kind, scalars in list(self.unoffered.items()):
            offered = [(known[name], amount) for name, amount in scalars if name in known]
            if offered:
                self._write_scalars(kind, scalars)
                found += [(kind, line, amount) for line, amount in offered]
        return found

    def make_room(self, n_resources: int) -> None:
        while self.requests.shape[0] < n_resources:
            self.requests = np.vstack([self.requests, np.zeros_like(self.requests)])


def _pairs(amounts: Int64) -> tuple[tuple[int, int], ...]:
    return tuple((index, amount) for index, amount in enumerate(amounts.tolist()) if amount)
