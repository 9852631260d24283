"""Storage objects as predicates look them up, together with a plan's assumptions (kube-scheduler's assume cache).

The objects themselves are never copied. Assumptions are kept apart from them, one entry for each volume that was reserved and
each claim whose node was selected, so that a plan for thousands of claims costs memory for thousands of entries.
"""

from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from slackwater.model.columns import Mask, Rows
from slackwater.model.objects import Node
from slackwater.model.storage import Claim, CsiNode, Storage, StorageClass, Volume
from slackwater.snapshot.available_volumes import AvailableVolumes, is_reserved_for, may_hold
from slackwater.snapshot.label_index import LabelIndex
from slackwater.snapshot.node_facts import NodeFacts

#: Namespace and name of a claim.
ClaimKey = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")

_WAIT: Final = "WaitForFirstConsumer"
_LARGEST: Final = 2**63 - 1


class StorageTable:
    """Storage objects with assumptions. `objects` is without assumptions; all methods include them."""

    def __init__(self, objects: Storage) -> None:
        self.objects = objects
        self._claims: dict[ClaimKey, Claim] = {}
        self._volumes: dict[str, Volume] = {}
        #: Volumes that an assumption reserved, by their claims.
        self._reserved_now: dict[ClaimKey, dict[str, None]] = {}
        self._available: dict[str, AvailableVolumes] | None = None
        self._reserved: dict[ClaimKey, list[str]] = {}
        self._capacities: _Capacities | None = None

    # --- looking up -------------------------------------------------------------------------------------------------------

    def claim(self, key: ClaimKey) -> Claim | None:
        return self._claims.get(key) or (self.objects.claims or {}).get(key)

    def volume(self, name: str) -> Volume | None:
        return self._volumes.get(name) or (self.objects.volumes or {}).get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return (self.objects.classes or {}).get(name)

    def csi_node(self, node: Node) -> CsiNode | None:
        """What the node can attach: its CSINode, or for a node that is only planned, its template's."""
        return (self.objects.csi_nodes or {}).get(node.name) or node.csi

    def waits(self, claim: Claim) -> bool:
        """Whether the claim is bound only when a pod that uses it has a node."""
        found = self.storage_class(claim.storage_class)
        return found is not None and found.binding_mode == _WAIT and not claim.volume

    def reserved_for(self, claim: Claim) -> list[Volume]:
        """Volumes that are reserved for the claim and may hold it, in the order of the objects."""
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
        """The volumes of a class that no claim holds."""
        if self._available is None:
            self._index()
        assert self._available is not None
        return self._available.get(storage_class) or _NONE_AVAILABLE

    def tracks_room(self, storage_class: StorageClass) -> bool:
        """Whether the class's driver publishes how much room it has for new volumes."""
        driver = (self.objects.drivers or {}).get(storage_class.provisioner)
        return driver is not None and driver.tracks_capacity and self.objects.capacities is not None

    def rows_with_room(self, storage_class: StorageClass, size: int, facts: NodeFacts, rows: Rows) -> Mask:
        """Rows where the published room suffices for a new volume of a class whose driver publishes it."""
        if self._capacities is None:
            self._capacities = _Capacities(self.objects)
        return self._capacities.rows(storage_class.name, size, facts, rows)

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
        """Assumes this value of the claim, None for no assumption; returns what was assumed before."""
        return _put(self._claims, key, claim)

    def assume_volume(self, name: str, volume: Volume | None) -> Volume | None:
        """Assumes this value of the volume, reserved for a claim; None for no assumption. Returns what was assumed before."""
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
        capacities = objects.capacities or ()
        self._class_of: dict[str, int] = {}
        classes = [self._class_of.setdefault(each.storage_class, len(self._class_of)) for each in capacities]
        self._classes: Rows = np.array(classes, np.intp)
        largest = [-1 if each.largest is None else min(each.largest, _LARGEST) for each in capacities]
        self._largest = np.array(largest, np.int64)
        topologies = [() if each.topology is None else (each.topology,) for each in capacities]
        self._nodes = LabelIndex(topologies)

    def rows(self, storage_class: str, size: int, facts: NodeFacts, rows: Rows) -> Mask:
        enough = (self._classes == self._class_of.get(storage_class, -1)) & (self._largest >= size)
        roomy = np.zeros(len(rows), np.bool_)
        if enough.any():
            at, numbers = self._nodes.pairs(facts, rows)
            roomy[at[enough[numbers]]] = True
        return roomy


def _put(table: dict[K, V], key: K, value: V | None) -> V | None:
    before = table.pop(key, None)
    if value is not None:
        table[key] = value
    return before
