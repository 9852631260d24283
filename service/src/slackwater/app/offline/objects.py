"""Finds the objects in documents as kubectl writes them, and decodes controllers. An object stays bytes until it is decoded.

- `objects_by_kind`: the objects of v1 Lists, typed lists (PodList), lists in lists, and single objects.
- `decode_scale`, `scales_of`: how many pods each controller wants, and the Deployment that a ReplicaSet belongs to.

Parsed into Python objects a document would take eight times its size, and most of it is never used. So each object is parsed,
completed, decoded and dropped by itself. Errors name the object, its path in the document, what was found and what is wanted.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.kube.auxiliary import decode_replicas
from slackwater.adapters.kube.decode import read_meta
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.adapters.kube.eviction_facts import controller_of
from slackwater.adapters.kube.structs import Wire
from slackwater.app.offline.manifest_types import check_shape, completed_pod, completed_template, problem_of
from slackwater.fit.remaining_pdb_tracker import DEPLOYMENT, Scales
from slackwater.model.auxiliary import ControllerKey
from slackwater.model.eviction_facts import Owner
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion

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
_TEMPLATE: Final = "spec.template"
BUDGET: Final = "PodDisruptionBudget"
#: The kinds of dynamic resource allocation.
DEVICE_KINDS: Final = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
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
class Found:
    """One object, not decoded yet. `path` is its place in the file; `raw` is a view into the file's bytes."""

    path: str
    kind: str
    namespace: str
    name: str
    raw: msgspec.Raw

    @property
    def title(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"

    def decoded(self, decode: Callable[[bytes], T], kubernetes: KubernetesVersion = DEFAULT_VERSION) -> T:
        """Completes the object by the rules of this version and decodes it with `decode`. Raises `ClusterError`."""
        below = ""
        try:
            check_shape(self.kind, self.raw)
            below = _TEMPLATE if self.kind == DAEMON_SET else ""  # its decoder reads the template as a pod
            return decode(msgspec.json.encode(self._completed(kubernetes)))
        except UNREADABLE as err:
            place, problem = problem_of(self.kind, self.raw, err)
            place = place if place.startswith(below) else _below(below, place)
            raise ClusterError(_below(self.path, place), self.title, problem) from err

    def _completed(self, kubernetes: KubernetesVersion) -> Mapping[str, Any]:
        body = msgspec.json.decode(self.raw, type=dict[str, Any])
        meta = {**body["metadata"], **({"namespace": self.namespace} if self.namespace else {})}
        # A manifest has no UID; the API server gives each object one.
        meta["uid"] = meta.get("uid") or f"{self.kind}/{self.namespace}/{self.name}"
        body["metadata"] = meta
        match self.kind:
            case "Pod":
                return completed_pod(body, kubernetes)
            case "DaemonSet":
                return completed_template(body, kubernetes)
            case _:
                return body


class _Meta(Wire):
    name: str | None = None
    namespace: str | None = None


class _Head(Wire):
    """The fields of a document, or of a list's item, that decide whether it is a list or an object."""

    kind: str | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"null")
    items: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_HEAD: Final = msgspec.json.Decoder(_Head)
_META: Final = msgspec.json.Decoder(_Meta | None)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_SHOWN: Final = 60


def objects_by_kind(documents: Sequence[msgspec.Raw], kinds: Collection[str]) -> dict[str, list[Found]]:
    """The objects of the given kinds, in the order of the documents. Other kinds are skipped. Raises `ClusterError`."""
    by_kind: dict[str, list[Found]] = {kind: [] for kind in kinds}
    for number, document in enumerate(documents):
        path = "" if len(documents) == 1 else f"document {number}"
        for place, kind, head, raw in _objects(document, path, "", 0):
            if kind in by_kind:
                by_kind[kind].append(_named(place or kind, kind, head, raw))
    return by_kind


def _objects(raw: msgspec.Raw, path: str, kind: str, depth: int) -> Iterator[tuple[str, str, _Head, msgspec.Raw]]:
    """Yields the path, kind, head and bytes of every object. `kind` is the typed list's kind, for items without one."""
    if _shown(raw)[:1] != "{":
        raise ClusterError(path or "the file", "", f"got {_shown(raw)}, want an object")
    head = _read(_HEAD, raw, path, "")
    kind = head.kind or kind
    if kind.endswith("List") and not isinstance(head.items, msgspec.UnsetType):
        if _shown(head.items)[:1] not in {"[", "n"}:
            raise ClusterError(_below(path, "items"), "", f"got {_shown(head.items)}, want a list")
        if depth == _DEEPEST:
            raise ClusterError(path, "", f"lists in lists deeper than {_DEEPEST}")
        for index, item in enumerate(_read(_ITEMS, head.items, path, "") or ()):
            yield from _objects(item, _below(path, f"items[{index}]"), kind.removesuffix("List"), depth + 1)
    elif not kind:
        raise ClusterError(_below(path, "kind"), "", f"got {head.kind}, want the kind of the object")
    else:
        yield path, kind, head, raw


def _named(path: str, kind: str, head: _Head, raw: msgspec.Raw) -> Found:
    place = _below(path, "metadata")
    meta = _read(_META, head.metadata, place, kind) or _Meta()
    if not meta.name:
        raise ClusterError(_below(place, "name"), kind, f"got {meta.name!r}, want a name")
    namespace = meta.namespace or ("default" if kind in _NAMESPACED else "")
    return Found(path=path, kind=kind, namespace=namespace, name=meta.name, raw=raw)


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
