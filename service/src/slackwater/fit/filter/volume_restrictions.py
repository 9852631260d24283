"""kube-scheduler's VolumeRestrictions: two pods of a node may not mount the same disk, and only one pod may use a
ReadWriteOncePod claim."""

from collections.abc import Hashable, Iterator

import numpy as np

from slackwater.fit.filter.prefilter_status import Refusal
from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.row_journal import Selection
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
