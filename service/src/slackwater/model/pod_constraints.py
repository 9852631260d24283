"""What only some pods ask of a node: everything beyond CPU, memory, node selectors and tolerations.

Most pods ask nothing of this, so a `Kind` carries one value or None, and decoding such a pod costs one comparison. All of
it is already defaulted: namespaces of terms are filled in, `matchLabelKeys` is merged into selectors (see `adapters.kube`).
"""

from dataclasses import dataclass
from typing import Final, Literal

from slackwater.model.resources import Amounts
from slackwater.model.selectors import Requirement, Selector

#: Where a container's host port binds to every address of the node.
EVERY_ADDRESS: Final = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself. `ip` is EVERY_ADDRESS and `protocol` TCP where the pod names none."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One of topologySpreadConstraints. `hard` is DoNotSchedule; soft ones only score.

    `selector` holds the merged matchLabelKeys. The policies say whether nodes count that the pod's node affinity
    (`honor_affinity`, by default yes) or the nodes' taints (`honor_taints`, by default no) exclude.
    """

    hard: bool
    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """A term of pod (anti-)affinity: which pods, counted by the values of which node label.

    Pods of `namespaces`, and of every namespace whose labels `namespace_selector` selects (None selects none).
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preference: `weight` is 1..100, negative where the pods repel."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All requirements of a term must hold; a term without any matches nothing."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class WeightedNodeTerm:
    """A preferred node selector term."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class ClaimMount:
    """A volume that is a PersistentVolumeClaim of the pod's namespace.

    `owner` is the pod's UID where the claim is a generic ephemeral volume's: the claim must then be owned by that pod.
    """

    claim: str
    owner: str | None = None
    pod: str = ""  #: the pod's name, where there is an owner


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMount:
    """An in-line disk that a node may mount only once (VolumeRestrictions).

    `disk` names it: the PD's name, the EBS volume's id, the IQN, or pool and image of an RBD. `monitors` is of RBD alone:
    two are the same disk only where a monitor is shared. `exclusive` disks (EBS) conflict even where all read only.
    """

    source: Literal["gce", "ebs", "iscsi", "rbd"]
    disk: tuple[str, ...]
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineDisk:
    """An in-line volume of an old in-tree plug-in that is attached by a CSI driver today: it counts against its limit."""

    plugin: str  #: the in-tree name, such as kubernetes.io/aws-ebs
    driver: str
    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConstraints:
    """What a pod asks of a node beyond CPU, memory, node selectors and tolerations. Empty fields ask nothing.

    `scalars` are requests beyond CPU and memory, sorted by name: ephemeral-storage, huge pages, extended resources.
    `scored` is the request that scores assume where containers state none (kube-scheduler's non-zero request); None: the
    request itself. `scored_before` is the same while the pod has no node, where that differs (kube-scheduler reads requests
    of the pod as a whole in two ways). `image_volumes` are images mounted as volumes. `spread_by_default` selects the pods
    of the same Service or controller, where the pod states no spread constraints itself and that is known.
    `has_volumes` is true where the pod mounts anything at all. `features` are those that its node has to
    declare. `resource_claims` names claims of dynamic resource allocation, which no predicate here covers.
    """

    scalars: tuple[tuple[str, int], ...] = ()
    scored: Amounts | None = None
    scored_before: Amounts | None = None
    image_volumes: tuple[str, ...] = ()
    spread_by_default: Selector = None
    host_ports: tuple[HostPort, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[WeightedPodTerm, ...] = ()
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    claims: tuple[ClaimMount, ...] = ()
    disks: tuple[DiskMount, ...] = ()
    inline_disks: tuple[InlineDisk, ...] = ()
    features: tuple[str, ...] = ()
    resource_claims: tuple[str, ...] = ()
    node_name: str | None = None


NO_POD_CONSTRAINTS: Final = PodConstraints()
