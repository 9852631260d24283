"""Decodes storage objects and namespaces into `model.storage`. All functions raise ValueError for an object
they cannot read."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import field

from slackwater.adapters.api_objects import Int32, ObjectDecoder, ObjectWire, Quantity, Wire
from slackwater.adapters.kube.pod_constraints import node_term, selector_of
from slackwater.adapters.kube.pod_requests import whole
from slackwater.adapters.kube.structs import InTreeDisksWire, NodeSelectorWire, SelectorWire
from slackwater.adapters.kube.translation import in_tree_disks, migrated_terms
from slackwater.model.pod_constraints import InlineDisk
from slackwater.model.storage import Attachment, Claim, ClaimRef, CsiDriver, CsiNode, StorageCapacity, StorageClass, Volume
from slackwater_protocol.units import parse_nanos

_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_STORAGE: Final = "storage"


class _AskedWire(Wire):
    requests: dict[str, Quantity] | None = None


class _ClaimSpecWire(Wire):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: _AskedWire | None = None
    selector: SelectorWire | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class _PhaseWire(Wire):
    phase: str = ""


class _ClaimWire(ObjectWire):
    spec: _ClaimSpecWire = field(default_factory=_ClaimSpecWire)
    status: _PhaseWire = field(default_factory=_PhaseWire)


class _CsiSourceWire(Wire):
    driver: str = ""
    volume_handle: str = ""


class _VolumeAffinityWire(Wire):
    required: NodeSelectorWire | None = None


class _VolumeSpecWire(InTreeDisksWire):
    capacity: dict[str, Quantity] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: ClaimRef | None = None
    node_affinity: _VolumeAffinityWire | None = None
    csi: _CsiSourceWire | None = None


class _VolumeWire(ObjectWire):
    spec: _VolumeSpecWire = field(default_factory=_VolumeSpecWire)
    status: _PhaseWire = field(default_factory=_PhaseWire)


class _TopologyLabelWire(Wire):
    key: str = ""
    values: list[str] | None = None


class _TopologyTermWire(Wire):
    match_label_expressions: list[_TopologyLabelWire] | None = None


class _ClassWire(ObjectWire):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_TopologyTermWire] | None = None


class _LimitWire(Wire):
    count: Int32 | None = None


class _NodeDriverWire(Wire):
    name: str = ""
    allocatable: _LimitWire | None = None


class _CsiNodeSpecWire(Wire):
    drivers: list[_NodeDriverWire] | None = None


class _CsiNodeWire(ObjectWire):
    spec: _CsiNodeSpecWire = field(default_factory=_CsiNodeSpecWire)


class _DriverSpecWire(Wire):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class _DriverWire(ObjectWire):
    spec: _DriverSpecWire = field(default_factory=_DriverSpecWire)


class _CapacityWire(ObjectWire):
    storage_class_name: str = ""
    node_topology: SelectorWire | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class _AttachedWire(Wire):
    persistent_volume_name: str | None = None


class _AttachmentSpecWire(Wire):
    attacher: str = ""
    node_name: str = ""
    source: _AttachedWire = field(default_factory=_AttachedWire)


class _AttachmentWire(ObjectWire):
    spec: _AttachmentSpecWire = field(default_factory=_AttachmentSpecWire)


_CLAIM: Final = ObjectDecoder(_ClaimWire)
_VOLUME: Final = ObjectDecoder(_VolumeWire)
_CLASS: Final = ObjectDecoder(_ClassWire)
_CSI_NODE: Final = ObjectDecoder(_CsiNodeWire)
_DRIVER: Final = ObjectDecoder(_DriverWire)
_CAPACITY: Final = ObjectDecoder(_CapacityWire)
_ATTACHMENT: Final = ObjectDecoder(_AttachmentWire)
_NAMESPACE: Final = ObjectDecoder(ObjectWire)


def decode_claim(raw: bytes | msgspec.Raw) -> Claim:
    wire = _CLAIM.decode(raw)
    meta, spec = wire.metadata, wire.spec
    notes = meta.annotations or {}
    size = ((spec.resources.requests if spec.resources else None) or {}).get(_STORAGE)
    return Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        volume=spec.volume_name,
        storage_class=notes.get(_BETA_CLASS, spec.storage_class_name or ""),
        phase=wire.status.phase,
        bound=_BIND_COMPLETED in notes,
        deleting=meta.deletion_timestamp is not None,
        access_modes=tuple(spec.access_modes or ()),
        size=None if size is None else _bytes(size),
        selector=selector_of(spec.selector),
        has_selector=spec.selector is not None,
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        selected_node=notes.get(_SELECTED_NODE),
        owner=next((owner.uid for owner in meta.owner_references or () if owner.controller), None),
    )


def decode_volume(raw: bytes | msgspec.Raw) -> Volume:
    wire = _VOLUME.decode(raw)
    meta, spec = wire.metadata, wire.spec
    labels = meta.labels or {}
    disk = next(in_tree_disks(spec, labels), None)
    if spec.csi is not None:
        disk = InlineDisk(plugin="", driver=spec.csi.driver, handle=spec.csi.volume_handle)
    elif disk is None:
        disk = InlineDisk(plugin="", driver="", handle="")
    affinity = None if spec.node_affinity is None else spec.node_affinity.required
    terms = None if affinity is None else tuple(map(node_term, affinity.node_selector_terms or ()))
    storage_class = (meta.annotations or {}).get(_BETA_CLASS, spec.storage_class_name)
    return Volume(
        name=meta.name,
        labels=dict(labels),
        storage_class=storage_class,
        spec_class=None if storage_class == spec.storage_class_name else spec.storage_class_name,
        phase=wire.status.phase,
        deleting=meta.deletion_timestamp is not None,
        capacity=_bytes((spec.capacity or {}).get(_STORAGE, 0)),
        access_modes=tuple(spec.access_modes or ()),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        claim=spec.claim_ref,
        node_terms=terms,
        migrated_terms=migrated_terms(disk.plugin, terms, labels),
        driver=disk.driver,
        handle=disk.handle,
        plugin=disk.plugin,
    )


def decode_class(raw: bytes | msgspec.Raw) -> StorageClass:
    wire = _CLASS.decode(raw)
    terms = (
        tuple((label.key, tuple(label.values or ())) for label in term.match_label_expressions or ())
        for term in wire.allowed_topologies or ()
    )
    mode = wire.volume_binding_mode or "Immediate"
    return StorageClass(name=wire.metadata.name, provisioner=wire.provisioner, binding_mode=mode, topologies=tuple(terms))


def decode_csi_node(raw: bytes | msgspec.Raw) -> CsiNode:
    wire = _CSI_NODE.decode(raw)
    drivers = ((d.name, None if d.allocatable is None else d.allocatable.count) for d in wire.spec.drivers or ())
    migrated = (wire.metadata.annotations or {}).get(_MIGRATED, "")
    return CsiNode(name=wire.metadata.name, drivers=tuple(drivers), migrated=tuple(filter(None, migrated.split(","))))


def decode_driver(raw: bytes | msgspec.Raw) -> CsiDriver:
    wire = _DRIVER.decode(raw)
    return CsiDriver(
        name=wire.metadata.name,
        tracks_capacity=bool(wire.spec.storage_capacity),
        needed=bool(wire.spec.prevent_pod_scheduling_if_missing),
    )


def decode_capacity(raw: bytes | msgspec.Raw) -> StorageCapacity:
    wire = _CAPACITY.decode(raw)
    largest = wire.maximum_volume_size if wire.maximum_volume_size is not None else wire.capacity
    return StorageCapacity(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        storage_class=wire.storage_class_name,
        topology=selector_of(wire.node_topology),
        largest=None if largest is None else _bytes(largest),
        total=None if wire.capacity is None else _bytes(wire.capacity),
    )


def decode_attachment(raw: bytes | msgspec.Raw) -> Attachment:
    wire = _ATTACHMENT.decode(raw)
    spec = wire.spec
    return Attachment(
        name=wire.metadata.name,
        node=spec.node_name,
        attacher=spec.attacher,
        volume=spec.source.persistent_volume_name,
    )


def decode_namespace(raw: bytes | msgspec.Raw) -> Mapping[str, str]:
    """A namespace's labels. The API server labels each namespace with its name."""
    meta = _NAMESPACE.decode(raw).metadata
    return {**(meta.labels or {}), "kubernetes.io/metadata.name": meta.name}


def _bytes(quantity: Quantity) -> int:
    return whole(parse_nanos(quantity))
