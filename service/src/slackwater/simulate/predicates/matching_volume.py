"""Which of the volumes that exist a claim would be bound to on a node: the one reserved for it, else the smallest that fits."""

from collections.abc import Mapping, Sequence

from slackwater.model.selectors import selects
from slackwater.model.storage import Claim, Volume


def find_volume(claim: Claim, volumes: Sequence[Volume], reached: Mapping[str, bool], taken: set[str]) -> Volume | None:
    """`reached` says which volumes the node reaches; those in `taken` are promised to other claims of the pod.

    Of equally small volumes the first in order of the given sequence; kube-scheduler's order is not fixed.
    """
    best: Volume | None = None
    for volume in volumes:
        if volume.storage_class != claim.storage_class or volume.name in taken or not _may_hold(claim, volume):
            continue
        if _is_reserved_for(volume, claim):
            return volume if reached[volume.name] else None
        fits = volume.phase == "Available" and reached[volume.name] and _suits(claim, volume)
        if fits and (best is None or volume.capacity < best.capacity):
            best = volume
    return best


def _may_hold(claim: Claim, volume: Volume) -> bool:
    if volume.deleting or (volume.claim is not None and not _is_reserved_for(volume, claim)):
        return False
    same = volume.mode == claim.mode and volume.attributes_class == claim.attributes_class
    return same and volume.capacity >= (claim.size or 0)


def _suits(claim: Claim, volume: Volume) -> bool:
    selected = not claim.has_selector or selects(claim.selector, volume.labels)
    return selected and set(claim.access_modes) <= set(volume.access_modes)


def _is_reserved_for(volume: Volume, claim: Claim) -> bool:
    ref = volume.claim
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return ref.uid in ("", claim.uid)
