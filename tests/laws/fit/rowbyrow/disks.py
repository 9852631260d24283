"""What a node may mount and attach: disks that are in use, limits of drivers, zones of volumes."""

from collections import Counter
from collections.abc import Iterable

from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import DiskMount
from slackwater.model.reasons import Reason
from slackwater.model.storage import Claim
from tests.laws.fit.rowbyrow.cluster import PlainCluster, asks

_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


def volume_restrictions(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    for disk in asks(pod).disks:
        for other in cluster.on(node):
            if any(_conflict(disk, mounted) for mounted in asks(other).disks):
                return Reason.DISK_CONFLICT
    for claim in _own_names(cluster, pod):
        users = [other for other in cluster.running_pods if claim in _own_names(cluster, other)]
        if "ReadWriteOncePod" in claim.access_modes and users:
            return Reason.CLAIM_IN_USE
    return Reason.OK


def _own_names(cluster: PlainCluster, pod: Pod) -> list[Claim]:
    """Claims that the pod mounts by name; those of its ephemeral volumes are its own."""
    known = cluster.storage.claims or {}
    named = [mount.claim for mount in asks(pod).claims if mount.owner is None]
    return [known[pod.key.namespace, name] for name in named if (pod.key.namespace, name) in known]


def _conflict(one: DiskMount, other: DiskMount) -> bool:
    if (one.source, one.disk) != (other.source, other.disk):
        return False
    if one.source == "rbd" and not set(one.monitors) & set(other.monitors):
        return False
    return one.source == "ebs" or not (one.read_only and other.read_only)


def node_volume_limits(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    csi_node = (cluster.storage.csi_nodes or {}).get(node.name)
    if csi_node is None:
        return Reason.OK
    mounted = {handle for other in cluster.on(node) for handle in _handles(cluster, other)}
    attached = mounted | set(_attachments(cluster, node))
    present, more = _by_driver(attached), _by_driver(set(_handles(cluster, pod)) - mounted)
    for driver, limit in csi_node.drivers:
        if limit is not None and more[driver] and present[driver] + more[driver] > limit:
            return Reason.VOLUME_LIMIT
    return Reason.OK


def _by_driver(handles: Iterable[tuple[str, str]]) -> Counter[str]:
    return Counter(driver for driver, _ in handles)


def _handles(cluster: PlainCluster, pod: Pod) -> Iterable[tuple[str, str]]:
    """Driver and handle of each volume that the pod mounts; a claim without a volume stands for itself."""
    for disk in asks(pod).inline_disks:
        yield disk.driver, disk.handle
    for claim in cluster.claims(pod):
        volume = (cluster.storage.volumes or {}).get(claim.volume)
        storage_class = (cluster.storage.classes or {}).get(claim.storage_class)
        if volume is not None:
            if volume.driver and volume.handle:
                yield volume.driver, volume.handle
        elif storage_class is not None:
            driver = _DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
            if driver not in ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"):
                yield driver, f"{claim.namespace}/{claim.name}"


def _attachments(cluster: PlainCluster, node: Node) -> Iterable[tuple[str, str]]:
    for attachment in cluster.storage.attachments_of(node.name):
        volume = (cluster.storage.volumes or {}).get(attachment.volume or "")
        if volume is not None and volume.driver and not volume.plugin and attachment.attacher:
            yield attachment.attacher, volume.handle


def volume_zone(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    if not any(key in node.labels for key in (*_ZONES, *_REGIONS)):
        return Reason.OK
    volumes = cluster.storage.volumes or {}
    for claim in _own_names(cluster, pod):
        labels = volumes[claim.volume].labels if claim.volume in volumes else {}
        for old, new in (_ZONES, _REGIONS):
            for key in (old, new):
                allowed = [zone.strip() for zone in labels.get(key, "").split("__")]
                if all(allowed) and node.labels.get(key, node.labels.get(new)) not in allowed:
                    return Reason.VOLUME_ZONE
    return Reason.OK
