"""Finds the objects in documents as kubectl writes them, checks and completes them, and decodes controllers. An object stays
bytes until it is decoded.

- `objects_by_kind`: the objects of v1 Lists, typed lists (PodList), lists in lists, and single objects. One without a
  name gets that which its generate_name begins, with its number among the objects of its kind.
- `decode_scale`, `scales_of`: how many pods each controller wants, and the Deployment that a ReplicaSet belongs to.
- `check_shape`: checks the types of lists, amounts, affinities, tolerations and spread constraints, so that an error names its
  place. Completing rewrites these parts, and the decoders read some of them as separate bytes, so an error found later would
  not say where in the object it is.
- `completed_pod`, `completed_template`: a new object with defaulted requests, rounded amounts, host ports and default
  tolerations, as the API server sets them before it stores the object, as far as they matter for the placement of pods.

Invariant: an object that comes from an API server is complete already and stays equal. The decoders in `adapters.kube` add the
other defaults: `matchLabelKeys`, allocatable from capacity, the name label of namespaces, volume binding modes.

Parsed into Python objects a document would take eight times its size, and most of it is never used. So each object is parsed,
completed, decoded and dropped by itself. Errors name the object, its path in the document, what was found and what is wanted.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.api_objects import Quantity, Wire, without_nulls
from slackwater.adapters.kube.auxiliary import decode_replicas
from slackwater.adapters.kube.decode import read_meta
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.eviction_facts import controller_of
from slackwater.adapters.kube.structs import AffinityWire, SpreadWire, TolerationWire
from slackwater.app.offline.limit_ranges import Object, containers_of, totals
from slackwater.fit.remaining_pdb_tracker import DEPLOYMENT, Scales
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.eviction_facts import Owner
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, Rule
from slackwater_protocol.units import QuantityError, parse_nanos

#: The kinds that have a scale, with their API groups.
SCALED: Final = {"ReplicationController": "", "ReplicaSet": "apps", "StatefulSet": "apps", "Deployment": "apps"}
Read = tuple[ControllerKey, int, ControllerKey | None]


def decode_scale(kind: str, raw: bytes | msgspec.Raw) -> Read:
    """Decodes a controller: its key, how many pods it wants, and the Deployment that it belongs to. Raises ValueError."""
    meta = read_meta(raw)
    above = controller_of(meta)
    belongs = above is not None and (above.group, above.kind) == DEPLOYMENT
    return (
        (meta.namespace, Owner(SCALED[kind], kind, meta.name)),
        decode_replicas(raw).replicas,
        (meta.namespace, above) if belongs and above is not None else None,
    )


def scales_of(found: Sequence[Read], kinds: Iterable[str]) -> Scales:
    """The scales of the decoded controllers. `kinds` are the kinds that have an object in the file. The file is assumed to have
    all controllers of these kinds."""
    return Scales(
        replicas={key: wanted for key, wanted, _ in found},
        deployments={key: deployment for key, _, deployment in found if deployment is not None},
        known=frozenset((SCALED[kind], kind) for kind in kinds),
    )


T = TypeVar("T")
_DEEPEST: Final = 16
DAEMON_SET: Final = "DaemonSet"
POD_TEMPLATE: Final = "PodTemplate"
BUFFER: Final = "CapacityBuffer"
QUOTA: Final = "ResourceQuota"
JOB: Final = "Job"
LIMIT_RANGE: Final = "LimitRange"
PRIORITY_CLASS: Final = "PriorityClass"
RUNTIME_CLASS: Final = "RuntimeClass"
_TEMPLATE: Final = "spec.template"
_TEMPLATED: Final = "template"
BUDGET: Final = "PodDisruptionBudget"
#: The kinds of dynamic resource allocation.
DEVICE_KINDS: Final = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
#: Kinds of configurations, whose objects need no name, and how they are passed: they are not read from a file of objects.
CONFIGURATIONS: Final = {
    "SlackwaterConfiguration": "pass it with --config",
    "KubeSchedulerConfiguration": "name a file with it in extender.schedulerConfig of --config",
}
#: Read only where kube-scheduler of the version reads it.
TAINT_RULE: Final = "DeviceTaintRule"
_NAMESPACED: Final = frozenset(
    {
        "Pod",
        "PersistentVolumeClaim",
        "CSIStorageCapacity",
        DAEMON_SET,
        "ConfigMap",
        BUDGET,
        "ResourceClaim",
        "ResourceClaimTemplate",
        POD_TEMPLATE,
        BUFFER,
        QUOTA,
        LIMIT_RANGE,
        JOB,
        *SCALED,
    }
)


class ClusterError(Exception):
    """An object cannot be read. `path` is its place in the file, `name` its kind and name, `problem` what is wrong."""

    def __init__(self, path: str, name: str, problem: str) -> None:
        super().__init__(path, name, problem)
        self.path, self.name, self.problem = path, name, problem

    def __str__(self) -> str:
        return f"{self.path}{f' ({self.name})' if self.name else ''}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundObject:
    """One object, not decoded yet. `path` is its place in the file; `raw` is a view into the file's bytes. `uid` is empty
    in a manifest, which no API server has seen."""

    path: str
    kind: str
    namespace: str
    name: str
    raw: msgspec.Raw
    uid: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    def decoded(
        self, decode: Callable[[bytes], T], kubernetes: KubernetesVersion = DEFAULT_VERSION, *, templated: bool = False
    ) -> T:
        """Completes the object by the rules of this version and decodes it with `decode`. `templated`: `decode` reads its
        template as a pod. Raises `ClusterError`."""
        below, kind = "", _TEMPLATED if templated else self.kind
        try:
            shape = check_shape(kind, self.raw)
            below = _TEMPLATE if templated else ""
            return decode(msgspec.json.encode(self._completed(kind, shape, kubernetes)))
        except UNREADABLE as err:
            place, problem = problem_of(kind, self.raw, err)
            place = place if place.startswith(below) else _below(below, place)
            raise ClusterError(_below(self.path, place), self.title, problem) from err

    def _completed(self, kind: str, shape: object, kubernetes: KubernetesVersion) -> Mapping[str, Any]:
        """The object; what is not completed stays bytes. `shape`: that of `check_shape`."""
        body: dict[str, Any] = _FIELDS.decode(self.raw)
        meta: dict[str, Any] = _FIELDS.decode(body["metadata"])
        meta |= {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        # A manifest has no UID; the API server gives each object one.
        meta["uid"] = self.uid or f"{self.kind}/{self.namespace}/{self.name}"
        body["metadata"] = meta
        if isinstance(shape, _Pod):
            return _with_completed_spec(body, shape, kubernetes)
        if kind == _TEMPLATED:
            whole = msgspec.json.decode(self.raw, type=dict[str, Any])
            return completed_template({**whole, "metadata": meta}, kubernetes)
        return body


class _Meta(Wire):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class _Head(Wire):
    """The fields of a document, or of a list's item, that decide whether it is a list or an object."""

    api_version: object = None
    kind: str | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PARTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NONE: Final = msgspec.Raw(b"{}")
_HEAD: Final = msgspec.json.Decoder(_Head)
_META: Final = msgspec.json.Decoder(_Meta | None)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_SHOWN: Final = 60


def objects_by_kind(
    documents: Sequence[msgspec.Raw], kinds: Collection[str]
) -> tuple[dict[str, list[FoundObject]], frozenset[str]]:
    """The objects of the given kinds, in the order of the documents, and the kinds that have a list of their own, which may be
    empty. Other kinds and APIs are skipped. Raises `ClusterError`."""
    listed = set[str]()
    by_kind: dict[str, list[FoundObject]] = {kind: [] for kind in kinds}
    documents_of: dict[tuple[str, str], int] = {}
    for number, document in enumerate(documents):
        path = "" if len(documents) == 1 else f"document {number}"
        for place, kind, head, raw in _objects(document, path, "", 0, listed):
            if kind not in by_kind or _is_foreign(head.api_version):
                continue
            found = _named(place or kind, kind, head, raw, len(by_kind[kind]))
            # must-gather has an object in a list and in a file of its own.
            if not found.uid or documents_of.setdefault((found.uid, found.title), number) == number:
                by_kind[kind].append(found)
    return by_kind, frozenset(listed)


def _is_foreign(api_version: object) -> bool:
    """Is it an API of which nothing is read? Others have kinds of these names too: Longhorn and OpenShift a Node, Volcano a
    Job, Knative a Service."""
    group = str(api_version or "").rpartition("/")[0]
    return "." in group and not group.endswith((".k8s.io", ".x-k8s.io", ".slackwater.dev", "karpenter.sh"))


def _objects(
    raw: msgspec.Raw, path: str, kind: str, depth: int, listed: set[str]
) -> Iterator[tuple[str, str, _Head, msgspec.Raw]]:
    """Yields the path, kind, head and bytes of every object. `kind` is the typed list's kind, for items without one. Adds the
    kinds of typed lists to `listed`."""
    if bytes(memoryview(raw)[:1]) != b"{":
        raise ClusterError(path or "the file", "", f"got {_shown(raw)}, want an object")
    head = _read(_HEAD, raw, path, "")
    kind = head.kind or kind
    if kind.endswith("List") and not isinstance(head.items, msgspec.UnsetType):
        if bytes(memoryview(head.items)[:1]) not in {b"[", b"n"}:
            raise ClusterError(_below(path, "items"), "", f"got {_shown(head.items)}, want a list")
        if depth == _DEEPEST:
            raise ClusterError(path, "", f"lists in lists deeper than {_DEEPEST}")
        listed.add(kind.removesuffix("List"))
        for index, item in enumerate(_read(_ITEMS, head.items, path, "") or ()):
            yield from _objects(item, _below(path, f"items[{index}]"), kind.removesuffix("List"), depth + 1, listed)
    elif not kind:
        raise ClusterError(_below(path, "kind"), "", f"got {head.kind}, want the kind of the object")
    else:
        yield path, kind, head, raw


def _named(path: str, kind: str, head: _Head, raw: msgspec.Raw, number: int) -> FoundObject:
    """The object. `number`: its number among those of its kind, for a generated name."""
    place = _below(path, "metadata")
    meta = _read(_META, head.metadata, place, kind) or _Meta()
    name = meta.name or (f"{meta.generate_name}{number}" if meta.generate_name else "")
    if not name and kind not in CONFIGURATIONS:
        raise ClusterError(_below(place, "name"), kind, f"got {meta.name!r}, want a name")
    namespace = meta.namespace or ("default" if kind in _NAMESPACED else "")
    raw = msgspec.Raw(without_nulls(raw))
    return FoundObject(path=path, kind=kind, namespace=namespace, name=name, raw=raw, uid=meta.uid or "")


def _read(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw, path: str, name: str) -> T:
    try:
        return decoder.decode(raw)
    except UNREADABLE as err:
        place, problem = problem_of("", raw, err)
        raise ClusterError(_below(path, place) or "the file", name, problem) from err


def _below(path: str, step: str) -> str:
    return f"{path}.{step}" if path and step else path or step


def _shown(raw: msgspec.Raw) -> str:
    text = bytes(memoryview(raw)[: _SHOWN + 1]).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_Amounts = dict[str, Quantity | None]
NESTED_TOO_DEEPLY: Final = "lists or objects are nested too deeply, want them flatter"
#: msgspec's error message: what is wrong, and the place.
_LOCATED: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected (?P<want>.+?), got (?P<got>.+)", re.DOTALL)
_AMOUNT: Final = re.compile(r"(requests|limits|overhead|allocatedResources|allocatable|capacity)\.[^.]*")


class _Resources(Wire):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


class _Container(Wire):
    resources: _Resources | None = None
    ports: list[dict[str, Any]] | None = None

    def lacks_defaults(self, *, host: bool) -> bool:
        asks = self.resources
        lacking = asks is not None and asks.limits and not asks.limits.keys() <= (asks.requests or {}).keys()
        return bool(lacking or (host and self.ports))


class _PodSpec(Wire):
    host_network: bool | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _Amounts | None = None
    resources: _Resources | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    topology_spread_constraints: list[SpreadWire] | None = None
    node_selector: dict[str, str] | None = None
    priority_class_name: str | None = None
    runtime_class_name: str | None = None

    def lacks_defaults(self) -> bool:
        host, containers = bool(self.host_network), (*(self.containers or ()), *(self.init_containers or ()))
        return any(container.lacks_defaults(host=host) for container in containers)

    def is_uneven(self) -> bool:
        containers = (*(self.containers or ()), *(self.init_containers or ()))
        return _is_uneven(self.overhead) or _any_uneven((self.resources, *(each.resources for each in containers)))


class _ContainerStatus(Wire):
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None


class _PodStatus(Wire):
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: _Resources | None = None
    allocated_resources: _Amounts | None = None

    def is_uneven(self) -> bool:
        parts = (self, *(self.container_statuses or ()), *(self.init_container_statuses or ()))
        return _any_uneven(each.resources for each in parts) or any(_is_uneven(each.allocated_resources) for each in parts)


class _Pod(Wire):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Template(Wire):
    spec: _PodSpec | None = None


class _ControllerSpec(Wire):
    template: _Template | None = None


class _Controller(Wire):
    spec: _ControllerSpec | None = None
    template: _Template | None = None  #: where a PodTemplate has its template


class _NodeStatus(Wire):
    allocatable: _Amounts | None = None
    capacity: _Amounts | None = None


class _Node(Wire):
    status: _NodeStatus | None = None


_SHAPES: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "Pod": msgspec.json.Decoder(_Pod),
    _TEMPLATED: msgspec.json.Decoder(_Controller),
    "Node": msgspec.json.Decoder(_Node),
}


def check_shape(kind: str, raw: msgspec.Raw) -> object:
    """Checks the types of a Pod, Node or "template" (an object with one), and returns the parts that it has checked; other
    kinds pass. Raises msgspec's ValidationError, which has the path."""
    return _SHAPES[kind].decode(raw) if kind in _SHAPES else None


def problem_of(kind: str, raw: msgspec.Raw, err: Exception) -> tuple[str, str]:
    """The path that a decoding error is about ("" if unknown), and what is wrong there."""
    if isinstance(err, RecursionError):
        return "", NESTED_TOO_DEEPLY
    if isinstance(err, QuantityError) and kind in _SHAPES:
        return next(_bad_amounts(msgspec.to_builtins(_SHAPES[kind].decode(raw)), ""), ""), str(err)
    found = _LOCATED.fullmatch(str(err))
    place, what = (found["place"] or "", found["what"]) if found else ("", str(err))
    expected = _EXPECTED.fullmatch(what)
    return place, f"got {expected['got']}, want {expected['want']}".replace("`", "") if expected else what


def _bad_amounts(part: object, path: str) -> Iterator[str]:
    """Yields the paths of the amounts that are invalid or negative."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            yield from _bad_amounts(each, f"{path}[{index}]")
    elif isinstance(part, dict):
        for key, each in part.items():
            yield from _bad_amounts(each, f"{path}.{key}" if path else key)
    elif isinstance(part, Quantity) and _AMOUNT.search(path) and _is_invalid_amount(part):
        yield path


def _is_invalid_amount(amount: Quantity) -> bool:
    try:
        return parse_nanos(amount) < 0
    except QuantityError:
        return True


_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_HUGE_PAGES: Final = "hugepages-"
_NANOS_PER_MILLI: Final = 10**6
#: The keys under which a pod has resource amounts.
_AMOUNTS: Final = frozenset({"requests", "limits", "overhead", "allocatedResources"})
_SUPPORTED: Final = ("cpu", "memory")
_CONTAINERS: Final = ("containers", "initContainers")


def _with_completed_spec(pod: dict[str, Any], shape: _Pod, kubernetes: KubernetesVersion) -> Mapping[str, Any]:
    """`completed_pod` of a pod whose parts are bytes, after amounts are rounded. Parts that are complete stay bytes: most pods
    are an API server's."""
    pod.setdefault("status", _NONE)
    if shape.status is not None and shape.status.is_uneven():
        pod["status"] = _rounded(msgspec.json.decode(pod["status"]))
    spec = shape.spec or _PodSpec()
    if spec.resources is not None or spec.is_uneven():
        return completed_pod({**pod, "spec": _rounded(msgspec.json.decode(pod["spec"]))}, kubernetes)
    parts: dict[str, Any] = {} if shape.spec is None else _FIELDS.decode(pod["spec"])
    if spec.lacks_defaults():
        parts |= _completed_containers(
            {key: msgspec.json.decode(parts[key]) for key in _CONTAINERS if key in parts}, spec.host_network
        )
    tolerations = spec.tolerations or []
    if missing := _default_tolerations([(each.key, each.effect) for each in tolerations]):
        parts["tolerations"] = [*(_PARTS.decode(parts["tolerations"]) if tolerations else ()), *missing]
    return {**pod, "spec": parts}


def completed_pod(pod: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a pod, whose amounts are rounded, with the defaults that an API server of this version sets. Raises ValueError
    for an invalid quantity."""
    spec = dict(pod.get("spec") or {})
    spec |= _completed_containers(spec, spec.get("hostNetwork"))
    if spec.get("resources"):
        spec["resources"] = _pod_level(spec, kubernetes)
    tolerations = spec.get("tolerations") or ()
    missing = _default_tolerations((each.get("key") or "", each.get("effect") or "") for each in tolerations)
    spec["tolerations"] = [*tolerations, *missing]
    return {**pod, "spec": spec}


def _completed_containers(spec: Object, host: object) -> dict[str, Any]:
    return {key: [_container(each, host=bool(host)) for each in spec[key]] for key in _CONTAINERS if spec.get(key)}


def completed_template(controller: Object, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> dict[str, Any]:
    """A copy of a controller, or of a PodTemplate in the form of one, with its template completed. Raises ValueError for an
    invalid quantity."""
    spec = dict(controller.get("spec") or {})
    template = dict(controller.get("template") or spec.get("template") or {})
    template["spec"] = completed_pod({"spec": _rounded(template.get("spec") or {})}, kubernetes)["spec"]
    return {**{key: controller[key] for key in controller if key != "template"}, "spec": {**spec, "template": template}}


def _rounded(part: Any) -> Any:
    """Rounds every amount up to thousandths, as the API server does."""
    if isinstance(part, list):
        return [_rounded(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {key: _in_thousandths(value) if key in _AMOUNTS else _rounded(value) for key, value in part.items()}


def _in_thousandths(amounts: Any) -> Any:
    if not isinstance(amounts, Mapping):
        return amounts
    return {name: _up_to_milli(amount) for name, amount in amounts.items()}


def _may_be_uneven(amount: object) -> bool:
    """May the amount be no whole number of thousandths?"""
    return isinstance(amount, str) and _is_text_uneven(amount)


@lru_cache(maxsize=4096)
def _is_text_uneven(amount: str) -> bool:
    return amount.endswith(("n", "u")) or "." in amount or "e-" in amount.lower()


def _is_uneven(amounts: _Amounts | None) -> bool:
    return any(map(_may_be_uneven, amounts.values())) if amounts else False


def _any_uneven(resources: Iterable[_Resources | None]) -> bool:
    return any(_is_uneven(each.requests) or _is_uneven(each.limits) for each in resources if each is not None)


def _up_to_milli(amount: Any) -> Any:
    if not _may_be_uneven(amount):
        return amount
    nanos = parse_nanos(amount)
    return amount if nanos % _NANOS_PER_MILLI == 0 else f"{-(-nanos // _NANOS_PER_MILLI)}m"


def _container(container: Object, *, host: bool) -> dict[str, Any]:
    done = dict(container)
    resources = done.get("resources") or {}
    if resources.get("limits"):
        done["resources"] = {**resources, "requests": {**resources["limits"], **(resources.get("requests") or {})}}
    if host and done.get("ports"):
        done["ports"] = [{**port, "hostPort": port.get("hostPort") or port.get("containerPort", 0)} for port in done["ports"]]
    return done


def _pod_level(spec: Object, kubernetes: KubernetesVersion) -> dict[str, Any]:
    """The pod-level resources, with requests defaulted from the containers' requests and from the limits (KEP-2837)."""
    resources = dict(spec["resources"])
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if limits or requests:
        for name in _huge_pages(spec, "limits"):
            if name not in requests:
                limits.setdefault(name, f"{totals(spec, 'limits')[name]}n")
    if limits or (requests and kubernetes.follows(Rule.POD_LEVEL_DEFAULTS)):
        for name in _SUPPORTED:
            if any(name in _listed(container, "requests") for container in containers_of(spec)):
                requests.setdefault(name, f"{totals(spec, 'requests')[name]}n")
        for name, limit in limits.items():
            if name in _SUPPORTED or name.startswith(_HUGE_PAGES):
                requests.setdefault(name, limit)
    return {**resources, **({"limits": limits} if limits else {}), **({"requests": requests} if requests else {})}


def _listed(container: Object, which: str) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get(which) or {}


def _huge_pages(spec: Object, which: str) -> list[str]:
    names = (name for container in containers_of(spec) for name in _listed(container, which))
    return sorted({name for name in names if name.startswith(_HUGE_PAGES)})


def _default_tolerations(tolerations: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """The tolerations that the admission plug-in DefaultTolerationSeconds adds: five minutes for nodes that are not ready or
    unreachable. `tolerations`: the keys and effects of the others; an empty one stands for all."""
    tolerated = {key for key, effect in tolerations if effect in {"", "NoExecute"}}
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in (_NOT_READY, _UNREACHABLE)
        if not {"", key} & tolerated
    ]
