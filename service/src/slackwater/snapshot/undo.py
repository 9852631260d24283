"""Undo entries: one value for each change of a snapshot within a trial, which says how that change is undone.

`ClusterSnapshot` notes them while a trial is open and undoes them last first. Deliberately absent: which trial a change belongs
to, and the trial itself (`snapshot.cluster_snapshot`).
"""

from typing import TYPE_CHECKING

from slackwater.model.columns import Int64, Rows
from slackwater.model.devices import ClaimKey as DeviceClaimKey
from slackwater.model.devices import ResourceClaim
from slackwater.model.ids import Row
from slackwater.model.objects import Node
from slackwater.model.storage import Claim, Volume
from slackwater.snapshot.device_table import DeviceTable
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.storage_table import ClaimKey, StorageTable

if TYPE_CHECKING:
    from slackwater.snapshot.cluster_snapshot import ClusterSnapshot


class PodsMoved:
    """Pods of an equivalence group were added to a row, or removed if `count` is below 0."""

    __slots__ = ("count", "kind", "row")

    def __init__(self, kind: KindId, row: int, count: int) -> None:
        self.kind, self.row, self.count = kind, row, count

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.shift(self.kind, self.row, -self.count)


class ManyPodsMoved:
    """Pods of an equivalence group were added to many rows, `counts[i]` to `rows[i]`, or removed if the count is below 0."""

    __slots__ = ("counts", "kind", "rows")

    def __init__(self, kind: KindId, rows: Rows, counts: Int64) -> None:
        self.kind, self.rows, self.counts = kind, rows, counts

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.shift_many(self.kind, self.rows, -self.counts)


class YieldingChanged:
    """Pods of these `amounts` (line, amount) became expendable, `counts[i]` on `rows[i]`, or ceased to be if the count is below
    0."""

    __slots__ = ("amounts", "counts", "rows")

    def __init__(self, amounts: tuple[tuple[int, int], ...], rows: Rows, counts: Int64) -> None:
        self.amounts, self.rows, self.counts = amounts, rows, counts

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.shift_yielding(self.amounts, self.rows, -self.counts)


class RowsAdded:
    """Rows were added, from `first` on."""

    __slots__ = ("first",)

    def __init__(self, first: int) -> None:
        self.first = first

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.facts.truncate(self.first)


class NodeChanged:
    """The node object of a row was replaced; it was `before`."""

    __slots__ = ("before", "row")

    def __init__(self, row: Row, before: Node) -> None:
        self.row, self.before = row, before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.facts.put(self.row, self.before)


class LiveSet:
    """A row was opened or closed; `live` is its state before."""

    __slots__ = ("live", "row")

    def __init__(self, row: Row, live: bool) -> None:
        self.row, self.live = row, live

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.facts.set_live(self.row, live=self.live)


class StorageReplaced:
    """The storage table was replaced; it was `before`."""

    __slots__ = ("before",)

    def __init__(self, before: StorageTable) -> None:
        self.before = before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.replace_volumes(self.before)


class ClaimAssumed:
    """The assumption about a claim changed; it was `before` (None: there was none)."""

    __slots__ = ("before", "key")

    def __init__(self, key: ClaimKey, before: Claim | None) -> None:
        self.key, self.before = key, before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.volumes.assume_claim(self.key, self.before)


class VolumeAssumed:
    """The assumption about a volume changed; it was `before` (None: there was none)."""

    __slots__ = ("before", "name")

    def __init__(self, name: str, before: Volume | None) -> None:
        self.name, self.before = name, before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.volumes.assume_volume(self.name, self.before)


class DevicesReplaced:
    """The table of devices was replaced; it was `before`."""

    __slots__ = ("before",)

    def __init__(self, before: DeviceTable) -> None:
        self.before = before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.replace_devices(self.before)


class DeviceClaimPut:
    """The assumed value of a claim of devices changed; it was `before` (None: no claim)."""

    __slots__ = ("before", "key")

    def __init__(self, key: DeviceClaimKey, before: ResourceClaim | None) -> None:
        self.key, self.before = key, before

    def undo(self, snapshot: "ClusterSnapshot") -> None:
        snapshot.change_device_claim(self.key, self.before)


Done = (
    DevicesReplaced
    | DeviceClaimPut
    | StorageReplaced
    | ClaimAssumed
    | VolumeAssumed
    | PodsMoved
    | ManyPodsMoved
    | YieldingChanged
    | RowsAdded
    | NodeChanged
    | LiveSet
)
