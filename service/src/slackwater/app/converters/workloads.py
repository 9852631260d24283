"""Finds Cluster Autoscaler among objects as kubectl or helm print them, and reads the words of its command line.

In: objects as bytes. Out: `Workload`: its words, with references to its environment replaced by what the objects say of it, and
what files in its ConfigMaps say. Secrets are never read, and no shell is run.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, TypeVar

import msgspec
from msgspec import field

from slackwater.adapters.api_objects import ObjectDecoder, Wire
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.app.converters.draft import ConversionError
from slackwater.app.converters.flags import BY_NAME

_TEMPLATED: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"})
#: The owners of objects that are read in their place. Another owner is an operator's object.
_OWNERS: Final = _TEMPLATED | {"Job"}
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)")
_PROGRAM: Final = re.compile(r"cluster-?autoscaler(?!-(operator|exporter))")
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
#: The option before a shell's command, such as -c or -euxc.
_SHELL_OPTION: Final = re.compile(r"-[a-z]*c")
#: A shell's variable, unless it is escaped or in single quotes.
_SHELL_VARIABLE: Final = re.compile(r"'[^']*'|\\.|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
#: What a shell would replace, and nobody here does.
_OF_SHELL: Final = re.compile(r"\$\(.*|\$\{[^}]*\}?|\$\w+|`.*")
#: Words that end a command in a shell.
_SHELL_ENDS: Final = re.compile(r"[|;&]+|[0-9]?>.*")
#: So many flags of Cluster Autoscaler make a container one, whatever its image is called, if one of them is its own: others,
#: such as --cloud-provider and --leader-elect, are those of many controllers.
_ENOUGH_FLAGS: Final = 2
_OWN_FLAGS: Final = re.compile(
    r"nodes|node-group-auto-discovery|expander|estimator|scan-interval|scale-(up|down)-.*|skip-nodes-.*"
)


class _Ref(Wire):
    name: str = ""
    kind: str = ""
    key: str = ""
    field_path: str = ""


class _Source(Wire):
    field_ref: _Ref | None = None
    config_map_key_ref: _Ref | None = None


class _Env(Wire):
    name: str = ""
    value: str | None = None
    value_from: _Source | None = None


class _EnvFrom(Wire):
    prefix: str = ""
    config_map_ref: _Ref | None = None


class _Mount(Wire):
    name: str = ""
    mount_path: str = ""


class _Container(Wire):
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Env] | None = None
    env_from: list[_EnvFrom] | None = None
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


_KIND: Final = ObjectDecoder(_Kind)
_OBJECT: Final = ObjectDecoder(_Object)
_CONFIG_MAP: Final = ObjectDecoder(_ConfigMap)

WireT = TypeVar("WireT", bound=Wire)
_Maps = Mapping[tuple[str, str], Mapping[str, str]]


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
            head = _KIND.decode(raw)
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
    they are, and why, as the end of a sentence. `files`: the content of files that ConfigMaps mount, by path. `named`: it is
    known by its name, not by its flags alone."""

    title: str
    words: tuple[str, ...]
    unknown: Mapping[str, str]
    files: Mapping[str, str]
    named: bool


def find_workload(objects: Iterable[Manifest]) -> Workload:
    """The one Cluster Autoscaler of the objects. Raises `ConversionError`."""
    found, problems, maps = list[Workload](), list[ConversionError](), dict[tuple[str, str], Mapping[str, str]]()
    objects = list(objects)
    for each in objects:
        if each.kind == "ConfigMap":
            with suppress(ConversionError):
                maps[each.namespace, each.name] = _decoded(each, _CONFIG_MAP).data or {}
    for each in objects:
        if each.kind in _TEMPLATED or each.kind == "Pod":
            try:
                decoded = _decoded(each, _OBJECT)
            except ConversionError as err:
                problems.append(err)
                continue
            if not any(owner.kind in _OWNERS for owner in decoded.metadata.owner_references or ()):
                found += _within(each, decoded.spec if each.kind == "Pod" else decoded.spec.template.spec, maps)
    named = [each for each in found if each.named]
    if problems and not named:
        raise problems[0]
    found = named or found
    if len(found) != 1:
        seen = ", ".join(each.title for each in found) or f"none among {len(objects)} objects"
        wanted = (
            "one: an image or command named cluster-autoscaler, or containers with its flags, "
            "as kubectl get, helm template or kubectl kustomize print it"
        )
        raise ConversionError(f"Cluster Autoscaler: got {seen}, want {wanted}")
    return found[0]


def _decoded(each: Manifest, decoder: ObjectDecoder[WireT]) -> WireT:
    try:
        return decoder.decode(each.raw)
    except UNREADABLE as err:
        raise ConversionError(f"{each.kind} {each.namespace}/{each.name}: {err}") from err


def _within(each: Manifest, spec: _PodSpec, maps: _Maps) -> Iterator[Workload]:
    for container in spec.containers or ():
        words = [*(container.command or ()), *(container.args or ())]
        environment = _Environment.of(each.namespace, container, maps)
        words = [_REFERENCE.sub(environment.resolved, word) for word in words]
        is_image = _is_program(container.image)
        found = (
            _in_shell(words, environment) if words and PurePosixPath(words[0]).name in _SHELLS else _arguments(words, is_image)
        )
        if found is not None:
            arguments, is_named = found
            yield Workload(
                title=f"{each.kind} {each.namespace or 'default'}/{each.name}",
                words=tuple(arguments),
                unknown=environment.unknown,
                files=dict(_files(each.namespace, container, spec, maps)),
                named=is_named or is_image,
            )


@dataclass(slots=True)
class _Environment:
    """A container's environment. `unknown`: as in `Workload`."""

    known: dict[str, str]
    unknown: dict[str, str]

    @classmethod
    def of(cls, namespace: str, container: _Container, maps: _Maps) -> "_Environment":
        self = cls({}, {})
        for each in container.env_from or ():
            data = maps.get((namespace, each.config_map_ref.name), {}) if each.config_map_ref is not None else {}
            self.known |= {each.prefix + key: text for key, text in data.items()}
        for env in container.env or ():
            self._add(env, namespace, maps)
        return self

    def _add(self, env: _Env, namespace: str, maps: _Maps) -> None:
        source, reference = env.value_from or _Source(), f"$({env.name})"
        if env.value_from is None:
            self.known[env.name] = _REFERENCE.sub(self.resolved, env.value or "")
        elif source.field_ref is not None and source.field_ref.field_path == "metadata.namespace" and namespace:
            self.known[env.name] = namespace
        elif source.field_ref is not None:
            self.unknown[reference] = "comes from a field of the Pod, which is not read"
        else:
            of = source.config_map_key_ref
            text = None if of is None else maps.get((namespace, of.name), {}).get(of.key)
            if text is None:
                self.unknown[reference] = "comes from a Secret or a ConfigMap's key, which is not read"
            else:
                self.known[env.name] = text

    def resolved(self, reference: "re.Match[str]") -> str:
        """What Kubernetes puts in place of a reference."""
        name = reference[1]
        if name is None:
            return "$"
        if name not in self.known:
            self.unknown.setdefault(reference[0], "is in no object of the input")
        return self.known.get(name, reference[0])

    def in_shell(self, variable: "re.Match[str]") -> str:
        """What a shell puts in place of a variable."""
        return self.known.get(variable[1] or variable[2] or "", variable[0])


def _is_program(path: str) -> bool:
    return _PROGRAM.search(PurePosixPath(path).name) is not None


def _in_shell(words: list[str], environment: _Environment) -> tuple[list[str], bool] | None:
    """The words after the program in a shell's command; None if this is another program."""
    script = next((word for option, word in pairwise(words) if _SHELL_OPTION.fullmatch(option)), "")
    try:
        inner = shlex.split(_SHELL_VARIABLE.sub(environment.in_shell, script.replace("\\\n", " ")), comments=True)
    except ValueError as err:
        if not _PROGRAM.search(script):
            return None
        raise ConversionError(f"the shell's command: {err}, want one that can be split into words") from err
    start = next((at for at, word in enumerate(inner) if _is_program(word)), None)
    if start is None:
        return None
    ends = (at for at in range(start, len(inner)) if _SHELL_ENDS.fullmatch(inner[at]))
    arguments = inner[start + 1 : next(ends, len(inner))]
    environment.unknown |= {
        found[0]: "is for the shell, which is not run" for word in arguments if (found := _OF_SHELL.search(word)) is not None
    }
    return arguments, True


def _arguments(words: list[str], is_image: bool) -> tuple[list[str], bool] | None:
    """The words after the program, which another one may start after `--`; None if this is another program."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    starts = [at for at, word in enumerate(words) if _is_program(word) and (at < first or words[at - 1] == "--")]
    if starts:
        return words[starts[-1] + 1 :], True
    flags = {word.lstrip("-").partition("=")[0].replace("_", "-") for word in words[first:] if word.startswith("-")}
    ours = [name for name in flags if name in BY_NAME and BY_NAME[name].current]
    enough = len(ours) >= _ENOUGH_FLAGS and any(_OWN_FLAGS.fullmatch(name) for name in ours)
    return (words[first:], False) if is_image or enough else None


def _files(namespace: str, container: _Container, spec: _PodSpec, maps: _Maps) -> Iterator[tuple[str, str]]:
    volumes = {each.name: each.config_map.name for each in spec.volumes or () if each.config_map is not None}
    for mount in container.volume_mounts or ():
        for key, text in maps.get((namespace, volumes.get(mount.name, "")), {}).items():
            yield str(PurePosixPath(mount.mount_path) / key), text
            yield mount.mount_path, text  # with subPath
