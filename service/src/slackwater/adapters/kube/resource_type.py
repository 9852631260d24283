"""The paths of resource types, and how the objects of nodes, pods and budgets become events.

`collection_path` and `object_path` build the API paths of namespaced objects.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from slackwater.adapters.api_objects import ObjectDecoder, Wire
from slackwater.adapters.kube.decode import ENDED, NodeDecoder, PodDecoder, decode_budget
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.structs import MetaWire
from slackwater.model.events import BudgetGone, BudgetSeen, NodeGone, NodeSeen, ObjectUnreadable, PodGone, PodSeen, SourceEvent
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.pod_constraints import KindInterner
from slackwater_protocol.names import CAPACITY_BUFFER_GROUP

K = TypeVar("K", bound=Hashable)

_OF_CORE: Final = (
    "nodes pods namespaces persistentvolumeclaims persistentvolumes services replicationcontrollers podtemplates "
    "resourcequotas limitranges"
)
_OF_STORAGE: Final = "storageclasses csinodes csidrivers csistoragecapacities volumeattachments"
#: The path of each resource type that planners and commands read in one version of its API, by name.
PATHS: Final[Mapping[str, str]] = {
    name: f"{group}/{name}"
    for group, names in {
        "/api/v1": _OF_CORE,
        "/apis/storage.k8s.io/v1": _OF_STORAGE,
        "/apis/resource.k8s.io/v1": "resourceslices deviceclasses resourceclaims resourceclaimtemplates",
        "/apis/apps/v1": "daemonsets deployments replicasets statefulsets",
        "/apis/batch/v1": "jobs",
        "/apis/scheduling.k8s.io/v1": "priorityclasses",
        "/apis/node.k8s.io/v1": "runtimeclasses",
        f"/apis/{CAPACITY_BUFFER_GROUP}/v1beta1": "capacitybuffers",
        "/apis/karpenter.sh/v1alpha1": "nodeoverlays",
        "/apis/policy/v1": "poddisruptionbudgets",
    }.items()
    for name in names.split()
}
NODES_PATH: Final = PATHS["nodes"]
PODS_PATH: Final = PATHS["pods"]

#: Called for an object that cannot be read, which is then skipped: ("pods", "ns/name", what is wrong).
OnBroken = Callable[[str, str, Exception], None]


class Found(NamedTuple, Generic[K]):
    """A decoded object: its key (unique at one time), its UID (unique for ever), its version, and the event."""

    key: K
    uid: str
    version: int
    event: SourceEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType(Generic[K]):
    """One resource type: the API path of its objects, and how they become events.

    `decode` raises ValueError for an object that it cannot read.

    `may_be_absent`: a 404 means that the type does not exist (its CRD is not installed), so there are no objects. For other
    types a 404 comes from something between us and the API server, and must not delete what we know.
    """

    name: str
    path: str
    decode: Callable[[bytes | msgspec.Raw], Found[K]]
    key_of: Callable[[str, str], K]  #: (namespace, name)
    gone: Callable[[K, str], SourceEvent]  #: (key, UID)
    on_broken: OnBroken
    #: The event for an object that cannot be read, from (JSON, identity, reason). None: such objects are skipped.
    unreadable: "Callable[[bytes | msgspec.Raw, MetaWire, str], SourceEvent | None] | None" = None
    may_be_absent: bool = False
    field_selector: str = ""


def nodes(on_broken: OnBroken) -> ResourceType[NodeName]:
    decoder = NodeDecoder()

    def decode(raw: bytes | msgspec.Raw) -> Found[NodeName]:
        node = decoder.decode(raw)
        return Found(node.name, node.uid, node.resource_version, NodeSeen(node))

    return ResourceType(
        name="nodes",
        path=NODES_PATH,
        decode=decode,
        key_of=lambda _, name: NodeName(name),
        gone=lambda name, _: NodeGone(name),
        on_broken=on_broken,
        unreadable=lambda _, meta, why: ObjectUnreadable(meta.uid, f"node {meta.name}", NodeName(meta.name), why),
    )


def pods(kinds: KindInterner, on_broken: OnBroken, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> ResourceType[PodKey]:
    decoder = PodDecoder(kinds, kubernetes)

    def decode(raw: bytes | msgspec.Raw) -> Found[PodKey]:
        pod = decoder.decode(raw)
        if pod.vertical_problem is not None:
            on_broken("pods", str(pod.key), ValueError(pod.vertical_problem))
        return Found(pod.key, pod.uid, pod.resource_version, PodSeen(pod))

    return ResourceType(
        name="pods",
        path=PODS_PATH,
        decode=decode,
        key_of=PodKey,
        gone=lambda key, uid: PodGone(PodUid(uid), key),
        on_broken=on_broken,
        unreadable=_unreadable_pod,
    )


class _PlaceSpecWire(Wire):
    node_name: str = ""


class _PlaceStatusWire(Wire):
    phase: str = ""


class _PlaceWire(Wire):
    """A pod's node and phase: read from pods that cannot be decoded whole."""

    spec: _PlaceSpecWire = msgspec.field(default_factory=_PlaceSpecWire)
    status: _PlaceStatusWire = msgspec.field(default_factory=_PlaceStatusWire)


_PLACE: Final = ObjectDecoder(_PlaceWire)


def _unreadable_pod(raw: bytes | msgspec.Raw, meta: MetaWire, why: str) -> SourceEvent | None:
    try:
        place = _PLACE.decode(raw)
    except UNREADABLE:
        return None
    node = NodeName(place.spec.node_name) if place.spec.node_name and place.status.phase not in ENDED else None
    return ObjectUnreadable(meta.uid, f"pod {meta.namespace}/{meta.name}", node, why)


def has_ended(raw: bytes | msgspec.Raw) -> bool:
    """Whether a pod that cannot be decoded whole has ended, so that it counts nowhere."""
    try:
        return _PLACE.decode(raw).status.phase in ENDED
    except UNREADABLE:
        return False


def budgets(on_broken: OnBroken) -> ResourceType[tuple[str, str]]:
    """The type PodDisruptionBudget. Its key is (namespace, name)."""

    def decode(raw: bytes | msgspec.Raw) -> Found[tuple[str, str]]:
        budget = decode_budget(raw)
        key = (budget.namespace, budget.name)
        return Found(key, budget.uid, budget.resource_version, BudgetSeen(budget))

    return ResourceType(
        name="poddisruptionbudgets",
        path=PATHS["poddisruptionbudgets"],
        decode=decode,
        key_of=lambda namespace, name: (namespace, name),
        gone=lambda key, _: BudgetGone(*key),
        on_broken=on_broken,
    )


def collection_path(path: str, namespace: str) -> str:
    """The path of one namespace's objects; `path` lists those of all namespaces."""
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{quote(namespace, safe='')}/{plural}"


def object_path(path: str, key: PodKey) -> str:
    """The path of one object; `path` lists the objects of all namespaces."""
    return f"{collection_path(path, key.namespace)}/{quote(key.name, safe='')}"
