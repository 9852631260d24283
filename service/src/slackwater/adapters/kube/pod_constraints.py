"""Decodes the constraints that only some pods have: ports, spread, pod affinity, volumes, and parts that are
not supported yet."""

from collections.abc import Iterable
from typing import Final

from slackwater.adapters.kube.affinities import Affinities, pod_terms, reads_labels, spread_constraints
from slackwater.adapters.kube.ask import Ask
from slackwater.adapters.kube.translation import ebs_handle, gce_handle
from slackwater.adapters.kube.wire import ContainerWire, PodWire, VolumeWire
from slackwater.model.objects import Labels
from slackwater.model.pod_constraints import (
    EVERY_ADDRESS,
    NO_POD_CONSTRAINTS,
    ClaimMount,
    DiskMount,
    HostPort,
    InlineDisk,
    PodConstraints,
)

_NO_NAMES: Final = ((), (), ())
_RESTART_ALL: Final = "RestartAllContainers"


def pod_constraints(wire: PodWire, namespace: str, labels: Labels, affinities: Affinities, ask: Ask) -> PodConstraints | None:
    """The constraints of a pod; None if it has none. Raises ValueError for invalid quantities."""
    spec = wire.spec
    terms = None
    if affinities.together is not None or affinities.apart is not None:
        terms = pod_terms(bytes(spec.affinity), namespace, labels if reads_labels(affinities) else ())
    claims, disks, inline = _volumes(wire) if spec.volumes else _NO_NAMES
    found = PodConstraints(
        scalars=ask.scalars(),
        scored=ask.scored(),
        scored_before=ask.scored_before(),
        image_volumes=tuple(v.image.reference for v in spec.volumes or () if v.image is not None),
        host_ports=_host_ports(wire),
        spread=spread_constraints(bytes(spec.topology_spread_constraints), labels),
        affinity=terms.affinity if terms else (),
        anti_affinity=terms.anti_affinity if terms else (),
        preferred_pods=terms.preferred if terms else (),
        preferred_nodes=affinities.preferred_nodes,
        claims=claims,
        disks=disks,
        inline_disks=inline,
        features=_features(wire),
        resource_claims=tuple(claim.name for claim in spec.resource_claims or ()),
    )
    return None if found == NO_POD_CONSTRAINTS else found


def images(wire: PodWire) -> tuple[str, ...]:
    """The images of all containers, init containers first."""
    spec = wire.spec
    return tuple(c.image for c in (*(spec.init_containers or ()), *(spec.containers or ())))


def _host_ports(wire: PodWire) -> tuple[HostPort, ...]:
    """The host ports of containers that run as long as the pod does: apps and sidecars."""
    spec = wire.spec
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    found = [port for container in (*sidecars, *(spec.containers or ())) for port in container.ports or ()]
    return tuple(HostPort(p.host_ip or EVERY_ADDRESS, p.protocol or "TCP", p.host_port) for p in found if p.host_port > 0)


def _features(wire: PodWire) -> tuple[str, ...]:
    """The kubelet features that the node has to declare (k8s.io/component-helpers/nodedeclaredfeatures v0.36.3)."""
    spec = wire.spec
    found = []
    if _restarts_all((*(spec.containers or ()), *(spec.init_containers or ()))):
        found.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        found.append("UserNamespacesHostNetworkSupport")
    return tuple(found)


def _restarts_all(containers: Iterable[ContainerWire]) -> bool:
    return any(rule.action == _RESTART_ALL for container in containers for rule in container.restart_policy_rules or ())


def _volumes(wire: PodWire) -> tuple[tuple[ClaimMount, ...], tuple[DiskMount, ...], tuple[InlineDisk, ...]]:
    claims: list[ClaimMount] = []
    disks: list[DiskMount] = []
    inline: list[InlineDisk] = []
    for volume in wire.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimMount(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            meta = wire.metadata
            claims.append(ClaimMount(f"{meta.name}-{volume.name}", owner=meta.uid, pod=meta.name))
        else:
            disks.extend(_disk(volume))
            inline.extend(_inline(volume))
    return tuple(claims), tuple(disks), tuple(inline)


def _disk(volume: VolumeWire) -> Iterable[DiskMount]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield DiskMount(source="gce", disk=(gce.pd_name,), read_only=gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield DiskMount(source="ebs", disk=(ebs.volume_id,), exclusive=True)
    if (iscsi := volume.iscsi) is not None:
        yield DiskMount(source="iscsi", disk=(iscsi.iqn,), read_only=iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        monitors = tuple(sorted(rbd.monitors or ()))
        yield DiskMount(source="rbd", disk=(rbd.pool, rbd.image), read_only=rbd.read_only, monitors=monitors)


def _inline(volume: VolumeWire) -> Iterable[InlineDisk]:
    """In-tree volumes that CSI drivers attach today, under the names of k8s.io/csi-translation-lib v0.36.3."""
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield InlineDisk(plugin="kubernetes.io/aws-ebs", driver="ebs.csi.aws.com", handle=ebs_handle(ebs.volume_id))
    if (gce := volume.gce_persistent_disk) is not None:
        handle = gce_handle(gce.pd_name, {})
        yield InlineDisk(plugin="kubernetes.io/gce-pd", driver="pd.csi.storage.gke.io", handle=handle)
    if (azure := volume.azure_disk) is not None:
        yield InlineDisk(plugin="kubernetes.io/azure-disk", driver="disk.csi.azure.com", handle=azure.disk_uri)
    if (cinder := volume.cinder) is not None:
        yield InlineDisk(plugin="kubernetes.io/cinder", driver="cinder.csi.openstack.org", handle=cinder.volume_id)
    if (portworx := volume.portworx_volume) is not None:
        yield InlineDisk(plugin="kubernetes.io/portworx-volume", driver="pxd.portworx.com", handle=portworx.volume_id)
