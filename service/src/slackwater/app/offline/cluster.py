"""A cluster as kubectl writes it -> nodes, pods, storage and namespaces. Every object is completed first.

Read are v1 Lists, lists of one kind (PodList), lists in lists and single objects; kinds that nothing here reads are
skipped. A kind of which there is no object at all is unknown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from slackwater.app.offline.completing import completed_pod, completed_template
from slackwater.app.offline.defaultspread import OWNERS, SERVICE, Spreading
from slackwater.app.offline.knowngroups import KnownGroup
from slackwater.app.offline.scales import SCALED, decode_scale, scales_of
from slackwater.decide.scaleup.expanders.priority import BadPriorities, Priorities
from slackwater.edge.kube import storage as decoding
from slackwater.edge.kube.decode import NodeDecoder, PodDecoder, decode_budget
from slackwater.edge.kube.priorities import CONFIG_MAP, decode_priorities
from slackwater.edge.kube.surroundings import decode_daemon_set
from slackwater.model.ids import PodUid
from slackwater.model.kinds import KindInterner
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.selectors import Selector
from slackwater.model.storage import Attachment, Storage
from slackwater.simulate.disruptioncounts import NO_SCALES, Scales

T = TypeVar("T")
_DEEPEST: Final = 16
_DAEMON_SET: Final = "DaemonSet"
_CONFIG_MAP: Final = "ConfigMap"
_BUDGET: Final = "PodDisruptionBudget"
_NAMESPACED: Final = frozenset(
    {"Pod", "PersistentVolumeClaim", "CSIStorageCapacity", _DAEMON_SET, _CONFIG_MAP, _BUDGET, *SCALED}
)
_SPREADING: Final = (SERVICE, *OWNERS)
#: What only adding and removing nodes reads.
_SCALING: Final = (_DAEMON_SET, _CONFIG_MAP, _BUDGET, *(kind for kind in SCALED if kind not in OWNERS))
READ: Final = (
    "Node",
    "Pod",
    "Namespace",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)


class ClusterError(Exception):
    """An object that cannot be read: where it is in the file, which it is, and what is wrong."""

    def __init__(self, path: str, name: str, problem: str) -> None:
        super().__init__(path, name, problem)
        self.path, self.name, self.problem = path, name, problem

    def __str__(self) -> str:
        return f"{self.path}{f' ({self.name})' if self.name else ''}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Decoded objects, in the order of the file. `unknown` are kinds of which there is none, `where` says where they would be.

    `spread_by_default` selects, for pods that state no spread constraints, the pods of their Services and controllers.
    `daemons` are the pods that DaemonSets would make, `budgets` None where the file has no PodDisruptionBudget; those without a
    status are not counted yet, for which `scales` says how many pods controllers want. `priorities` is
    Cluster Autoscaler's ConfigMap for its expander of that name, None where the file has none that can be read: then
    `priorities_problem` may say why.

    Of a running service alone: `promised` are pods without a node for which room is kept, `groups` the node groups as their
    providers have them.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    unknown: frozenset[str] = frozenset()
    spread_by_default: Mapping[PodUid, Selector] = field(default_factory=dict)
    daemons: tuple[Pod, ...] = ()
    budgets: tuple[DisruptionBudget, ...] | None = None
    scales: Scales = NO_SCALES
    priorities: Priorities | None = None
    priorities_problem: str = ""
    where: str = "in the file"
    promised: frozenset[PodUid] = frozenset()
    groups: tuple[KnownGroup, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    kind: str
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        meta = self.body["metadata"]
        namespace = meta.get("namespace")
        return f"{self.kind} {f'{namespace}/' if namespace else ''}{meta['name']}"


def read_cluster(*documents: object) -> Cluster:
    """Raises `ClusterError`."""
    by_kind: dict[str, list[_Found]] = {kind: [] for kind in (*READ, *_SPREADING, *_SCALING)}
    for number, document in enumerate(documents):
        path = "" if len(documents) == 1 else f"document {number}"
        for found in _objects(document, path, "", 0):
            by_kind[found.kind].append(found)
    kinds = KindInterner()
    daemons = PodDecoder(kinds)
    cluster = Cluster(
        nodes=tuple(_each(by_kind["Node"], NodeDecoder().decode)),
        pods=tuple(_each(by_kind["Pod"], PodDecoder(kinds).decode)),
        namespaces=dict(_each(by_kind["Namespace"], decoding.decode_namespace)),
        storage=_storage(by_kind),
        unknown=frozenset(kind for kind in (*READ, _DAEMON_SET) if not by_kind[kind]),
        spread_by_default=_spread_by_default(by_kind),
        budgets=tuple(_each(by_kind[_BUDGET], decode_budget)) or None,
        scales=_scales(by_kind),
        daemons=tuple(_each(by_kind[_DAEMON_SET], lambda raw: decode_daemon_set(daemons, raw))),
    )
    cluster = _with_priorities(cluster, by_kind[_CONFIG_MAP])
    _refuse_twins(by_kind["Node"], by_kind["Pod"])
    return cluster


def _with_priorities(cluster: Cluster, config_maps: Sequence[_Found]) -> Cluster:
    """From the expander's ConfigMap; that of kube-system where several namespaces have one. A broken one has no effect."""
    found = [item for item in config_maps if item.body["metadata"]["name"] == CONFIG_MAP]
    found.sort(key=lambda item: item.body["metadata"]["namespace"] != "kube-system")
    try:
        return replace(cluster, priorities=decode_priorities(msgspec.json.encode(found[0].body))) if found else cluster
    except BadPriorities as err:
        return replace(cluster, priorities_problem=str(err))


def _spread_by_default(by_kind: Mapping[str, Sequence[_Found]]) -> dict[PodUid, Selector]:
    found = [item for kind in _SPREADING for item in by_kind[kind]]
    if not found:
        return {}
    try:
        spreading = Spreading((item.kind, item.body) for item in found)
        selectors = (
            (PodUid(item.body["metadata"]["uid"]), spreading.selector_for(item.body))
            for item in by_kind["Pod"]
            if not item.body["spec"].get("topologySpreadConstraints") and not item.body["spec"].get("nodeName")
        )
        return {uid: selector for uid, selector in selectors if selector is not None}
    except (ValueError, TypeError, AttributeError) as err:
        raise ClusterError(", ".join(_SPREADING), "", str(err)) from err


def _scales(by_kind: Mapping[str, Sequence[_Found]]) -> Scales:
    found = [read for kind in SCALED for read in _each(by_kind[kind], partial(decode_scale, kind))]
    return scales_of(found, (kind for kind in SCALED if by_kind[kind]))


def _storage(by_kind: Mapping[str, Sequence[_Found]]) -> Storage:
    def all_of(kind: str, decode: Callable[[bytes], T]) -> list[T] | None:
        return _each(by_kind[kind], decode) or None

    claims = all_of("PersistentVolumeClaim", decoding.decode_claim)
    volumes = all_of("PersistentVolume", decoding.decode_volume)
    classes = all_of("StorageClass", decoding.decode_class)
    csi_nodes = all_of("CSINode", decoding.decode_csi_node)
    drivers = all_of("CSIDriver", decoding.decode_driver)
    capacities = all_of("CSIStorageCapacity", decoding.decode_capacity)
    attachments = all_of("VolumeAttachment", decoding.decode_attachment)
    return Storage(
        claims=None if claims is None else {(claim.namespace, claim.name): claim for claim in claims},
        volumes=None if volumes is None else {volume.name: volume for volume in volumes},
        classes=None if classes is None else {storage_class.name: storage_class for storage_class in classes},
        csi_nodes=None if csi_nodes is None else {node.name: node for node in csi_nodes},
        drivers=None if drivers is None else {driver.name: driver for driver in drivers},
        capacities=None if capacities is None else tuple(capacities),
        attachments=None if attachments is None else _by_node(attachments),
    )


def _by_node(attachments: Sequence[Attachment]) -> dict[str, tuple[Attachment, ...]]:
    found: dict[str, tuple[Attachment, ...]] = {}
    for attachment in attachments:
        found[attachment.node] = (*found.get(attachment.node, ()), attachment)
    return found


def _objects(body: object, path: str, kind: str, depth: int) -> Iterator[_Found]:
    """Every object of a kind that is read; `kind` is what a typed list says of items that do not say it themselves."""
    if not isinstance(body, Mapping):
        raise ClusterError(path or "the file", "", f"got {_shown(body)}, want an object")
    kind = body.get("kind") or kind
    if isinstance(kind, str) and kind.endswith("List") and "items" in body:
        items = body["items"] or []
        if not isinstance(items, Sequence) or isinstance(items, str):
            raise ClusterError(_below(path, "items"), "", f"got {_shown(items)}, want a list")
        if depth == _DEEPEST:
            raise ClusterError(path, "", f"lists in lists deeper than {_DEEPEST}")
        for index, item in enumerate(items):
            yield from _objects(item, _below(path, f"items[{index}]"), kind.removesuffix("List"), depth + 1)
    elif not kind or not isinstance(kind, str):
        raise ClusterError(_below(path, "kind"), "", f"got {_shown(body.get('kind'))}, want the kind of the object")
    elif kind in READ or kind in _SPREADING or kind in _SCALING:
        yield _Found(path or kind, kind, _completed(body, path or kind, kind))


def _completed(body: Mapping[str, Any], path: str, kind: str) -> Mapping[str, Any]:
    meta = body.get("metadata")
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(name, str) or not name:
        raise ClusterError(_below(path, "metadata.name"), kind, f"got {_shown(name)}, want a name")
    meta = dict(meta)
    if kind in _NAMESPACED and not meta.get("namespace"):
        meta["namespace"] = "default"
    if not meta.get("uid"):  # a manifest's; the API server gives each object one
        meta["uid"] = f"{kind}/{meta.get('namespace', '')}/{name}"
    body = {**body, "metadata": meta}
    try:
        match kind:
            case "Pod":
                return completed_pod(body)
            case "DaemonSet":
                return completed_template(body)
            case _:
                return body
    except (ValueError, TypeError, AttributeError) as err:
        raise ClusterError(path, f"{kind} {meta['namespace']}/{name}", str(err)) from err


def _each(found: Sequence[_Found], decode: Callable[[bytes], T]) -> list[T]:
    decoded = []
    for item in found:
        try:
            decoded.append(decode(msgspec.json.encode(item.body)))
        except (ValueError, TypeError) as err:
            raise ClusterError(item.path, item.name, str(err)) from err
    return decoded


def _refuse_twins(*groups: Sequence[_Found]) -> None:
    for group in groups:
        seen: dict[str, str] = {}
        for item in group:
            first = seen.setdefault(item.name, item.path)
            if first != item.path:
                raise ClusterError(item.path, item.name, f"is there twice, first at {first}")


def _below(path: str, step: str) -> str:
    return f"{path}.{step}" if path else step


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
