"""Decodes a cluster as kubectl writes it into one `Cluster` value: nodes, pods, storage, namespaces, budgets and controllers.

In: JSON documents. Out: a `Cluster`; `skipped_rules` lists the rules that cannot be judged for lack of objects, and the objects
that do not count in the version of Kubernetes. Each object is first completed as the API server would (`objects`). Kinds that
no rule uses are skipped. A kind without any object in the documents counts as unknown, not as absent. An answer names a rule
that could not be judged only if it may matter for the pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.kube.auxiliary import auxiliary, decode_daemon_set, decode_selector, decode_service
from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP, decode_priorities
from slackwater.adapters.kube.decode import NodeDecoder, PodDecoder, decode_budget
from slackwater.adapters.kube.headroom_requests import decode_quota
from slackwater.adapters.kube.node_overlays import decode_overlay
from slackwater.adapters.kube.storage import decode_claim
from slackwater.app.offline.admission import Admission
from slackwater.app.offline.configurations import CONFIG_MAP, unread_configurations
from slackwater.app.offline.known_groups import KnownGroup
from slackwater.app.offline.missing_daemons import missing_daemons
from slackwater.app.offline.missing_pods import missing_pods
from slackwater.app.offline.objects import (
    BUDGET,
    BUFFER,
    CONFIGURATIONS,
    DAEMON_SET,
    DEVICE_KINDS,
    JOB,
    LIMIT_RANGE,
    POD_TEMPLATE,
    PRIORITY_CLASS,
    QUOTA,
    RUNTIME_CLASS,
    TAINT_RULE,
    ClusterError,
    FoundObject,
    objects_by_kind,
)
from slackwater.app.offline.scales import SCALED, decode_scale, scales_of
from slackwater.app.offline.shapes import NESTED_TOO_DEEPLY
from slackwater.app.offline.version import ASSUMED, NO_REQUEST, VersionFound, VersionRequest, find_version
from slackwater.app.offline.workloads import headroom_of
from slackwater.controllers.scaleup.expanders import BadPriorities, Priorities
from slackwater.fit.remaining_pdb_tracker import NO_SCALES, CountedBudgets, Scales, counted
from slackwater.model.auxiliary import AuxiliaryKey, AuxiliaryKind, AuxiliarySeen, by_name, devices_of, storage_of
from slackwater.model.devices import NO_DEVICES, DeviceObjects
from slackwater.model.eviction_facts import Owner
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.placeholders import NO_HEADROOM_REQUESTS, HeadroomRequests
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, KindInterner, terms_of
from slackwater.model.prices import PriceOverlay, RowKey
from slackwater.model.scheduler_profile import (
    NO_PROFILES,
    NO_SPREAD_SOURCES,
    SPREADING,
    Profiles,
    SpreadSources,
    with_default_spread,
)
from slackwater.model.storage import Storage
from slackwater.snapshot.equivalence_groups import NumberedGroup

SERVICE: Final = "Service"
T = TypeVar("T")
_OVERLAY: Final = "NodeOverlay"
_SPREADING: Final = (SERVICE, *(kind for _, kind in sorted(SPREADING)))
#: Kinds that only scale-up and scale-down use.
_HEADROOM: Final = (BUFFER, POD_TEMPLATE, QUOTA, JOB)
_ADMITTING: Final = (LIMIT_RANGE, PRIORITY_CLASS, RUNTIME_CLASS)
_SCALING: Final = (
    DAEMON_SET,
    CONFIG_MAP,
    *_ADMITTING,
    *CONFIGURATIONS,
    _OVERLAY,
    BUDGET,
    *_HEADROOM,
    *(kind for kind in SCALED if kind not in _SPREADING),
)
#: The API resource of each kind of auxiliary objects.
_AUXILIARY: Final[Mapping[str, AuxiliaryKind]] = {
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
    "VolumeAttachment": "volumeattachments",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    TAINT_RULE: "devicetaintrules",
}
#: The kind of each API resource about which answers say that it is not known.
KIND_OF: Final[Mapping[str, str]] = {
    "nodes": "Node",
    "pods": "Pod",
    "services": SERVICE,
    "daemonsets": DAEMON_SET,
    "poddisruptionbudgets": BUDGET,
    "limitranges": LIMIT_RANGE,
    "priorityclasses": PRIORITY_CLASS,
    "runtimeclasses": RUNTIME_CLASS,
    "resourcequotas": QUOTA,
    **{resource: kind for kind, resource in _AUXILIARY.items()},
}
#: Kinds that are always read, and unknown without an object.
READ: Final = ("Node", "Pod", *(kind for kind in _AUXILIARY if kind != TAINT_RULE))
_TAINTS_BY_RULE: Final = "DynamicResources (taints by rule)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster's decoded objects, in the order of the file.

    `unknown`: kinds without any object; `listed`: kinds of which every object is there, so that none means none; `forbidden`:
    the resource of each kind that the account may not list. `ignored`: why the objects of a kind do not count, by kind.
    `where` names the place where objects were looked for, for messages. `spread_sources`: the
    selectors of Services and controllers. `profiles`: kube-scheduler's. `daemons`: the pods that DaemonSets
    would create on a new node. `budgets`: None if there is no PodDisruptionBudget; a budget without a status still has to be
    counted with `scales`, the number of pods that controllers want. `priorities`: the ConfigMap of Cluster Autoscaler's
    expander for priorities; None if there is none, or if it cannot be read: then `priorities_problem` says why.
    `price_overlays`: what NodeOverlays say about prices.

    `kubernetes`: the version of kube-scheduler whose rules hold. `headroom`: what asks for room for pods to come. `made`: the
    pods that are not in the file and that controllers would create, each with a text for people. `refused`: texts
    about pods that would not be admitted. `unread`: texts about configurations in the file, and about classes that it lacks.

    Only a running service sets these: `awaiting_victims`, pods without a node for which a preemption keeps room; `groups`, the
    node groups as their providers report them; `price_table`, the rows of the price table as it has read them. `configuration`
    is the configuration that a dump of a service has; None without one.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    devices: DeviceObjects = NO_DEVICES
    unknown: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    forbidden: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    spread_sources: SpreadSources = NO_SPREAD_SOURCES
    profiles: Profiles = field(default_factory=lambda: NO_PROFILES)
    daemons: tuple[Pod, ...] = ()
    budgets: tuple[DisruptionBudget, ...] | None = None
    scales: Scales = NO_SCALES
    priorities: Priorities | None = None
    priorities_problem: str = ""
    price_overlays: tuple[PriceOverlay, ...] = ()
    where: str = "in the file"
    awaiting_victims: frozenset[PodUid] = frozenset()
    groups: tuple[KnownGroup, ...] | None = None
    price_table: Mapping[RowKey, int] | None = None
    configuration: Mapping[str, Any] | None = None
    kubernetes: VersionFound = ASSUMED
    headroom: HeadroomRequests = NO_HEADROOM_REQUESTS
    made: Mapping[PodKey, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What answers say beside the plan."""
        return *dict.fromkeys(self.made.values()), *self.refused

    def counted_budgets(self) -> CountedBudgets | None:
        """The budgets with what they allow now; None if there are none."""
        return None if self.budgets is None else counted(self.budgets, self.pods, self.scales)

    def lack(self, kind: str) -> str:
        """Why nothing is known of this kind, as a text."""
        resource = self.forbidden.get(kind)
        return f"no {kind} {self.where}" if resource is None else f"the right to list {resource} is lacking"

    def skipped(self, kind: NumberedGroup, *, but: str = "") -> list[str]:
        """The texts of `skipped_rules` for pods of this kind, not about objects of kind `but`, and those about objects that do
        not count."""
        notes, asks = skipped_rules(kind, self.unknown - {but}, self.lack), kind.kind.pod_constraints or NO_POD_CONSTRAINTS
        if asks.resource_claims or asks.container_devices:
            notes += [f"{_TAINTS_BY_RULE}: the {each}s {self.where} do not count: {why}" for each, why in self.ignored.items()]
        return notes

    def without_pods(self, effect: str) -> tuple[str, ...]:
        """What is not judged because the cluster has no Pod object, which has this effect."""
        effect = "only those that were added count" if self.made else effect
        return (f"pods, so that {effect}: {self.lack('Pod')}",) if "Pod" in self.unknown else ()


def read_cluster(
    *documents: Mapping[str, Any] | msgspec.Raw,
    request: VersionRequest = NO_REQUEST,
    said: KubernetesVersion | None = None,
    add_missing: bool = False,
    where: str = "in the file",
    absent: Set[str] | None = None,
) -> Cluster:
    """Decodes documents, given as JSON values or as JSON text, into one cluster. `request` and `said` are what a user and the
    API server say about the version of Kubernetes. `add_missing`: the pods that controllers lack are made. A
    running cluster makes them itself. `where` the objects come from, for messages. `absent`: kinds of which there is no
    object, if the documents are all that a cluster has; None: they may be a part of it, as files are.

    Raises `ClusterError` if an object cannot be read, or if a node or pod is there twice."""
    texts = [_as_raw(document) for document in documents]
    by_kind, listed = objects_by_kind(texts, (*READ, TAINT_RULE, *_SPREADING, *_SCALING))
    complete = frozenset() if absent is None else listed | absent
    kinds, kubernetes = KindInterner(), _version(request, by_kind["Pod"], said)
    admission = Admission(by_kind, kubernetes.version, complete, where)
    by_kind = admission.with_defaults(by_kind)
    templates = PodDecoder(kinds, kubernetes.version)
    pods = _each(by_kind["Pod"], PodDecoder(kinds, kubernetes.version).decode, kubernetes.version)
    found = _auxiliary_objects(by_kind, listed, kinds, kubernetes.version)
    overlays, unread_overlays = _price_overlays(by_kind[_OVERLAY])
    cluster = Cluster(
        kubernetes=kubernetes,
        nodes=tuple(_each(by_kind["Node"], NodeDecoder().decode)),
        pods=tuple(pods),
        namespaces=by_name(found, "namespaces") or {},
        storage=storage_of(found),
        devices=devices_of(found),
        unknown=_unknown(by_kind, kubernetes.version) - listed - complete,
        listed=complete,
        where=where,
        ignored=_ignored(by_kind, kubernetes.version),
        spread_sources=_spread_sources(by_kind),
        budgets=tuple(_each(by_kind[BUDGET], decode_budget)) or (() if BUDGET in listed else None),
        scales=_scales(by_kind, complete),
        daemons=tuple(
            item.decoded(partial(decode_daemon_set, templates), kubernetes.version, templated=True)
            for item in by_kind[DAEMON_SET]
            if admission.makes_pods(item)
        ),
        headroom=headroom_of(by_kind, templates, kubernetes.version),
        unread=(*unread_configurations(by_kind), *unread_overlays),
        price_overlays=overlays,
    )
    _refuse_duplicates(by_kind["Node"], by_kind["Pod"], *(by_kind[kind] for kind in (*DEVICE_KINDS, TAINT_RULE)))
    cluster = _with_priorities(cluster, by_kind[CONFIG_MAP])
    cluster = _with_missing(cluster, by_kind, templates, admission) if add_missing else cluster
    return replace(cluster, unread=(*admission.unknown, *cluster.unread), refused=tuple(admission.refused))


def _with_missing(
    cluster: Cluster, by_kind: Mapping[str, Sequence[FoundObject]], decoder: PodDecoder, admission: Admission
) -> Cluster:
    """Adds the pods that controllers of the file would create. Claims are added only if those of the other pods are known."""
    kubernetes, scales, sources, claims = (
        cluster.kubernetes.version,
        cluster.scales,
        cluster.spread_sources,
        cluster.storage.claims,
    )
    classes_known = cluster.storage.classes is not None
    missing = missing_pods(by_kind, cluster.pods, scales, kubernetes, admission, classes_known=classes_known)
    # A StatefulSet deletes a pod that has ended before it makes the next of that name.
    kept = (pod for pod in cluster.pods if pod.key not in missing.remarks)
    pods = (*kept, *_each(missing.pods, decoder.decode, kubernetes))
    daemons, remarks = missing_daemons(cluster.daemons, cluster.nodes, pods, kubernetes, admission)
    if missing.claims and (claims is not None or not any(pod.kind.mounts_claims for pod in cluster.pods)):
        made = {(item.namespace, item.name): item.decoded(decode_claim) for item in missing.claims}
        cluster = replace(cluster, storage=replace(cluster.storage, claims={**(claims or {}), **made}))
    return replace(
        cluster,
        pods=(*pods, *daemons),
        scales=replace(scales, deployments={**scales.deployments, **missing.deployments}),
        spread_sources=replace(sources, controllers={**sources.controllers, **missing.selectors}),
        made={**missing.remarks, **remarks},
        headroom=replace(cluster.headroom, quotas=tuple(item.decoded(decode_quota) for item in admission.quotas())),
    )


def _price_overlays(items: Iterable[FoundObject]) -> tuple[tuple[PriceOverlay, ...], tuple[str, ...]]:
    """The changes of prices, and a text about each NodeOverlay that cannot be read: only prices depend on it."""
    found, unread = list[PriceOverlay](), list[str]()
    for item in items:
        try:
            overlay = item.decoded(decode_overlay)
        except ClusterError as err:
            unread.append(f"prices by {item.title}: {err}")
        else:
            found += () if overlay is None else (overlay,)
    return tuple(found), tuple(unread)


def _unknown(by_kind: Mapping[str, Sequence[FoundObject]], kubernetes: KubernetesVersion) -> frozenset[str]:
    rules = (TAINT_RULE,) if kubernetes.follows(Rule.DEVICE_TAINT_RULES) else ()
    return frozenset(kind for kind in (*READ, *rules, DAEMON_SET) if not by_kind[kind])


def _ignored(by_kind: Mapping[str, Sequence[FoundObject]], kubernetes: KubernetesVersion) -> dict[str, str]:
    if not by_kind[TAINT_RULE] or kubernetes.follows(Rule.DEVICE_TAINT_RULES):
        return {}
    gate = "DRADeviceTaintRules" if kubernetes.follows(Rule.DEVICE_TAINTS) else "DRADeviceTaints"
    return {TAINT_RULE: f"in Kubernetes {kubernetes} the feature gate {gate} is off"}


def _version(request: VersionRequest, pods: Sequence[FoundObject], said: KubernetesVersion | None) -> VersionFound:
    try:
        return find_version(request, pods, said)
    except ValueError as err:
        raise ClusterError("--feature-gates", "", str(err)) from err


def _as_raw(document: Mapping[str, Any] | msgspec.Raw) -> msgspec.Raw:
    try:
        return document if isinstance(document, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(document))
    except RecursionError as err:
        raise ClusterError("the file", "", NESTED_TOO_DEEPLY) from err


def _with_priorities(cluster: Cluster, config_maps: Sequence[FoundObject]) -> Cluster:
    """Adds the priorities of the expander's ConfigMap. If several namespaces have one, kube-system's is taken. One that cannot
    be decoded only sets `priorities_problem`."""
    found = [item for item in config_maps if item.name == PRIORITIES_CONFIG_MAP]
    found.sort(key=lambda item: item.namespace != "kube-system")
    try:
        return replace(cluster, priorities=decode_priorities(found[0].raw)) if found else cluster
    except BadPriorities as err:
        return replace(cluster, priorities_problem=str(err))


def _spread_sources(by_kind: Mapping[str, Sequence[FoundObject]]) -> SpreadSources:
    services: dict[str, tuple[Mapping[str, str], ...]] = {}
    for item in by_kind[SERVICE]:
        services[item.namespace] = (*services.get(item.namespace, ()), item.decoded(decode_service))
    controllers = {
        (item.namespace, Owner(group, kind, item.name)): item.decoded(partial(decode_selector, kind))
        for group, kind in SPREADING
        for item in by_kind[kind]
    }
    return SpreadSources(services=services, controllers=controllers)


def with_profiles(cluster: Cluster, profiles: Profiles) -> Cluster:
    """The cluster whose pods are judged by these profiles of kube-scheduler. If one of them spreads pods by default, Services
    and controllers have to be known."""
    if not any(profile.spread for profile in profiles.values()):
        return replace(cluster, profiles=profiles)
    sources, unknown = cluster.spread_sources, cluster.unknown
    return replace(
        cluster,
        profiles=profiles,
        pods=tuple(with_default_spread(pod, profiles, sources) for pod in cluster.pods),
        unknown=unknown | {SERVICE} if sources == NO_SPREAD_SOURCES and SERVICE not in cluster.listed else unknown,
    )


def _scales(by_kind: Mapping[str, Sequence[FoundObject]], listed: Set[str]) -> Scales:
    found = [read for kind in SCALED for read in _each(by_kind[kind], partial(decode_scale, kind))]
    return scales_of(found, (kind for kind in SCALED if by_kind[kind] or kind in listed))


def _auxiliary_objects(
    by_kind: Mapping[str, Sequence[FoundObject]], listed: Set[str], kinds: KindInterner, kubernetes: KubernetesVersion
) -> dict[AuxiliaryKind, dict[AuxiliaryKey, Any]]:
    """The objects of `_AUXILIARY`, by type; types without an object and without a list are left out."""
    types = {each.name: each for each in auxiliary(kinds, lambda *_: None, kubernetes=kubernetes)}
    objects: dict[AuxiliaryKind, dict[AuxiliaryKey, Any]] = {name: {} for kind, name in _AUXILIARY.items() if kind in listed}
    for kind, name in _AUXILIARY.items():
        for item in by_kind[kind] if name in types else ():
            event = item.decoded(types[name].decode).event
            assert isinstance(event, AuxiliarySeen)
            objects.setdefault(event.kind, {})[event.key] = event.value
    return objects


def _each(
    found: Sequence[FoundObject], decode: Callable[[bytes], T], kubernetes: KubernetesVersion = DEFAULT_VERSION
) -> list[T]:
    return [item.decoded(decode, kubernetes) for item in found]


def _refuse_duplicates(*groups: Sequence[FoundObject]) -> None:
    for group in groups:
        seen: dict[str, str] = {}
        for item in group:
            first = seen.setdefault(item.title, item.path)
            if first != item.path:
                raise ClusterError(item.path, item.title, f"is there twice, first at {first}")


#: For each kind of object: the rules on pods with volume claims that need it.
_NEEDED_FOR_CLAIMS: Final = {
    "PersistentVolumeClaim": ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    "PersistentVolume": ("VolumeBinding", "VolumeZone"),
    "StorageClass": ("VolumeBinding",),
    "CSINode": ("NodeVolumeLimits",),
    "CSIDriver": ("VolumeBinding (room for new volumes)",),
    "CSIStorageCapacity": ("VolumeBinding (room for new volumes)",),
    "VolumeAttachment": ("NodeVolumeLimits (volumes of pods that have gone)",),
}
#: Kinds that pods with resource claims need. If the file has no object of such a kind, pods are judged as if none existed.
#: Other kinds count as unknown then.
_NEEDED_FOR_DEVICES: Final = ("ResourceClaim", "ResourceSlice", "DeviceClass")


def skipped_rules(kind: NumberedGroup, unknown: Set[str], lack: Callable[[str], str]) -> list[str]:
    """One text for each missing kind of object that may matter for the pod. `unknown` are the missing kinds; `lack` says why
    one is missing."""
    return [f"{', '.join(rules)}: {lack(missing)}" for missing, rules in _missing(kind, unknown)]


def _missing(kind: NumberedGroup, unknown: Set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if "Node" in unknown:
        yield "Node", ("all rules",)
    asks = kind.kind.pod_constraints or NO_POD_CONSTRAINTS
    if asks.claims:
        yield from ((missing, rules) for missing, rules in _NEEDED_FOR_CLAIMS.items() if missing in unknown)
    elif asks.inline_disks and "CSINode" in unknown:
        yield "CSINode", _NEEDED_FOR_CLAIMS["CSINode"]
    if asks.resource_claims:
        named = any(use.claim for use in asks.resource_claims)
        needed = _NEEDED_FOR_DEVICES if named else _NEEDED_FOR_DEVICES[1:]
        yield from ((missing, ("DynamicResources",)) for missing in needed if missing in unknown)
        if TAINT_RULE in unknown:
            yield TAINT_RULE, (_TAINTS_BY_RULE,)
    if SERVICE in unknown and not asks.spread:
        yield SERVICE, ("PodTopologySpread (default constraints)",)
    if "Namespace" in unknown and any(term.namespace_selector for term in terms_of(asks)):
        yield "Namespace", ("InterPodAffinity (namespaceSelector)",)
