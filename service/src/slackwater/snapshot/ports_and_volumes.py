"""What pods take of a node besides amounts of resources: host ports, in-line disks, claims, and volumes of each CSI driver.

- `PortsAndVolumes`: ports, disks and mounts by row. Few pods have any, so dictionaries suffice.
- `VolumeCounts`: the number of attached volumes of each driver, as columns that follow the pods of the snapshot.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.objects import Node
from slackwater.model.pod_constraints import EVERY_ADDRESS, ClaimMount, DiskMount, HostPort, InlineDisk
from slackwater.model.storage import Claim
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup
from slackwater.snapshot.storage_table import StorageTable

if TYPE_CHECKING:
    from slackwater.snapshot.cluster_snapshot import ClusterSnapshot

#: A claim's key: namespace and name.
ClaimKey = tuple[str, str]
Mount = tuple[str, ClaimMount | InlineDisk]  #: the namespace, and what is mounted


class PortsAndVolumes:
    """The ports, disks and mounts that pods take, by row. Pods may share a claim or a read-only disk, so each entry has a
    count.
    """

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        self._disks: dict[tuple[str, tuple[str, ...]], dict[DiskMount, dict[int, int]]] = {}
        #: How many mounts each claim has in the whole cluster; claims of ephemeral volumes are not counted.
        self._users: dict[ClaimKey, int] = {}
        self._mounts: dict[int, dict[Mount, int]] = {}

    def change(self, numbered: NumberedGroup, row: int, count: int) -> None:
        """Adds `count` pods of an equivalence group to the row; removes pods if `count` is negative."""
        asks, namespace = numbered.asks, numbered.kind.namespace
        for port in asks.host_ports:
            add_to(self._ports.setdefault((port.protocol, port.port), {}).setdefault(port.ip, {}), row, count)
        for disk in asks.disks:
            add_to(self._disks.setdefault((disk.source, disk.disk), {}).setdefault(disk, {}), row, count)
        for mount in asks.claims:
            if mount.owner is None:
                add_to(self._users, (namespace, mount.claim), count)
        for held in (*asks.claims, *asks.inline_disks):
            add_to(self._mounts.setdefault(row, {}), (namespace, held), count)

    def rows_with_port(self, wanted: HostPort) -> Iterator[int]:
        """Rows where a pod has a host port that conflicts with this one."""
        for ip, rows in self._ports.get((wanted.protocol, wanted.port), {}).items():
            if EVERY_ADDRESS in (ip, wanted.ip) or ip == wanted.ip:
                yield from rows

    def rows_with_disk(self, wanted: DiskMount) -> Iterator[int]:
        """Rows where a pod mounts the same disk in a way that forbids this mount."""
        for disk, rows in self._disks.get((wanted.source, wanted.disk), {}).items():
            shared = not disk.monitors or not set(disk.monitors).isdisjoint(wanted.monitors)
            if shared and (wanted.exclusive or not (disk.read_only and wanted.read_only)):
                yield from rows

    def users_of(self, claim: ClaimKey) -> int:
        return self._users.get(claim, 0)

    def counts(self, row: int) -> Iterable[tuple[Mount, int]]:
        """The mounts of a row's pods, with the number of pods that have each."""
        return self._mounts.get(row, {}).items()


def add_to(counts: dict[Any, int], key: object, count: int) -> None:
    """Adds to a count; a count of 0 is left out."""
    total = counts.get(key, 0) + count
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)


#: The CSI identity of a volume: driver and handle.
Handle = tuple[str, str]


class NeededDriver(NamedTuple):
    """A CSI driver that attaches volumes of a pod. `migrated`: all of these volumes are in-tree volumes."""

    driver: str
    migrated: bool


#: The value in a column of limits that means no limit.
NO_LIMIT: Final = np.iinfo(np.int64).max
#: In-tree plug-ins whose volumes a CSI driver attaches, and that driver.
_MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
#: Until 1.35 the volumes of this in-tree plug-in count for the CSI driver only on nodes whose CSINode names the plug-in as
#: migrated. So they are counted apart, under the plug-in's name.
PORTWORX: Final = "kubernetes.io/portworx-volume"
PORTWORX_DRIVER: Final = _MIGRATED[PORTWORX]
#: In-tree provisioners that Kubernetes translates to CSI, but whose volumes kube-scheduler does not count for a driver.
_UNCOUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})


class VolumeCounts:
    """The volumes of each CSI driver that are attached to each node, for one snapshot.

    A column counts the distinct volumes that the node's pods mount, and those attached to the node for any reason. A claim that
    is not bound yet counts as a volume of its class's provisioner. In-tree volumes count for the driver that attaches them
    today. The columns are built when a predicate first reads them; until then pods cost nothing here. The snapshot reports
    every pod that comes or goes; the nodes' journal shows which nodes changed.
    """

    def __init__(self, snapshot: "ClusterSnapshot") -> None:
        self._snapshot = snapshot
        #: Whether volumes of Portworx' in-tree plug-in are counted apart from those of its CSI driver.
        self.portworx_apart: Final = not snapshot.follows(Rule.PORTWORX_MIGRATED)
        self._table: StorageTable = snapshot.volumes
        self._of_kind: dict[KindId, tuple[Handle, ...]] = {}
        #: The rows whose pods mount a volume, and how many of their pods do.
        self._mounted: dict[Handle, dict[int, int]] = {}
        #: The volumes attached to each row that has any.
        self._attached: dict[int, frozenset[Handle]] = {}
        self._present: dict[str, Int64] = {}
        self._limits: dict[str, Int64] = {}
        #: The nodes that the columns are based on.
        self._nodes: list[Node] = []
        self._position = -1
        for row in range(snapshot.n_rows):
            for mount, pods in snapshot.attached.counts(row):
                handle = self._handle_of(*mount)
                if handle is not None:
                    rows = self._mounted.setdefault(handle, {})
                    rows[row] = rows.get(row, 0) + pods
        for driver in {driver for driver, _ in self._mounted}:
            self._column(self._present, driver, 0)
        for (driver, _), rows in self._mounted.items():
            self._present[driver][list(rows)] += 1

    def handles(self, kind: NumberedGroup) -> frozenset[Handle]:
        """The volumes that a pod of the equivalence group mounts."""
        return frozenset(self._mounted_by(kind))

    def drivers(self, kind: NumberedGroup) -> tuple[NeededDriver, ...]:
        """The drivers that attach the volumes of a pod of the equivalence group, by name."""
        migrated: dict[str, bool] = {}
        mounts: tuple[ClaimMount | InlineDisk, ...] = (*kind.asks.claims, *kind.asks.inline_disks)
        for held in mounts:
            handle = self._handle_of(kind.kind.namespace, held)
            if handle is not None:
                migrated[handle[0]] = migrated.get(handle[0], True) and self._is_in_tree(kind.kind.namespace, held)
        return tuple(NeededDriver(driver, migrated[driver]) for driver in sorted(migrated))

    def _is_in_tree(self, namespace: str, held: ClaimMount | InlineDisk) -> bool:
        if not isinstance(held, ClaimMount):
            return True
        claim = self._table.claim((namespace, held.claim))
        if claim is None:
            return False
        volume = self._table.volume(claim.volume) if claim.volume else None
        if volume is not None:
            return bool(volume.plugin)
        storage_class = self._table.storage_class(claim.storage_class)
        return storage_class is not None and storage_class.provisioner in _MIGRATED

    def rows_mounting(self, handle: Handle) -> Iterable[int]:
        return self._mounted.get(handle, {}).keys()

    def present(self, driver: str) -> Int64:
        """How many volumes of the driver each node has attached, shape (capacity,). Callers must not write to the array, nor
        keep it: it changes with the next pod."""
        self._renew()
        return self._column(self._present, driver, 0)

    def limits(self, driver: str) -> Int64:
        """How many volumes of the driver each node may have attached; `NO_LIMIT` for a node without a limit. The shape is
        (capacity,), so rows that are not in use are included."""
        self._renew()
        return self._column(self._limits, driver, NO_LIMIT)

    def portworx_migrated(self, rows: Rows) -> Mask:
        """Which of `rows` have a node whose CSINode names Portworx' in-tree plug-in as migrated."""
        found = (self._table.csi_node(self._snapshot.facts.nodes[row]) for row in rows.tolist())
        return np.array([node is not None and PORTWORX in node.migrated for node in found], np.bool_)

    def change(self, kind: NumberedGroup, row: int, count: int) -> None:
        """Adds `count` pods of the equivalence group to the row; removes pods if `count` is negative."""
        for handle in self._mounted_by(kind):
            rows = self._mounted.setdefault(handle, {})
            before = rows.get(row, 0)
            after = before + count
            add_to(rows, row, count)
            if bool(before) != bool(after) and handle not in self._attached.get(row, ()):
                self._column(self._present, handle[0], 0)[row] += 1 if after else -1

    def _column(self, columns: dict[str, Int64], driver: str, fill: int) -> Int64:
        capacity = self._snapshot.facts.capacity
        column = columns.get(driver)
        if column is None or len(column) < capacity:
            known = np.zeros(0, np.int64) if column is None else column
            column = columns[driver] = np.full(capacity, fill, np.int64)
            column[: len(known)] = known
        return column

    def _renew(self) -> None:
        """Updates the columns for nodes that changed: their attached volumes and their limits."""
        facts = self._snapshot.facts
        if self._position == facts.journal.position and len(self._nodes) == facts.n_rows:
            return
        changed = None if self._position < 0 else facts.journal.since(self._position, at_most=facts.n_rows)
        rows = range(facts.n_rows) if changed is None else changed.tolist()
        self._position = facts.journal.position
        first_new = min(len(self._nodes), facts.n_rows)
        del self._nodes[facts.n_rows :]
        self._nodes += facts.nodes[first_new:]
        for row in {*rows, *range(first_new, facts.n_rows)}:
            if row < facts.n_rows:
                self._nodes[row] = facts.nodes[row]
                self._renew_row(row, facts.nodes[row])

    def _renew_row(self, row: int, node: Node) -> None:
        csi_node = self._table.csi_node(node)
        for column in self._limits.values():
            column[row : row + 1] = NO_LIMIT
        for driver, limit in () if csi_node is None else csi_node.drivers:
            if limit is not None:
                self._column(self._limits, driver, NO_LIMIT)[row] = min(limit, NO_LIMIT)
        attached = frozenset(
            (attachment.attacher, volume.handle)
            for attachment in self._table.objects.attachments_of(node.name)
            if attachment.attacher
            and (volume := None if attachment.volume is None else self._table.volume(attachment.volume)) is not None
            and volume.driver
            and not volume.plugin
        )
        before = self._attached.get(row, frozenset())
        if attached == before:
            return
        for handle in attached ^ before:
            if row not in self._mounted.get(handle, ()):
                self._column(self._present, handle[0], 0)[row] += 1 if handle in attached else -1
        if attached:
            self._attached[row] = attached
        else:
            del self._attached[row]

    def _mounted_by(self, kind: NumberedGroup) -> tuple[Handle, ...]:
        """The volume of each mount of a pod of the group; a volume that is mounted twice occurs twice. Cached, since no
        assumption changes which volume a claim counts as."""
        found = self._of_kind.get(kind.id)
        if found is None:
            mounts: tuple[ClaimMount | InlineDisk, ...] = (*kind.asks.claims, *kind.asks.inline_disks)
            handles = (self._handle_of(kind.kind.namespace, held) for held in mounts)
            found = self._of_kind[kind.id] = tuple(handle for handle in handles if handle is not None)
        return found

    def _handle_of(self, namespace: str, held: ClaimMount | InlineDisk) -> Handle | None:
        if not isinstance(held, ClaimMount):
            return self._driver_of(held.plugin, held.driver), held.handle
        claim = self._table.claim((namespace, held.claim))
        return None if claim is None else self._handle_of_claim(claim)

    def _driver_of(self, plugin: str, driver: str) -> str:
        return PORTWORX if plugin == PORTWORX and self.portworx_apart else driver

    def _handle_of_claim(self, claim: Claim) -> Handle | None:
        volume = self._table.volume(claim.volume) if claim.volume else None
        if volume is not None:
            driver = self._driver_of(volume.plugin, volume.driver)
            return (driver, volume.handle) if driver and volume.handle else None
        storage_class = self._table.storage_class(claim.storage_class)
        if storage_class is None or storage_class.provisioner in _UNCOUNTED:
            return None
        provisioner = storage_class.provisioner
        driver = self._driver_of(provisioner, _MIGRATED.get(provisioner, provisioner))
        return driver, f"unbound {claim.namespace}/{claim.name}"
