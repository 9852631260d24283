"""Storage objects, with the fields that placement reads: claims, volumes, classes, drivers and what nodes can attach."""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim. `size` is in bytes, None where it requests none. `bound` is the annotation bind-completed.

    `storage_class` is "" where it names none. `selected_node` is the annotation of that name. `owner` is the UID of its
    controlling owner.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """The claim that a volume is reserved for; `uid` is empty where a person reserved it by name."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume. `capacity` is in bytes. `node_terms` is None where every node can reach it.

    `driver` and `handle` are its CSI names. An in-tree volume that is migrated to CSI has those of its CSI driver, and its
    in-tree plug-in in `plugin`. On nodes that have migrated the plug-in to CSI, `migrated_terms` replace `node_terms`.

    `storage_class` is the one that claims are matched with: the beta annotation's, else the spec's. VolumeBinding's score reads
    the spec alone; `spec_class` is that one where the two differ.
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
    """A StorageClass. `binding_mode` is None where the object has none (the API server always sets one).

    `topologies` are allowedTopologies: a node must match one of them, and in it every (key, values); empty: any node.
    """

    name: str
    provisioner: str
    binding_mode: str | None = "Immediate"
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode:
    """A CSINode: the drivers installed on a node, each with the number of volumes it can attach, None for no limit.

    `migrated` are the in-tree plug-ins that its kubelet reports as migrated to CSI.
    """

    name: str
    drivers: tuple[tuple[str, int | None], ...]
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriver:
    """A CSIDriver. `tracks_capacity`: room for new volumes is published as `StorageCapacity` and must suffice. `needed`: pods
    with its volumes do not go to nodes without it (`preventPodSchedulingIfMissing`)."""

    name: str
    tracks_capacity: bool = False
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCapacity:
    """A CSIStorageCapacity: room for new volumes of a class on nodes that `topology` selects (None: nowhere). `largest` volume
    and `total` room in bytes."""

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
    """All known storage objects. A field is None where objects of that type are unknown: rules that need them are skipped.

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
