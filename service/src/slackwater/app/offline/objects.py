"""Finds the objects in documents as kubectl writes them. An object stays bytes until it is decoded.

- `objects_by_kind`: the objects of v1 Lists, typed lists (PodList), lists in lists, and single objects. One without a
  name gets that which its generate_name begins, with its number among the objects of its kind.
- `FoundObject.decoded`: checks its shape (`shapes`), completes it (`completed`) and decodes it.

Parsed into Python objects a document would take eight times its size, and most of it is never used. So each object is parsed,
completed, decoded and dropped by itself. Errors name the object, its path in the document, what was found and what is wanted.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from slackwater.adapters.api_objects import Wire, without_nulls
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.app.offline.completed import FIELDS, completed_template, with_completed_spec
from slackwater.app.offline.scales import SCALED
from slackwater.app.offline.shapes import TEMPLATED, PodShape, check_shape, problem_of
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion

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
        below, kind = "", TEMPLATED if templated else self.kind
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
        body: dict[str, Any] = FIELDS.decode(self.raw)
        meta: dict[str, Any] = FIELDS.decode(body["metadata"])
        meta |= {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        # A manifest has no UID; the API server gives each object one.
        meta["uid"] = self.uid or f"{self.kind}/{self.namespace}/{self.name}"
        body["metadata"] = meta
        if isinstance(shape, PodShape):
            return with_completed_spec(body, shape, kubernetes)
        if kind == TEMPLATED:
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
