"""The scheduling needs of pods: equivalence groups (`Kind`), and the constraints that only some pods have.

- `Kind`: what all pods of an equivalence group have in common. A verdict on a `Kind` holds for all its pods.
- `PodConstraints`: what only some pods ask of a node, beyond CPU, memory, node selectors and tolerations. Most pods have none:
  their `Kind` has None here, and decoding them costs one comparison.
- `PackedRules`: the rules of a `Kind` with very many of them, as one value, where nobody evaluates them.

Invariant: a `Kind` contains only what decisions read. So pods of different controllers, or without one, can share a `Kind`.
Defaults are already applied: namespaces of terms are filled in, `matchLabelKeys` is merged into selectors (see
`adapters.kube`).
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal
from weakref import WeakKeyDictionary, ref

import msgspec

from slackwater.model.resources import Amounts
from slackwater.model.selectors import Requirement, Selector

#: The `ip` of a host port that binds to every address of the node.
EVERY_ADDRESS: Final = "0.0.0.0"
#: The feature that a node must declare for a pod with user namespaces on the host's network.
HOST_USERS: Final = "UserNamespacesHostNetworkSupport"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port that a pod asks for. `ip` is EVERY_ADDRESS and `protocol` TCP if the pod names none."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadConstraint:
    """One of a pod's topologySpreadConstraints. `hard` means DoNotSchedule; a soft constraint only scores.

    `selector` contains the merged matchLabelKeys. With `honor_affinity` (the default) nodes that the pod's node affinity
    excludes do not count; with `honor_taints` (not the default) nodes whose taints the pod does not tolerate do not count
    either. `by_default`: the constraint is not the pod's own but one of its scheduler's profile.
    """

    hard: bool
    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    by_default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """A term of pod affinity or anti-affinity: which pods it selects, and the node label that defines its domains.

    It selects pods of `namespaces`, and of every namespace whose labels `namespace_selector` selects (None selects none).
    """

    topology_key: str
    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None


@dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A preferred pod (anti-)affinity term: `weight` is 1..100, negative for anti-affinity."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """A node selector term. All its requirements must hold; a term without any matches nothing."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class WeightedNodeTerm:
    """A preferred node selector term. `weight` is 1..100."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class ClaimMount:
    """A pod's volume that is a PersistentVolumeClaim of the pod's namespace.

    `owner` is set only if the claim belongs to a generic ephemeral volume: the UID of the pod, which must then own the claim.
    """

    claim: str
    owner: str | None = None
    pod: str = ""  #: the pod's name, if there is an owner


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskMount:
    """A pod's in-line disk that only one pod of a node may mount (VolumeRestrictions).

    `disk` identifies it: the PD's name, the EBS volume's id, the IQN, or pool and image of an RBD. `monitors` is set for RBD
    alone: two are the same disk only if they share a monitor. `exclusive` disks (EBS) conflict even if all mounts are
    read-only.
    """

    source: Literal["gce", "ebs", "iscsi", "rbd"]
    disk: tuple[str, ...]
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineDisk:
    """An in-line volume of an old in-tree plug-in that a CSI driver attaches today: it counts against that driver's limit."""

    plugin: str  #: the in-tree name, such as kubernetes.io/aws-ebs
    driver: str
    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUse:
    """A claim of dynamic resource allocation that a pod uses. `name` is the name by which the pod's spec calls the claim.

    `claim` is the ResourceClaim; empty if it is made from `template` and the pod's status does not name it yet. `owner` is the
    UID of the pod that must own a claim made from a template, `pod` that pod's name.
    """

    name: str
    claim: str = ""
    template: str = ""
    owner: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDevices:
    """What one container requests of an extended resource that a DeviceClass may back.

    `container` is the container's index, init containers first. `ends`: the container ends before the pod's main containers
    start. `place` is the resource's index among all that the container requests, sorted by name.
    """

    container: int
    ends: bool
    resource: str
    amount: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConstraints:
    """What a pod asks of a node beyond CPU, memory, node selectors and tolerations. Empty fields ask nothing.

    `scalars` are requests beyond CPU and memory, sorted by name: ephemeral-storage, huge pages, extended resources. `scored` is
    the request that scores assume if containers state none (kube-scheduler's non-zero request); None: the request itself.
    `scored_before` is the same while the pod has no node, only if it differs (kube-scheduler reads requests of the pod as a
    whole in two ways). `image_volumes` are images mounted as volumes. `spread_by_default` selects the pods of the same Service
    or controller; set only if the pod states no spread constraints and its Service or controller is known. `features` are those
    that the pod's node must declare. `resource_claims` are claims of devices (dynamic resource allocation). `container_devices`
    are the containers' requests of extended resources, which devices may satisfy.
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
    resource_claims: tuple[ClaimUse, ...] = ()
    container_devices: tuple[ContainerDevices, ...] = ()
    node_name: str | None = None


NO_POD_CONSTRAINTS: Final = PodConstraints()


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration. An empty `key` with operator Exists tolerates every key, an empty `effect` every effect."""

    key: str
    operator: str
    value: str
    effect: str


#: The most rules of a pod that the service itself evaluates for all nodes. Each costs up to 0.1 ms at 5,000 nodes, and nothing
#: else runs meanwhile. A pod that has more is judged by its room alone, and kube-scheduler judges its other rules: filter names
#: no node for it, and it is neither nominated nor does Slackwater look for victims for it. No rule is left out anywhere.
MOST_RULES: Final = 256
#: So many values of a requirement cost as much as one rule.
_VALUES: Final = 100
#: As how many rules a preferred term about pods, and a topology spread constraint, count.
_PREFERRED_POD, _SPREAD = 4, 8


class _Computed:
    """What a `Kind` computes once: it is no field, since it is neither compared nor sent to another process."""

    __slots__ = ("_hash", "_keys_read", "_n_rules")

    _hash: int
    _keys_read: frozenset[str]
    _n_rules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRules:
    """The rules of a `Kind` in one value of bytes, and what is read of them without unpacking.

    As objects, rules take ten times their JSON. When many small objects are gone, the memory between those that stay is not
    returned to the system; that of large values is. `kind` is the MessagePack of the whole `Kind`, compressed: equal for equal
    kinds.
    """

    kind: bytes
    n_rules: int
    repels: bool
    attracts: bool
    mounts_claims: bool
    tolerates_all: bool


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Kind(_Computed):
    """The scheduling needs that all pods of an equivalence group have in common.

    `node_affinity` is None if the pod requires no node affinity; otherwise one of its terms must match. `missing_request` names
    the first container and resource without a request ("app: memory"); it is None if there is none, and for pods that grow in
    place, because these count by their annotations. `images` are those of all containers, in
    order. `pod_constraints` is None if the pod has none of the rarer constraints.

    `packed_rules` has the selector, affinity, tolerations, images and constraints of a kind with more than `MOST_RULES`, whose
    own fields are empty then: only `whole` has them. It is None for all others, and in the planning process.
    """

    namespace: str
    requests: Amounts
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = "default-scheduler"
    preempts: bool = True
    missing_request: str | None = None
    images: tuple[str, ...] = ()
    pod_constraints: PodConstraints | None = None
    packed_rules: PackedRules | None = None

    def __hash__(self) -> int:
        """The hash, without tolerations: hashing them takes as long as all the rest, and few groups differ by them alone."""
        try:
            return self._hash
        except AttributeError:
            asks = self.node_selector, self.node_affinity, self.pod_constraints, self.packed_rules
            found = hash((self.namespace, self.requests, self.images, self.missing_request, asks))
            object.__setattr__(self, "_hash", found)
            return found

    @property
    def n_rules(self) -> int:
        """How many rules predicates and scores evaluate for a pod of the group, beyond those of CPU and memory."""
        try:
            return self._n_rules
        except AttributeError:
            packed = self.packed_rules
            object.__setattr__(self, "_n_rules", _rules_of(self) if packed is None else packed.n_rules)
            return self._n_rules

    @property
    def keys_read(self) -> frozenset[str]:
        """The keys of pod labels that the selectors of the group read."""
        try:
            return self._keys_read
        except AttributeError:
            asks = self.pod_constraints
            object.__setattr__(self, "_keys_read", frozenset() if asks is None else _keys_of(asks))
            return self._keys_read

    @property
    def repels(self) -> bool:
        """Has it required pod anti-affinity?"""
        if self.packed_rules is not None:
            return self.packed_rules.repels
        return self.pod_constraints is not None and bool(self.pod_constraints.anti_affinity)

    @property
    def attracts(self) -> bool:
        """Has it required pod affinity?"""
        if self.packed_rules is not None:
            return self.packed_rules.attracts
        return self.pod_constraints is not None and bool(self.pod_constraints.affinity)

    @property
    def mounts_claims(self) -> bool:
        if self.packed_rules is not None:
            return self.packed_rules.mounts_claims
        return self.pod_constraints is not None and bool(self.pod_constraints.claims)

    @property
    def tolerates_all(self) -> bool:
        """Has it a toleration for every taint that keeps pods from nodes?"""
        if self.packed_rules is not None:
            return self.packed_rules.tolerates_all
        return any(not t.key and t.operator == "Exists" and t.effect in {"", "NoSchedule"} for t in self.tolerations)

    def packed(self) -> "Kind":
        """The kind with its rules packed. Takes about 10 ms for 1 MB of JSON."""
        return Kind(
            namespace=self.namespace,
            requests=self.requests,
            scheduler_name=self.scheduler_name,
            preempts=self.preempts,
            missing_request=self.missing_request,
            packed_rules=PackedRules(
                kind=zlib.compress(msgspec.msgpack.encode(self), 1),
                n_rules=self.n_rules,
                repels=self.repels,
                attracts=self.attracts,
                mounts_claims=self.mounts_claims,
                tolerates_all=self.tolerates_all,
            ),
        )

    def whole(self) -> "Kind":
        """The kind with its rules unpacked; itself if they are not packed."""
        return self if self.packed_rules is None else _UNPACKER.decode(zlib.decompress(self.packed_rules.kind))


_UNPACKER: Final = msgspec.msgpack.Decoder(Kind)


def terms_of(asks: PodConstraints) -> tuple[PodTerm, ...]:
    """All terms of pod (anti-)affinity, required and preferred."""
    return (*asks.affinity, *asks.anti_affinity, *(weighted.term for weighted in asks.preferred_pods))


def _keys_of(asks: PodConstraints) -> frozenset[str]:
    selectors: list[Selector] = [term.selector for term in terms_of(asks)]
    selectors += [constraint.selector for constraint in asks.spread]
    selectors.append(asks.spread_by_default)
    return frozenset(requirement.key for selector in selectors if selector for requirement in selector)


def _rules_of(kind: Kind) -> int:
    asks = kind.pod_constraints or NO_POD_CONSTRAINTS
    requirements: Iterable[Requirement] = chain(
        chain.from_iterable((*t.labels, *t.fields) for t in kind.node_affinity or ()),
        chain.from_iterable((*w.term.labels, *w.term.fields) for w in asks.preferred_nodes),
        chain.from_iterable((*(t.selector or ()), *(t.namespace_selector or ())) for t in terms_of(asks)),
        chain.from_iterable(c.selector or () for c in asks.spread),
    )
    lists = (
        (kind.node_selector, kind.node_affinity or (), kind.tolerations, kind.images),
        (asks.preferred_nodes, asks.affinity, asks.anti_affinity),
        (asks.scalars, asks.image_volumes, asks.host_ports, asks.claims, asks.disks, asks.inline_disks),
        (asks.resource_claims, asks.container_devices),
    )
    values = sum(len(term.namespaces) for term in terms_of(asks)) // _VALUES
    compared = _PREFERRED_POD * len(asks.preferred_pods) + _SPREAD * len(asks.spread)
    listed = sum(map(len, chain.from_iterable(lists)))
    return compared + values + listed + sum(1 + len(r.values) // _VALUES for r in requirements)


class KindInterner:
    """Keeps one instance of each distinct `Kind`, so that equal pods share memory and are mostly compared by identity.
    `packs`: those with more than `MOST_RULES` are kept packed, where nobody evaluates them.

    References are weak, so that a `Kind` without pods is forgotten. This matters for DaemonSets: each of their pods has a
    `Kind` of its own, which names its node.
    """

    def __init__(self, *, packs: bool = False) -> None:
        self._kinds: WeakKeyDictionary[Kind, ref[Kind]] = WeakKeyDictionary()
        self._packs = packs

    def intern(self, kind: Kind) -> Kind:
        known = self._kinds.get(kind)
        found = None if known is None else known()
        if found is not None:
            return found
        if self._packs and kind.n_rules > MOST_RULES and kind.packed_rules is None:
            return self.intern(kind.packed())
        self._kinds[kind] = ref(kind)
        return kind

    def __len__(self) -> int:
        return len(self._kinds)
