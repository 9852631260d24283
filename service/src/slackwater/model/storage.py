"""Storage objects as far as placing pods reads them: claims, volumes, classes, drivers and what nodes can attach."""

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.model.pod_constraints import NodeSelectorTerm
from slackwater.model.selectors import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim. `size` in bytes, None where it requests none. `bound` is the annotation bind-completed.

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
        """Bound for good, from both sides."""
        return bool(self.volume) and self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """Whom a volume is reserved for; `uid` is empty where a person reserved it by name."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume. `capacity` in bytes. `node_terms` is None where every node reaches it.

    `driver` and `handle` name it to CSI; an in-tree volume that is migrated to CSI carries its driver's, and its in-tree
    plug-in in `plugin`. On nodes that have handed the plug-in to CSI, `migrated_terms` stand for `node_terms`.
    """

    name: str
    labels: dict[str, str]
    storage_class: str = ""
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
    """`binding_mode` is None where the object has none (the API server always sets one).

    `topologies` are allowedTopologies: a node must match one of them, and in it every (key, values); empty: any node.
    """

    name: str
    provisioner: str
    binding_mode: str | None = "Immediate"
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode:
    """What a node can attach: for each driver installed there its limit, None for no limit.

    `migrated` are in-tree plug-ins that the node's kubelet says it has handed to CSI.
    """

    name: str
    drivers: tuple[tuple[str, int | None], ...]
    migrated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriver:
    """`tracks_capacity`: room for new volumes is published as `StorageCapacity` and must suffice."""

    name: str
    tracks_capacity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCapacity:
    """Room for new volumes of a class where `topology` selects the node (None: nowhere). `largest` volume in bytes."""

    namespace: str
    name: str
    storage_class: str
    topology: Selector
    largest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A VolumeAttachment: `volume` (a PersistentVolume's name) is attached to `node` by the driver `attacher`."""

    name: str
    node: str
    attacher: str
    volume: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Everything known of storage. A field is None where that kind of object is unknown: rules that need it are skipped.

    `attachments` are by the node's name.
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
