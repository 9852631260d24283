"""Finds Cluster Autoscaler among objects as kubectl or helm print them, and reads the words of its command line.

In: objects as bytes. Out: `Workload`: its words, with references to its environment replaced where they are literal, and what
files in its ConfigMaps say. Secrets are never read.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, TypeVar

import msgspec
from msgspec import field

from slackwater.adapters.api_objects import Wire
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.app.converters.draft import ConversionError
from slackwater.app.converters.flags import BY_NAME

_TEMPLATED: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"})
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)")
_PROGRAM: Final = re.compile(r"cluster-?autoscaler")
#: Words that end a command in a shell.
_SHELL_ENDS: Final = re.compile(r"[|;&]+|[0-9]?>.*")
#: So many flags of Cluster Autoscaler make a container one, whatever its image is called.
_ENOUGH_FLAGS: Final = 2


class _Ref(Wire):
    name: str = ""
    field_path: str = ""


class _Source(Wire):
    field_ref: _Ref | None = None
    config_map_key_ref: _Ref | None = None


class _Env(Wire):
    name: str = ""
    value: str | None = None
    value_from: _Source | None = None


class _Mount(Wire):
    name: str = ""
    mount_path: str = ""


class _Container(Wire):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Env] | None = None
    volume_mounts: list[_Mount] | None = None


class _Volume(Wire):
    name: str = ""
    config_map: _Ref | None = None


class _PodSpec(Wire):
    containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None


class _Meta(Wire):
    name: str = ""
    namespace: str = ""
    owner_references: list[_Ref] | None = None


class _Template(Wire):
    spec: _PodSpec = field(default_factory=_PodSpec)


class _Spec(_PodSpec):
    template: _Template = field(default_factory=_Template)


class _Object(Wire):
    kind: str = ""
    metadata: _Meta = field(default_factory=_Meta)
    spec: _Spec = field(default_factory=_Spec)


class _ConfigMap(Wire):
    data: dict[str, str] | None = None


class _Kind(Wire):
    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] | None = None
    metadata: _Meta = field(default_factory=_Meta)


WireT = TypeVar("WireT", bound=Wire)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object that is no list."""

    kind: str
    api_version: str
    namespace: str
    name: str
    raw: msgspec.Raw


def manifests(documents: Iterable[bytes | msgspec.Raw], kind: str = "", api_version: str = "") -> Iterator[Manifest]:
    """The objects of the documents, and of their lists. An API server's list says kind and version, its items do not. Raises
    `ConversionError`."""
    for raw in documents:
        try:
            head = msgspec.json.decode(raw, type=_Kind)
        except UNREADABLE as err:
            raise ConversionError(f"got an object that cannot be read ({err}), want Kubernetes objects") from err
        if head.kind.endswith("List"):
            yield from manifests(head.items or (), head.kind.removesuffix("List"), head.api_version)
        else:
            meta = head.metadata
            version = head.api_version or api_version
            yield Manifest(head.kind or kind, version, meta.namespace, meta.name, msgspec.Raw(bytes(raw)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Cluster Autoscaler as it is installed. `words`: its arguments. `unknown`: references to the environment that were left as
    they are, with where their values come from. `files`: the content of files that ConfigMaps mount, by path."""

    title: str
    words: tuple[str, ...]
    unknown: Mapping[str, str]
    files: Mapping[str, str]


def find_workload(objects: Iterable[Manifest]) -> Workload:
    """The one Cluster Autoscaler of the objects. Raises `ConversionError`."""
    found, maps = list[Workload](), dict[tuple[str, str], dict[str, str]]()
    objects = list(objects)
    for each in objects:
        if each.kind == "ConfigMap":
            maps[each.namespace, each.name] = _decoded(each, _ConfigMap).data or {}
    for each in objects:
        if each.kind in _TEMPLATED or each.kind == "Pod":
            decoded = _decoded(each, _Object)
            if not decoded.metadata.owner_references:
                found += _within(each, decoded.spec if each.kind == "Pod" else decoded.spec.template.spec, maps)
    if len(found) != 1:
        seen = ", ".join(each.title for each in found) or f"none among {len(objects)} objects"
        wanted = "one: an image or command named cluster-autoscaler, or containers with its flags"
        raise ConversionError(f"Cluster Autoscaler: got {seen}, want {wanted}")
    return found[0]


def _decoded(each: Manifest, kind: type[WireT]) -> WireT:
    try:
        return msgspec.json.decode(each.raw, type=kind)
    except UNREADABLE as err:
        raise ConversionError(f"{each.kind} {each.namespace}/{each.name}: {err}") from err


def _within(each: Manifest, spec: _PodSpec, maps: Mapping[tuple[str, str], dict[str, str]]) -> Iterator[Workload]:
    for container in spec.containers or ():
        words = [*(container.command or ()), *(container.args or ())]
        known: dict[str, str] = {}
        unknown: dict[str, str] = {}
        for env in container.env or ():
            source = env.value_from
            if source is None:
                known[env.name] = env.value or ""
            elif source.field_ref is not None and source.field_ref.field_path == "metadata.namespace" and each.namespace:
                known[env.name] = each.namespace
            else:
                unknown[f"$({env.name})"] = "a field of the Pod" if source.field_ref else "a Secret or a ConfigMap's key"
        words = [_REFERENCE.sub(partial(_resolved, known), word) for word in words]
        arguments = _arguments(words, _PROGRAM.search(container.image) is not None)
        if arguments is not None:
            title = f"{each.kind} {each.namespace or 'default'}/{each.name}"
            files = dict(_files(each.namespace, container, spec, maps))
            yield Workload(title=title, words=tuple(arguments), unknown=unknown, files=files)


def _resolved(known: Mapping[str, str], reference: "re.Match[str]") -> str:
    return "$" if reference[1] is None else known.get(reference[1], reference[0])


def _arguments(words: list[str], is_image: bool) -> list[str] | None:
    """The words after the program; None if this is another program. A shell's command is looked into."""
    script = next((word for flag, word in pairwise(words) if flag in ("-c", "-ec", "-cx")), None)
    if script is not None and PurePosixPath(words[0]).name in ("sh", "bash", "ash", "dash"):
        try:
            inner = shlex.split(script.replace("\\\n", " "), comments=True)
        except ValueError as err:
            raise ConversionError(f"the shell's command: {err}, want one that can be split into words") from err
        start = next((at for at, word in enumerate(inner) if _PROGRAM.search(PurePosixPath(word).name)), None)
        if start is None:
            return None
        ends = (at for at in range(start, len(inner)) if _SHELL_ENDS.fullmatch(inner[at]))
        return inner[start + 1 : next(ends, len(inner))]
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    named = any(_PROGRAM.search(PurePosixPath(word).name) for word in words[:first])
    flags = {word.lstrip("-").partition("=")[0].replace("_", "-") for word in words[first:] if word.startswith("-")}
    ours = [name for name in flags if name in BY_NAME and BY_NAME[name].current]
    return words[first:] if is_image or named or len(ours) >= _ENOUGH_FLAGS else None


def _files(
    namespace: str, container: _Container, spec: _PodSpec, maps: Mapping[tuple[str, str], dict[str, str]]
) -> Iterator[tuple[str, str]]:
    volumes = {each.name: each.config_map.name for each in spec.volumes or () if each.config_map is not None}
    for mount in container.volume_mounts or ():
        for key, text in maps.get((namespace, volumes.get(mount.name, "")), {}).items():
            yield str(PurePosixPath(mount.mount_path) / key), text
            yield mount.mount_path, text  # with subPath
