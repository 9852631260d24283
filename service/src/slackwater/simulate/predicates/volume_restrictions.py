"""A disk may be on one node only, a ReadWriteOncePod claim with one pod only (kube-scheduler's VolumeRestrictions)."""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.refusal import Refusal
from slackwater.simulate.predicates.selection import Selection

_ONE_POD = "ReadWriteOncePod"


def refuse_volume_restrictions(picture: Picture, kind: Numbered) -> Refusal | None:
    claims = picture.storage.claims
    if claims is None:
        return None
    for mount in kind.asks.claims:
        if mount.owner is None and (kind.kind.namespace, mount.claim) not in claims:
            return Refusal(Reason.CLAIM_NOT_FOUND, f'persistentvolumeclaim "{mount.claim}" not found')
    return None


def judge_volume_restrictions(picture: Picture, kind: Numbered, rows: Selection) -> Codes:
    codes = np.zeros(picture.n_rows, np.uint8)
    if _claim_in_use(picture, kind):
        codes[:] = Reason.CLAIM_IN_USE
    for disk in kind.asks.disks:
        codes[[row for row in picture.attached.rows_with_disk(disk) if row < picture.n_rows]] = Reason.DISK_CONFLICT
    return codes[rows]


def _claim_in_use(picture: Picture, kind: Numbered) -> bool:
    claims = picture.storage.claims or {}
    keys = [(kind.kind.namespace, mount.claim) for mount in kind.asks.claims if mount.owner is None]
    return any(
        (claim := claims.get(key)) is not None and _ONE_POD in claim.access_modes and picture.attached.users_of(key) > 0
        for key in keys
    )
