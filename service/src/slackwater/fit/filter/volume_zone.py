"""kube-scheduler's VolumeZone: the zone labels of bound volumes must match those of the node. A node without any zone label is
feasible."""

from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np

from slackwater.fit.filter.prefilter_status import Refusal
from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim, Volume
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import ABSENT
from slackwater.snapshot.row_journal import Selection, coded

#: The zone labels, and the present name of each.
_PRESENT_NAME: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_BETWEEN_ZONES: Final = "__"


def refuse_volume_zone(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Refusal | None:
    for claim in _claims(snapshot, kind):
        text = _unknown(snapshot, claim)
        if text is not None:
            return Refusal(Reason.VOLUME_ZONE_UNKNOWN, text)
    return None


def volume_zone_part(snapshot: ClusterSnapshot, kind: NumberedGroup) -> Hashable | None:
    return tuple(_zones_of(snapshot, kind)) or None


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
        if volume is not None:
            yield from _zones(volume)


def _zones(volume: Volume) -> Iterator[tuple[str, frozenset[str]]]:
    for key in _PRESENT_NAME:
        if key in volume.labels:
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
