"""Storage objects as predicates look them up, together with a plan's assumptions (kube-scheduler's assume cache).

- `StorageTable`: the objects with the assumptions.
- `AvailableVolumes`: the unbound volumes of one class, and which of them each node would give to a pod's claims.

Invariant: the objects themselves are never copied or changed. Assumptions are kept apart from them, one entry for each reserved
volume and for each claim whose node was selected. So a plan for thousands of claims costs memory for thousands of entries.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeVar

import numpy as np

from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.objects import Node
from slackwater.model.selectors import selects
from slackwater.model.storage import Claim, CsiNode, Storage, StorageClass, Volume
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.node_selector import Alternatives, LabelIndex, alternatives

#: Stands for the number of a volume if the node has none for the claim.
NO_VOLUME: Final = -1


class AvailableVolumes:
    """The available volumes of one storage class, and which of them each node would give to a pod's claims.

    Volumes are numbered by size, the smallest first; volumes of the same size keep the given order. Claims choose one after
    another, as in kube-scheduler: each takes the smallest volume that suits it, that the node can reach, and that no earlier
    claim of the pod took. The choice is made for all nodes at once.
    """

    def __init__(self, volumes: Iterable[Volume]) -> None:
        self.volumes = sorted(volumes, key=lambda volume: volume.capacity)
        #: Increases whenever a volume is taken or given back.
        self.version = 0
        self._number = {volume.name: number for number, volume in enumerate(self.volumes)}
        self._free: Mask = np.ones(len(self.volumes), np.bool_)
        selectors: dict[Alternatives, int] = {}
        reached_by = [selectors.setdefault(alternatives(v.node_terms), len(selectors)) for v in self.volumes]
        #: The number of each volume's node selector; volumes that the same nodes can reach have the same number.
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
        """The number of the volume that the claim takes on each row, or NO_VOLUME; shape (len(rows),). `taken` are the choices
        of the pod's earlier claims."""
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
    """Numbers in ascending order, split into parts. `take` returns one number of each part: with step 0 the first, with step 1
    the second, and so on."""

    def __init__(self, numbers: Rows, of: Rows, n_parts: int, *, none: int) -> None:
        order = np.argsort(of, kind="stable")
        self._numbers = np.append(numbers[order], none)
        bounds = np.searchsorted(of[order], np.arange(n_parts + 1))
        self._starts, self._ends = bounds[:-1], bounds[1:]

    def take(self, parts: Rows, step: int) -> Rows:
        """The number at position `step` of each part; `none` if the part has fewer."""
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


#: Namespace and name of a claim.
ClaimKey = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")

_WAIT: Final = "WaitForFirstConsumer"
_LARGEST: Final = 2**63 - 1


class StorageTable:
    """Storage objects with assumptions. `objects` is without the assumptions; all methods include them."""

    def __init__(self, objects: Storage) -> None:
        self.objects = objects
        self._claims: dict[ClaimKey, Claim] = {}
        self._volumes: dict[str, Volume] = {}
        #: The names of the volumes that an assumption reserves, by the claim that they are reserved for.
        self._reserved_now: dict[ClaimKey, dict[str, None]] = {}
        self._available: dict[str, AvailableVolumes] | None = None
        self._reserved: dict[ClaimKey, list[str]] = {}

    # --- looking up -------------------------------------------------------------------------------------------------------

    def claim(self, key: ClaimKey) -> Claim | None:
        return self._claims.get(key) or (self.objects.claims or {}).get(key)

    def volume(self, name: str) -> Volume | None:
        return self._volumes.get(name) or (self.objects.volumes or {}).get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return (self.objects.classes or {}).get(name)

    def csi_node(self, node: Node) -> CsiNode | None:
        """The CSI drivers of the node with their limits: its CSINode, or for a node that is only planned, that of its
        template."""
        return (self.objects.csi_nodes or {}).get(node.name) or node.csi

    def waits(self, claim: Claim) -> bool:
        """Whether the claim is bound only once a pod that uses it has a node (WaitForFirstConsumer), and is not bound yet."""
        found = self.storage_class(claim.storage_class)
        return found is not None and found.binding_mode == _WAIT and not claim.volume

    def reserved_for(self, claim: Claim) -> list[Volume]:
        """The volumes that are reserved for the claim and may hold it, in the order of the objects."""
        key = (claim.namespace, claim.name)
        if self._available is None:
            self._index()
        names = {*self._reserved.get(key, ()), *self._reserved_now.get(key, ())}
        found = [volume for name in names if (volume := self.volume(name)) is not None]
        fit = [v for v in found if v.storage_class == claim.storage_class and is_reserved_for(v, claim) and may_hold(claim, v)]
        if len(fit) > 1:
            order = {name: at for at, name in enumerate(self.objects.volumes or {})}
            fit.sort(key=lambda volume: order[volume.name])
        return fit

    def available(self, storage_class: str) -> AvailableVolumes:
        """The volumes of a class that are available, that is, that no claim holds."""
        if self._available is None:
            self._index()
        assert self._available is not None
        return self._available.get(storage_class) or _NONE_AVAILABLE

    def tracks_room(self, storage_class: StorageClass) -> bool:
        """Whether the class's driver publishes how much room it has for new volumes."""
        driver = (self.objects.drivers or {}).get(storage_class.provisioner)
        return driver is not None and driver.tracks_capacity and self.objects.capacities is not None

    def rows_with_room(self, storage_class: StorageClass, size: int, facts: NodeFacts, rows: Rows) -> Mask:
        """Which of `rows` have enough published room for a new volume of this size and class. The class's driver must publish
        its room."""
        return self._published.first(storage_class.name, size, facts, rows) >= 0

    def room(self, storage_class: StorageClass, size: int, facts: NodeFacts, rows: Rows) -> Int64:
        """The published room, in bytes, from which a new volume would be made on each row; 0 if none suffices.

        If several capacities suffice, the first by namespace and name is used: kube-scheduler takes any.
        """
        capacities = self._published
        first = capacities.first(storage_class.name, size, facts, rows)
        found: Int64 = (
            np.where(first >= 0, capacities.total[first], 0) if len(capacities.total) else np.zeros(len(rows), np.int64)
        )
        return found

    @cached_property
    def _published(self) -> "_Capacities":
        return _Capacities(self.objects)

    def assumed(self) -> Storage:
        """All storage objects as one value, with the assumptions applied."""
        if not self._claims and not self._volumes:
            return self.objects
        claims, volumes = self.objects.claims, self.objects.volumes
        return replace(
            self.objects,
            claims=None if claims is None else {**claims, **self._claims},
            volumes=None if volumes is None else {**volumes, **self._volumes},
        )

    # --- assuming ---------------------------------------------------------------------------------------------------------

    def assume_claim(self, key: ClaimKey, claim: Claim | None) -> Claim | None:
        """Assumes this value of the claim (None: ends the assumption). Returns what was assumed before."""
        return _put(self._claims, key, claim)

    def assume_volume(self, name: str, volume: Volume | None) -> Volume | None:
        """Assumes this value of the volume, reserved for a claim (None: ends the assumption). Returns what was assumed
        before."""
        before = _put(self._volumes, name, volume)
        for each in (before, volume):
            if each is not None and each.claim is not None:
                names = self._reserved_now.setdefault((each.claim.namespace, each.claim.name), {})
                names.pop(name, None)
                if each is volume:
                    names[name] = None
        known = self.volume(name)
        if self._available is not None and known is not None:
            self.available(known.storage_class).set_free(name, free=known.claim is None)
        return before

    def _index(self) -> None:
        available: dict[str, list[Volume]] = {}
        for volume in (self.objects.volumes or {}).values():
            if volume.claim is not None:
                self._reserved.setdefault((volume.claim.namespace, volume.claim.name), []).append(volume.name)
            elif volume.phase == "Available" and not volume.deleting:
                available.setdefault(volume.storage_class, []).append(volume)
        self._available = {name: AvailableVolumes(volumes) for name, volumes in available.items()}
        for name, volume in self._volumes.items():
            self.available(volume.storage_class).set_free(name, free=volume.claim is None)


_NONE_AVAILABLE: Final = AvailableVolumes(())


class _Capacities:
    """The published room for new volumes, by node."""

    def __init__(self, objects: Storage) -> None:
        capacities = sorted(objects.capacities or (), key=lambda each: (each.namespace, each.name))
        self._class_of: dict[str, int] = {}
        classes = [self._class_of.setdefault(each.storage_class, len(self._class_of)) for each in capacities]
        self._classes: Rows = np.array(classes, np.intp)
        largest = [-1 if each.largest is None else min(each.largest, _LARGEST) for each in capacities]
        self._largest = np.array(largest, np.int64)
        self.total: Int64 = np.array([min(each.total or 0, _LARGEST) for each in capacities], np.int64)
        topologies = [() if each.topology is None else (each.topology,) for each in capacities]
        self._nodes = LabelIndex(topologies)

    def first(self, storage_class: str, size: int, facts: NodeFacts, rows: Rows) -> Rows:
        """The number of the first capacity on each row that suffices for a volume of this size and class; -1 if none does."""
        enough = (self._classes == self._class_of.get(storage_class, -1)) & (self._largest >= size)
        found = np.full(len(rows), len(enough), np.intp)
        if enough.any():
            at, numbers = self._nodes.pairs(facts, rows)
            np.minimum.at(found, at[enough[numbers]], numbers[enough[numbers]])
        found[found == len(enough)] = -1
        return found


def _put(table: dict[K, V], key: K, value: V | None) -> V | None:
    before = table.pop(key, None)
    if value is not None:
        table[key] = value
    return before
