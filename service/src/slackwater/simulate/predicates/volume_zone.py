"""Zone labels of bound volumes must match the node's (kube-scheduler's VolumeZone). A node without any such label passes."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim, Volume
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.nodefacts import ABSENT
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.refusal import Refusal
from slackwater.simulate.predicates.selection import Selection, coded

#: The labels, and the present name of each.
_PRESENT_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_BETWEEN_ZONES: Final = "__"


def refuse_volume_zone(picture: Picture, kind: Numbered) -> Refusal | None:
    for claim in _claims(picture, kind):
        text = _unknown(picture, claim)
        if text is not None:
            return Refusal(Reason.VOLUME_ZONE_UNKNOWN, text)
    return None


def judge_volume_zone(picture: Picture, kind: Numbered, rows: Selection) -> Codes:
    labelled = np.zeros(picture.n_rows, np.bool_)
    for key in _PRESENT_NAME:
        labelled |= picture.facts.label(key).ids[: picture.n_rows] != ABSENT
    matching = np.ones(picture.n_rows, np.bool_)
    for key, zones in zones_of(picture, kind):
        column, present = picture.facts.label(key), picture.facts.label(_PRESENT_NAME[key])
        ids = column.ids[: picture.n_rows]
        by_key = np.isin(ids, [n for zone in zones if (n := column.known(zone)) != ABSENT])
        by_present = np.isin(present.ids[: picture.n_rows], [n for z in zones if (n := present.known(z)) != ABSENT])
        matching &= np.where(ids == ABSENT, by_present, by_key)
    return coded((labelled & ~matching)[rows], Reason.VOLUME_ZONE)


def zones_of(picture: Picture, kind: Numbered) -> list[tuple[str, frozenset[str]]]:
    """(label, zones allowed) of every bound volume of the pod."""
    volumes = picture.storage.volumes or {}
    bound = [volumes[claim.volume] for claim in _claims(picture, kind) if claim.volume in volumes]
    return [found for volume in bound for found in _zones(volume)]


def _zones(volume: Volume) -> Iterator[tuple[str, frozenset[str]]]:
    for key in _PRESENT_NAME:
        if key in volume.labels:
            zones = [zone.strip() for zone in volume.labels[key].split(_BETWEEN_ZONES)]
            if all(zones):
                yield key, frozenset(zones)


def _claims(picture: Picture, kind: Numbered) -> list[Claim]:
    claims = picture.storage.claims or {}
    keys = [(kind.kind.namespace, mount.claim) for mount in kind.asks.claims if mount.owner is None]
    return [claims[key] for key in keys if key in claims]


def _unknown(picture: Picture, claim: Claim) -> str | None:
    storage = picture.storage
    if claim.volume:
        missing = storage.volumes is not None and claim.volume not in storage.volumes
        return f'persistentvolume "{claim.volume}" not found' if missing else None
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if storage.classes is None:
        return None
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    return None if storage_class.binding_mode == "WaitForFirstConsumer" else "PersistentVolume had no name"
