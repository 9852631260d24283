"""Can the pod's claims be served on the node?"""

from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason
from slackwater.model.selectors import Requirement, holds, selects
from slackwater.model.storage import Claim, StorageClass, Volume
from tests.laws.fit.rowbyrow.cluster import PlainCluster
from tests.laws.fit.rowbyrow.nodes import term_accepts

#: The first of those that hold is the verdict.
_ORDER = (Reason.VOLUME_NODE_CONFLICT, Reason.VOLUME_BIND_CONFLICT, Reason.STORAGE_SHORT, Reason.VOLUME_NOT_FOUND)


def volume_binding(cluster: PlainCluster, pod: Pod, node: Node) -> Reason:
    claims = list(cluster.claims(pod))
    bound = [claim for claim in claims if claim.volume and claim.bound]
    problems = {
        _served(cluster, bound, node),
        _servable(cluster, [c for c in claims if _waits(cluster, c)], node),
    }
    return next((reason for reason in _ORDER if reason in problems), Reason.OK)


def _waits(cluster: PlainCluster, claim: Claim) -> bool:
    storage_class = _class(cluster, claim)
    return not claim.volume and storage_class is not None and storage_class.binding_mode == "WaitForFirstConsumer"


def _class(cluster: PlainCluster, claim: Claim) -> StorageClass | None:
    return (cluster.storage.classes or {}).get(claim.storage_class)


def _served(cluster: PlainCluster, bound: list[Claim], node: Node) -> Reason:
    for claim in bound:
        volume = (cluster.storage.volumes or {}).get(claim.volume)
        if volume is None:
            return Reason.OK if cluster.storage.volumes is None else Reason.VOLUME_NOT_FOUND
        csi_node = (cluster.storage.csi_nodes or {}).get(node.name)
        handed_over = volume.plugin and csi_node is not None and volume.plugin in csi_node.migrated
        if not _reached(volume.migrated_terms if handed_over else volume.node_terms, node):
            return Reason.VOLUME_NODE_CONFLICT
    return Reason.OK


def _reached(terms: object, node: Node) -> bool:
    return terms is None or any(term_accepts(term, node, fields=False) for term in terms)  # type: ignore[attr-defined]


def _servable(cluster: PlainCluster, waiting: list[Claim], node: Node) -> Reason:
    if any(claim.selected_node not in (None, node.name) for claim in waiting):
        return Reason.VOLUME_BIND_CONFLICT
    taken: set[str] = set()
    to_make = [claim for claim in waiting if claim.selected_node is not None]
    for claim in sorted((c for c in waiting if c.selected_node is None), key=lambda claim: claim.size or 0):
        volume = _volume_for(cluster, claim, node, taken)
        if volume is None:
            to_make.append(claim)
        else:
            taken.add(volume.name)
    for claim in to_make:
        storage_class = _class(cluster, claim)
        assert storage_class is not None
        if not _can_make(storage_class, node):
            return Reason.VOLUME_BIND_CONFLICT
        if not _has_room(cluster, claim, storage_class, node):
            return Reason.STORAGE_SHORT
    return Reason.OK


def _volume_for(cluster: PlainCluster, claim: Claim, node: Node, taken: set[str]) -> Volume | None:
    """The one reserved for the claim, else the smallest that will do."""
    fitting = []
    for volume in (cluster.storage.volumes or {}).values():
        reserved = _is_reserved(volume, claim)
        if volume.name in taken or volume.storage_class != claim.storage_class or volume.deleting:
            continue
        if volume.mode != claim.mode or volume.attributes_class != claim.attributes_class:
            continue
        if volume.capacity < (claim.size or 0) or (volume.claim is not None and not reserved):
            continue
        if reserved:
            return volume if _reached(volume.node_terms, node) else None
        if volume.phase == "Available" and _reached(volume.node_terms, node) and _suits(volume, claim):
            fitting.append(volume)
    return min(fitting, key=lambda volume: volume.capacity, default=None)


def _is_reserved(volume: Volume, claim: Claim) -> bool:
    ref = volume.claim
    return ref is not None and (ref.namespace, ref.name) == (claim.namespace, claim.name) and ref.uid in ("", claim.uid)


def _suits(volume: Volume, claim: Claim) -> bool:
    selected = not claim.has_selector or selects(claim.selector, volume.labels)
    return selected and all(mode in volume.access_modes for mode in claim.access_modes)


def _can_make(storage_class: StorageClass, node: Node) -> bool:
    if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
        return False
    if not storage_class.topologies:
        return True
    return any(
        term and all(holds(Requirement(key, "In", values), node.labels) for key, values in term)
        for term in storage_class.topologies
    )


def _has_room(cluster: PlainCluster, claim: Claim, storage_class: StorageClass, node: Node) -> bool:
    driver = (cluster.storage.drivers or {}).get(storage_class.provisioner)
    if claim.size is None or driver is None or not driver.tracks_capacity or cluster.storage.capacities is None:
        return True
    return any(
        room.storage_class == storage_class.name
        and selects(room.topology, node.labels)
        and room.largest is not None
        and room.largest >= claim.size
        for room in cluster.storage.capacities
    )
