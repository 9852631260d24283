"""Decodes the constraints that only some pods have: affinity, topology spread, ports, volumes, devices.

- `pod_constraints`: all constraints of a pod.
- `read_affinity`, `pod_terms`, `spread_constraints`: affinity and spread, completed the way the API server completes them.

`matchLabelKeys` and `mismatchLabelKeys` become requirements on the values of the pod's own labels. A term without namespaces
selects pods of the pod's own namespace. The API server has already added the label requirements to pods that it stored; adding
them twice changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from slackwater.adapters.api_objects import ObjectDecoder, RequirementWire
from slackwater.adapters.kube.pod_requests import NOTHING_ASKED, Ask, is_extended, read_requests
from slackwater.adapters.kube.structs import (
    AffinityWire,
    NodeSelectorTermWire,
    PodAffinityWire,
    PodTermWire,
    PodWire,
    SelectorWire,
    SpreadWire,
    VolumeWire,
)
from slackwater.adapters.kube.translation import in_tree_disks
from slackwater.model.interning import cached_texts
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.model.objects import Labels
from slackwater.model.pod_constraints import (
    EVERY_ADDRESS,
    HOST_USERS,
    NO_POD_CONSTRAINTS,
    ClaimMount,
    ClaimUse,
    ContainerDevices,
    DiskMount,
    HostPort,
    InlineDisk,
    NodeSelectorTerm,
    PodConstraints,
    PodTerm,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from slackwater.model.selectors import Requirement, Selector
from slackwater_protocol.units import NANO

_AFFINITY: Final = ObjectDecoder(AffinityWire)
_SPREAD: Final = ObjectDecoder(list[SpreadWire])
_NULL: Final = b"null"
#: How many distinct JSON texts are cached, and their greatest length. Each pod of a DaemonSet has a text of its own, with its
#: node's name.
_CACHED: Final = 2_048
_LONGEST: Final = 2_048


class Affinities(NamedTuple):
    """A decoded affinity: what it requires and prefers of nodes, and its terms about pods, still undecoded.

    The terms about pods also depend on the pod's namespace and labels. `nodes` is None if no node affinity is required.
    """

    nodes: tuple[NodeSelectorTerm, ...] | None = None
    preferred_nodes: tuple[WeightedNodeTerm, ...] = ()
    together: PodAffinityWire | None = None
    apart: PodAffinityWire | None = None


_NONE: Final = Affinities()


class PodTerms(NamedTuple):
    """The pod affinity, anti-affinity and preferred terms of a pod. Preferred anti-affinity has negative weights."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()


@cached_texts(most=_CACHED, longest=_LONGEST)
def read_affinity(raw: bytes) -> Affinities:
    """Decodes the JSON of an affinity, cached by its text. Raises msgspec's errors."""
    if raw == _NULL:
        return _NONE
    affinity = _AFFINITY.decode(raw)
    nodes = affinity.node_affinity
    required = None if nodes is None or nodes.required is None else nodes.required.node_selector_terms or ()
    preferred = () if nodes is None else nodes.preferred or ()
    return Affinities(
        nodes=None if required is None else tuple(map(node_term, required)),
        preferred_nodes=tuple(WeightedNodeTerm(p.weight, node_term(p.preference)) for p in preferred),
        together=affinity.pod_affinity,
        apart=affinity.pod_anti_affinity,
    )


def node_term(wire: NodeSelectorTermWire) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements(wire.match_expressions), requirements(wire.match_fields))


@cached_texts(most=_CACHED, longest=_LONGEST)
def pod_terms(raw: bytes, namespace: str, labels: Labels) -> PodTerms:
    """Decodes the terms about pods in an affinity's JSON, for a pod with this namespace and these labels.

    Pass only the labels that the affinity reads (`label_keys`): pods that differ by others share the cached value.
    """
    affinities, own = read_affinity(raw), dict(labels)
    together, apart = affinities.together or PodAffinityWire(), affinities.apart or PodAffinityWire()

    def weighted(wire: PodAffinityWire, sign: int) -> tuple[WeightedPodTerm, ...]:
        wires = wire.preferred or ()
        return tuple(WeightedPodTerm(sign * w.weight, _pod_term(w.pod_affinity_term, namespace, own)) for w in wires)

    return PodTerms(
        affinity=tuple(_pod_term(term, namespace, own) for term in together.required or ()),
        anti_affinity=tuple(_pod_term(term, namespace, own) for term in apart.required or ()),
        preferred=weighted(together, 1) + weighted(apart, -1),
    )


def label_keys(affinities: Affinities) -> frozenset[str]:
    """The keys of the pod's own labels that some term depends on."""
    return frozenset(
        key
        for wire in (affinities.together, affinities.apart)
        if wire is not None
        for term in (*(wire.required or ()), *(w.pod_affinity_term for w in wire.preferred or ()))
        for key in (*(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))
    )


def _only(labels: Labels, keys: frozenset[str]) -> Labels:
    return tuple(pair for pair in labels if pair[0] in keys) if keys else ()


def _pod_term(wire: PodTermWire, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    selector = selector_of(wire.label_selector)
    selector = _with_keys(selector, "In", wire.match_label_keys or (), labels)
    selector = _with_keys(selector, "NotIn", wire.mismatch_label_keys or (), labels)
    own_only = not wire.namespaces and wire.namespace_selector is None
    return PodTerm(
        topology_key=wire.topology_key,
        selector=selector,
        namespaces=(namespace,) if own_only else tuple(sorted(set(wire.namespaces or ()))),
        namespace_selector=selector_of(wire.namespace_selector),
    )


def spread_constraints(raw: bytes, labels: Labels) -> tuple[SpreadConstraint, ...]:
    """Decodes the JSON of the topology spread constraints of a pod with these labels. Raises msgspec's errors."""
    if raw == _NULL:
        return ()
    keys = frozenset(key for wire in _spread_wires(raw) for key in wire.match_label_keys or ())
    return _spread_constraints(raw, _only(labels, keys))


@cached_texts(most=_CACHED, longest=_LONGEST)
def _spread_constraints(raw: bytes, labels: Labels) -> tuple[SpreadConstraint, ...]:
    own = dict(labels)
    return tuple(_spread_constraint(wire, own) for wire in _spread_wires(raw))


@cached_texts(most=_CACHED, longest=_LONGEST)
def _spread_wires(raw: bytes) -> list[SpreadWire]:
    return [] if raw == _NULL else _SPREAD.decode(raw)


def _spread_constraint(wire: SpreadWire, labels: Mapping[str, str]) -> SpreadConstraint:
    return SpreadConstraint(
        hard=wire.when_unsatisfiable != "ScheduleAnyway",
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        selector=_with_keys(selector_of(wire.label_selector), "In", wire.match_label_keys or (), labels),
        min_domains=1 if wire.min_domains is None else wire.min_domains,
        honor_affinity=wire.node_affinity_policy != "Ignore",
        honor_taints=wire.node_taints_policy == "Honor",
    )


def _with_keys(selector: Selector, operator: str, keys: Sequence[str], labels: Mapping[str, str]) -> Selector:
    if selector is None or not keys:
        return selector
    more = (Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    known = frozenset(selector)
    return (*selector, *(requirement for requirement in more if requirement not in known))


def selector_of(wire: SelectorWire | None) -> Selector:
    if wire is None:
        return None
    exact = sorted((wire.match_labels or {}).items())
    return (*(Requirement(key, "In", (value,)) for key, value in exact), *requirements(wire.match_expressions))


def requirements(wires: Iterable[RequirementWire] | None) -> tuple[Requirement, ...]:
    found = tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in wires or ())
    for requirement in found:
        requirement.names("")  # prepares long lists of values here, where large objects have a thread of their own
    return found


_NO_NAMES: Final = ((), (), ())
_RESTART_ALL: Final = "RestartAllContainers"


def pod_constraints(
    wire: PodWire,
    namespace: str,
    labels: Labels,
    affinities: Affinities,
    ask: Ask,
    *,
    kubernetes: KubernetesVersion,
) -> PodConstraints | None:
    """The constraints of a pod; None if it has none. Raises ValueError for invalid quantities."""
    spec = wire.spec
    terms = None
    if affinities.together is not None or affinities.apart is not None:
        terms = pod_terms(bytes(spec.affinity), namespace, _only(labels, label_keys(affinities)))
    claims, disks, inline = _volumes(wire) if spec.volumes else _NO_NAMES
    backed = ask.has_scalars and kubernetes.follows(Rule.DEVICE_CLASS_RESOURCES)
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
        resource_claims=tuple(_claim_uses(wire)) if spec.resource_claims else (),
        container_devices=tuple(_container_devices(wire)) if backed else (),
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
    """The kubelet features that the pod uses, of those that some version of kube-scheduler requires its node to declare
    (k8s.io/component-helpers/nodedeclaredfeatures)."""
    spec = wire.spec
    found = []
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    if any(rule.action == _RESTART_ALL for container in containers for rule in container.restart_policy_rules or ()):
        found.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        found.append(HOST_USERS)
    return tuple(found)


def _claim_uses(wire: PodWire) -> Iterable[ClaimUse]:
    """The ResourceClaims that the pod uses.

    A template for which no claim was needed is left out; its entry in the pod's status has no claim name.
    """
    made = {status.name: status.resource_claim_name for status in wire.status.resource_claim_statuses or ()}
    meta = wire.metadata
    for use in wire.spec.resource_claims or ():
        if use.resource_claim_name is not None:
            yield ClaimUse(name=use.name, claim=use.resource_claim_name)
        elif use.resource_claim_template_name is None:
            yield ClaimUse(name=use.name, pod=meta.name)  # an extension of the API that is not known here: no node suits
        elif made.get(use.name, "") is not None:
            yield ClaimUse(
                name=use.name,
                claim=made.get(use.name) or "",
                template=use.resource_claim_template_name,
                owner=meta.uid,
                pod=meta.name,
            )


def _container_devices(wire: PodWire) -> Iterable[ContainerDevices]:
    inits = wire.spec.init_containers or []
    for number, container in enumerate((*inits, *(wire.spec.containers or ()))):
        asked = NOTHING_ASKED if container.resources is None else read_requests(container.resources.requests)
        named = (("cpu", asked.cpu), ("memory", asked.memory), *asked.rest)
        place = {name: at for at, name in enumerate(sorted(name for name, nanos in named if nanos is not None))}
        for name, nanos in asked.rest:
            if is_extended(name) and nanos and nanos % NANO == 0:
                ends = number < len(inits) and container.restart_policy != "Always"
                yield ContainerDevices(container=number, ends=ends, resource=name, amount=nanos // NANO, place=place[name])


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
            inline.extend(in_tree_disks(volume, {}))
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
