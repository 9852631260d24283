"""kube-scheduler's plug-ins for volumes that judge more than the binding: VolumeRestrictions, NodeVolumeLimits and VolumeZone.

- VolumeRestrictions: two pods of a node may not mount the same disk, and only one pod may use a ReadWriteOncePod claim.
- NodeVolumeLimits: a node can attach a limited number of volumes of each CSI driver, and none of a driver that the node lacks
  (`Rule.VOLUME_LIMIT_SCALING`). `snapshot.ports_and_volumes` defines what counts as a volume. Pods share one answer if none of
  their volumes is mounted yet and they have the same number of volumes of each driver.
- VolumeZone: the zone labels of bound volumes must match those of the node. A node without any zone label is feasible.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import numpy as np

from slackwater.fit.plugins import Predicate, Refusal
from slackwater.model.columns import Codes, Int64, Mask, Rows
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import Rule
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT
from slackwater.snapshot.ports_and_volumes import NO_LIMIT, PORTWORX, PORTWORX_DRIVER, Handle, NeededDriver, VolumeCounts
from slackwater.snapshot.row_journal import Selection, coded
from slackwater.snapshot.storage_table import ClaimKey

_ONE_POD = "ReadWriteOncePod"


def refuse_volume_restrictions(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    if snapshot.volumes.objects.claims is None:
        return None
    for mount in kind.asks.claims:
        if mount.owner is None and snapshot.volumes.claim((kind.kind.namespace, mount.claim)) is None:
            return Refusal(Reason.CLAIM_NOT_FOUND, f'persistentvolumeclaim "{mount.claim}" not found')
    return None


def volume_restrictions_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    """What the predicate reads of a pod of the group, as the key of cached verdicts: claims that only one pod may use, and
    in-line disks. None if the pod has neither."""
    claims = tuple(_read_write_once_pod_claims(snapshot, kind))
    return (claims, kind.asks.disks) if claims or kind.asks.disks else None


def judge_volume_restrictions(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    codes = np.zeros(snapshot.n_rows, np.uint8)
    if any(snapshot.attached.users_of(key) > 0 for key in _read_write_once_pod_claims(snapshot, kind)):
        codes[:] = Reason.CLAIM_IN_USE
    for disk in kind.asks.disks:
        codes[[row for row in snapshot.attached.rows_with_disk(disk) if row < snapshot.n_rows]] = Reason.DISK_CONFLICT
    return codes[rows]


def _read_write_once_pod_claims(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Iterator[ClaimKey]:
    for mount in kind.asks.claims:
        key = (kind.kind.namespace, mount.claim)
        claim = None if mount.owner is not None else snapshot.volumes.claim(key)
        if claim is not None and _ONE_POD in claim.access_modes:
            yield key


def volume_limits_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    """What the predicate reads of a pod of the group, as the key of cached verdicts: equal parts have equal verdicts on every
    row. None if no limit applies to the pod."""
    if not (kind.asks.claims or kind.asks.inline_disks):
        return None
    counts = snapshot.volume_counts
    new = counts.handles(kind)
    if not new:
        return None
    part: Hashable = tuple(sorted(_by_driver(new).items()))
    if any(counts.rows_mounting(handle) for handle in new):
        part = new
    needed = _needed_drivers(snapshot, kind)
    return (part, needed) if needed else part


def judge_node_volume_limits(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    counts = snapshot.volume_counts
    wanted = np.arange(snapshot.n_rows)[rows]
    new = counts.handles(kind)
    exceeded = _exceeded(counts, _by_driver(new), wanted)
    mounting = {row for handle in new for row in counts.rows_mounting(handle)}
    for at in np.flatnonzero(np.isin(wanted, list(mounting))).tolist() if mounting else ():
        row = int(wanted[at])
        more = (handle for handle in new if row not in counts.rows_mounting(handle))
        exceeded[at] = _exceeded(counts, _by_driver(more), wanted[at : at + 1])[0]
    codes = coded(exceeded, Reason.VOLUME_LIMIT)
    for needed in _needed_drivers(snapshot, kind):
        codes[_lacking(snapshot, needed, wanted)] = Reason.CSI_DRIVER_MISSING
    return codes


def sets_within_limits(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Rows) -> Int64 | None:
    """How many sets of new volumes like those of the pod each of `rows` may attach; None if no limit applies to them."""
    counts = snapshot.volume_counts
    found: Int64 = np.full(len(rows), NO_LIMIT, np.int64)
    for driver, count in _by_driver(counts.handles(kind)).items():
        if counts.portworx_apart and driver in (PORTWORX, PORTWORX_DRIVER):
            return np.zeros(len(rows), np.int64)  # its limit depends on the node: nothing is known beforehand
        limits = counts.limits(driver)[rows]
        np.minimum(found, (limits - counts.present(driver)[rows]) // count, out=found, where=limits != NO_LIMIT)
    return None if (found == NO_LIMIT).all() else found


def missing_driver_text(snapshot: ClusterSnapshot, kind: NumberedGroup, row: Row) -> str:
    """kube-scheduler's message for a row that lacks a driver. If several drivers are missing it names the first by name, where
    kube-scheduler names any."""
    rows = np.array([row], np.intp)
    lacking = (needed.driver for needed in _needed_drivers(snapshot, kind) if _lacking(snapshot, needed, rows)[0])
    return f"{next(lacking, '')} {Reason.CSI_DRIVER_MISSING.text}"


def _needed_drivers(snapshot: ClusterSnapshot, kind: NumberedGroup) -> tuple[NeededDriver, ...]:
    """The drivers that a node must have for the pod's volumes, sorted by name; empty if the objects that say so are not
    read."""
    storage = snapshot.volumes.objects
    if not snapshot.follows(Rule.VOLUME_LIMIT_SCALING) or not storage.drivers or storage.csi_nodes is None:
        return ()
    every = not snapshot.follows(Rule.CSI_DRIVER_OPTS_IN)
    known = {name for name, driver in storage.drivers.items() if every or driver.needed}
    return tuple(needed for needed in snapshot.volume_counts.drivers(kind) if needed.driver in known)


def _lacking(snapshot: ClusterSnapshot, needed: NeededDriver, rows: Rows) -> Mask:
    """Which of `rows` have a node without the driver. On a node without a CSINode in-tree volumes do not need the driver."""

    def lacks(row: int) -> bool:
        csi_node = snapshot.volumes.csi_node(snapshot.facts.nodes[row])
        if csi_node is None:
            return not needed.migrated
        return all(name != needed.driver for name, _ in csi_node.drivers)

    return np.array([lacks(row) for row in rows.tolist()], np.bool_)


def _exceeded(counts: VolumeCounts, more: Counter[str], rows: Rows) -> Mask:
    """Which of `rows` would exceed the limit of some driver with `more` volumes (a number for each driver)."""
    exceeded = np.zeros(len(rows), np.bool_)
    for driver, count in more.items():
        if driver != PORTWORX:
            exceeded |= counts.present(driver)[rows] > counts.limits(driver)[rows] - count
    if counts.portworx_apart and (more[PORTWORX] or more[PORTWORX_DRIVER]):
        present = counts.present(PORTWORX)[rows] + counts.present(PORTWORX_DRIVER)[rows]
        room = counts.limits(PORTWORX_DRIVER)[rows] - more[PORTWORX] - more[PORTWORX_DRIVER]
        exceeded |= counts.portworx_migrated(rows) & (present > room)
    return exceeded


def _by_driver(handles: Iterable[Handle]) -> Counter[str]:
    return Counter(driver for driver, _ in handles)


#: The zone labels, and the present name of each.
_PRESENT_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_BETWEEN_ZONES: Final = "__"


def refuse_volume_zone(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    texts = (_unknown(snapshot, claim) for claim in _claims(snapshot, kind))
    return next((Refusal(Reason.VOLUME_ZONE_UNKNOWN, text) for text in texts if text is not None), None)


def judge_volume_zone(snapshot: ClusterSnapshot, kind: NumberedGroup, rows: Selection) -> Codes:
    n_rows = snapshot.n_rows
    labelled = np.zeros(n_rows, np.bool_)[rows]
    for key in _PRESENT_NAME:
        labelled |= snapshot.facts.label(key).ids[:n_rows][rows] != ABSENT
    matching = np.ones(n_rows, np.bool_)[rows]
    for key, zones in _zones_of(snapshot, kind):
        column, present = snapshot.facts.label(key), snapshot.facts.label(_PRESENT_NAME[key])
        ids, present_ids = column.ids[:n_rows][rows], present.ids[:n_rows][rows]
        by_key = np.isin(ids, [n for zone in zones if (n := column.known(zone)) != ABSENT])
        by_present = np.isin(present_ids, [n for z in zones if (n := present.known(z)) != ABSENT])
        matching &= np.where(ids == ABSENT, by_present, by_key)
    return coded(labelled & ~matching, Reason.VOLUME_ZONE)


def _zones_of(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Iterator[tuple[str, frozenset[str]]]:
    """(label, allowed zones) for each zone label of the pod's bound volumes."""
    for claim in _claims(snapshot, kind):
        volume = snapshot.volumes.volume(claim.volume)
        for key in _PRESENT_NAME if volume is not None else ():
            if volume is not None and key in volume.labels:
                zones = [zone.strip() for zone in volume.labels[key].split(_BETWEEN_ZONES)]
                if all(zones):
                    yield key, frozenset(zones)


def _claims(snapshot: ClusterSnapshot, kind: NumberedGroup) -> list[Claim]:
    namespace = kind.kind.namespace
    named = (snapshot.volumes.claim((namespace, mount.claim)) for mount in kind.asks.claims if mount.owner is None)
    return [claim for claim in named if claim is not None]


def _unknown(snapshot: ClusterSnapshot, claim: Claim) -> str | None:
    known = snapshot.volumes.objects
    if claim.volume:
        missing = known.volumes is not None and snapshot.volumes.volume(claim.volume) is None
        return f'persistentvolume "{claim.volume}" not found' if missing else None
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if known.classes is None:
        return None
    if snapshot.volumes.storage_class(claim.storage_class) is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return None if snapshot.volumes.waits(claim) else "PersistentVolume had no name"


VOLUME_RESTRICTIONS: Final = Predicate(
    name="VolumeRestrictions",
    part=volume_restrictions_part,
    judge=judge_volume_restrictions,
    reads="anywhere",
    stamp=lambda snapshot, _: (snapshot.attached_version,),
    refuse=refuse_volume_restrictions,
)
NODE_VOLUME_LIMITS: Final = Predicate(
    name="NodeVolumeLimits", part=volume_limits_part, judge=judge_node_volume_limits, reads="room"
)
VOLUME_ZONE: Final = Predicate(
    name="VolumeZone",
    part=lambda snapshot, kind: tuple(_zones_of(snapshot, kind)) or None,
    judge=judge_volume_zone,
    reads="facts",
    refuse=refuse_volume_zone,
)
