"""Storage objects, with the fields that placement reads: claims, volumes, classes, drivers and what nodes can attach."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim. `size` is in bytes, None if it requests none. `bound` says whether the annotation bind-completed
    is set.

    `storage_class` is "" if the claim names none. `selected_node` is the value of the annotation selected-node. `owner` is the
    UID of the claim's controlling owner.
    """

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    storage_class: str = ""
    phase: str = ""
    bound: bool = False
    deleting: bool = False
    access_modes: tuple[str, ...] = ()
    size: int | None = None
    selector: Selector = None
    has_selector: bool = False
    mode: str = "Filesystem"
    attributes_class: str = ""
    selected_node: str | None = None
    owner: str | None = None

    @property
    def is_bound(self) -> bool:
        """Whether the claim names a volume and its binding is complete."""
        return bool(self.volume) and self.bound


class ClaimRef(Struct, frozen=True, kw_only=True):
    """The claim that a volume is reserved for; `uid` is "" if a person reserved the volume by the claim's name."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume. `capacity` is in bytes. `node_terms` is None if every node can reach it.

    `driver` and `handle` are the volume's CSI driver and volume handle. An in-tree volume that is migrated to CSI has those
    that its CSI driver uses, and `plugin` is its in-tree plug-in. On nodes that have migrated the plug-in to CSI,
    `migrated_terms` replace `node_terms`.

    `storage_class` is the class that claims are matched with: the beta annotation's, else the spec's. `spec_class` is the
    spec's, set only if it differs from `storage_class`: VolumeBinding's score reads the spec alone.
    """

    name: str
    labels: dict[str, str]
    storage_class: str = ""
    spec_class: str | None = None
    phase: str = ""
    deleting: bool = False
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    claim: ClaimRef | None = None
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    migrated_terms: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""
    plugin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass. `binding_mode` is None if the object has none (the API server always sets one).

    `topologies` are allowedTopologies: a node must match one of them, which means every (key, values) pair in it. Empty: any
    node.
    """

    name: str
    provisioner: str
    binding_mode: str | None = "Immediate"
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode:
    """A CSINode: the drivers installed on a node, each with the number of volumes that it can attach (None: no limit).

    `migrated` are the in-tree plug-ins that the node's kubelet reports as migrated to CSI.
    """

    name: str
    drivers: tuple[tuple[str, int | None], ...]
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriver:
    """A CSIDriver. `tracks_capacity`: the driver publishes the room for new volumes as `StorageCapacity`, and the room must
    suffice. `needed`: pods with the driver's volumes do not go to nodes without the driver
    (`preventPodSchedulingIfMissing`)."""

    name: str
    tracks_capacity: bool = False
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCapacity:
    """A CSIStorageCapacity: the room for new volumes of a class on the nodes that `topology` selects (None selects none).
    `largest` is the size of the largest possible volume and `total` all the room, both in bytes; None if not stated."""

    namespace: str
    name: str
    storage_class: str
    topology: Selector
    largest: int | None
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A VolumeAttachment: `volume` (a PersistentVolume's name) is attached to `node` by the driver `attacher`."""

    name: str
    node: str
    attacher: str
    volume: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """All known storage objects. A field is None if objects of that type are not read; rules that need them are then skipped.

    `attachments` are keyed by the node's name.
    """

    claims: Mapping[tuple[str, str], Claim] | None = None
    volumes: Mapping[str, Volume] | None = None
    classes: Mapping[str, StorageClass] | None = None
    csi_nodes: Mapping[str, CsiNode] | None = None
    drivers: Mapping[str, CsiDriver] | None = None
    capacities: tuple[StorageCapacity, ...] | None = None
    attachments: Mapping[str, tuple[Attachment, ...]] | None = None

    def attachments_of(self, node: str) -> tuple[Attachment, ...]:
        return () if self.attachments is None else self.attachments.get(node, ())
