"""A node can attach so many volumes of a CSI driver (kube-scheduler's NodeVolumeLimits).

Counted are the distinct volumes that the node's pods mount, and those attached to it for whatever reason. A claim that is
not bound yet counts as a volume of its class's provisioner. In-tree volumes count for the driver that attaches them today,
on nodes that have a CSINode.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.particulars import ClaimMount, InlineDisk
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim, CsiNode
from slackwater.simulate.attached import Mount
from slackwater.simulate.kindtable import Numbered
from slackwater.simulate.picture import Picture
from slackwater.simulate.predicates.selection import Selection, all_ok

#: In-tree plug-ins whose volumes a CSI driver attaches, and which driver.
MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
#: In-tree provisioners that are translated, but never attached by CSI as far as this rule goes: they count for nobody.
_UNCOUNTED: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
#: A volume as CSI knows it: driver and handle.
_Handle = tuple[str, str]


def judge_node_volume_limits(picture: Picture, kind: Numbered, rows: Selection) -> Codes:
    codes = all_ok(rows)
    csi_nodes = picture.storage.csi_nodes
    new = set(_handles(picture, _mounts(kind)))
    if not new or not csi_nodes:
        return codes
    drivers = {driver for driver, _ in new}
    for index, row in enumerate(np.arange(picture.n_rows)[rows].tolist()):
        csi_node = csi_nodes.get(picture.facts.nodes[row].name)
        limits = {} if csi_node is None else _limits(csi_node, drivers)
        if limits and _exceeds(new, _attached(picture, row), limits):
            codes[index] = Reason.VOLUME_LIMIT
    return codes


def _exceeds(new: set[_Handle], attached: tuple[set[_Handle], set[_Handle]], limits: dict[str, int]) -> bool:
    mounted, otherwise = attached
    present = Counter(driver for driver, _ in mounted | otherwise)
    more = Counter(driver for driver, _ in new - mounted)
    return any(present[driver] + count > limits[driver] for driver, count in more.items() if driver in limits)


def _limits(csi_node: CsiNode, drivers: set[str]) -> dict[str, int]:
    return {driver: limit for driver, limit in csi_node.drivers if limit is not None and driver in drivers}


def _attached(picture: Picture, row: int) -> tuple[set[_Handle], set[_Handle]]:
    """The volumes that the row's pods mount, and those that are attached to its node."""
    return set(_handles(picture, picture.attached.mounts(row))), _attachments(picture, picture.facts.nodes[row].name)


def _attachments(picture: Picture, node: str) -> set[_Handle]:
    volumes = picture.storage.volumes or {}
    return {
        (attachment.attacher, volume.handle)
        for attachment in picture.storage.attachments_of(node)
        if attachment.attacher
        and attachment.volume is not None
        and (volume := volumes.get(attachment.volume)) is not None
        and volume.driver
        and not volume.plugin
    }


def _mounts(kind: Numbered) -> Iterator[Mount]:
    held: tuple[ClaimMount | InlineDisk, ...] = (*kind.asks.claims, *kind.asks.inline_disks)
    return ((kind.kind.namespace, what) for what in held)


def _handles(picture: Picture, mounts: Iterable[Mount]) -> Iterator[_Handle]:
    claims = picture.storage.claims or {}
    for namespace, held in mounts:
        if not isinstance(held, ClaimMount):
            yield held.driver, held.handle
            continue
        claim = claims.get((namespace, held.claim))
        handle = None if claim is None else _handle(picture, claim)
        if handle is not None:
            yield handle


def _handle(picture: Picture, claim: Claim) -> _Handle | None:
    volume = (picture.storage.volumes or {}).get(claim.volume) if claim.volume else None
    if volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else None
    storage_class = (picture.storage.classes or {}).get(claim.storage_class)
    if storage_class is None or storage_class.provisioner in _UNCOUNTED:
        return None
    provisioner = storage_class.provisioner
    return MIGRATED.get(provisioner, provisioner), f"unbound {claim.namespace}/{claim.name}"
