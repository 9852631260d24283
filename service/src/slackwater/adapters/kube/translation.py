"""Translates in-tree volumes to the CSI drivers that replaced them, as k8s.io/csi-translation-lib v0.36.3 does.

The result has driver, handle, and the node affinity in the driver's topology key. kube-scheduler treats a bound volume like
this on nodes whose kubelet has migrated the plug-in to CSI.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from slackwater.adapters.kube.structs import InTreeDisksWire
from slackwater.model.objects import REGION, ZONE
from slackwater.model.pod_constraints import InlineDisk, NodeSelectorTerm
from slackwater.model.selectors import Requirement

_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_BETWEEN_ZONES: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
#: The topology keys, of the drivers that have one.
_KEYS: Final = {
    "kubernetes.io/aws-ebs": "topology.ebs.csi.aws.com/zone",
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
}
_Terms = tuple[NodeSelectorTerm, ...] | None


def in_tree_disks(volume: InTreeDisksWire, labels: Mapping[str, str]) -> Iterator[InlineDisk]:
    """The in-tree disks of the volume, as CSI drivers attach them. `labels` are those of a PersistentVolume."""
    if (ebs := volume.aws_elastic_block_store) is not None:
        handle = ebs.volume_id.rpartition("/")[2]  # vol-1 in `aws://zone/vol-1`
        yield InlineDisk(plugin="kubernetes.io/aws-ebs", driver="ebs.csi.aws.com", handle=handle)
    if (gce := volume.gce_persistent_disk) is not None:
        handle = _gce_handle(gce.pd_name, labels)
        yield InlineDisk(plugin="kubernetes.io/gce-pd", driver="pd.csi.storage.gke.io", handle=handle)
    if (azure := volume.azure_disk) is not None:
        yield InlineDisk(plugin="kubernetes.io/azure-disk", driver="disk.csi.azure.com", handle=azure.disk_uri)
    if (cinder := volume.cinder) is not None:
        yield InlineDisk(plugin="kubernetes.io/cinder", driver="cinder.csi.openstack.org", handle=cinder.volume_id)
    if (portworx := volume.portworx_volume) is not None:
        yield InlineDisk(plugin="kubernetes.io/portworx-volume", driver="pxd.portworx.com", handle=portworx.volume_id)


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    """The CSI handle of a GCE disk, with its zone, or with the region if the label names several zones.

    The handle is empty if these zones are in different regions.
    """
    zones = (labels.get(_BETA_ZONE) or labels.get(ZONE, "")).split(_BETWEEN_ZONES)
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{name}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}" if len(regions) == 1 else ""


def migrated_terms(plugin: str, terms: _Terms, labels: Mapping[str, str]) -> _Terms:
    """The node affinity of an in-tree volume, in the terms of its CSI driver."""
    key = _KEYS.get(plugin)
    if key is None:
        return terms
    zone, region = _labels_in_use(terms, labels)
    if _values(terms, zone):
        terms = _renamed(terms, zone, key)
    elif zone in labels:
        zones = sorted({found for part in labels[zone].split(_BETWEEN_ZONES) if (found := part.strip())})
        if zones:
            added = Requirement(key, "In", tuple(zones))
            empty = NodeSelectorTerm((), ())
            terms = tuple(replace(term, labels=(*term.labels, added)) for term in terms or (empty,))
    return _renamed(terms, region, REGION) if region == _BETA_REGION and _values(terms, region) else terms


def _labels_in_use(terms: _Terms, labels: Mapping[str, str]) -> tuple[str, str]:
    """The zone and region labels that the volume uses: the present or the deprecated ones."""
    present, beta = (ZONE, REGION), (_BETA_ZONE, _BETA_REGION)
    keys = {requirement.key for term in terms or () for requirement in term.labels}
    for found in (keys, labels):
        if ZONE in found:
            return present
        if _BETA_ZONE in found:
            return beta
    return present


def _values(terms: _Terms, key: str) -> list[str]:
    return [v for term in terms or () for r in term.labels if r.key == key for v in r.values]


def _renamed(terms: _Terms, old: str, new: str) -> _Terms:
    def of(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
        return tuple(replace(r, key=new) if r.key == old else r for r in requirements)

    return None if terms is None else tuple(replace(term, labels=of(term.labels)) for term in terms)
