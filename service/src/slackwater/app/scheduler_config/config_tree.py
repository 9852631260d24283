"""Reads a KubeSchedulerConfiguration into a cleaned tree, which has only known fields with values of the right type.

In: the file's text. Out: the cleaned tree, and a `Finding` for everything that was left out. kube-scheduler decodes strictly
and does not start with an unknown field, a duplicate or a value of another type. The cleaned tree lets the checks find the
other problems in the same run. The fields are those of k8s.io/kube-scheduler/config/v1 (v0.36); plug-ins' arguments may be
anything.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from slackwater.configuration.problems import Problem, Steps, UnreadableSettings, json_path, show
from slackwater.configuration.text_tree import as_yaml_1_1, read_document
from slackwater_protocol.durations import DurationError, parse_duration

#: `error`: kube-scheduler refuses the file, or Slackwater cannot keep its promises. `warning`: it works worse than it
#: could, or is unsafe. `advice`: right in some clusters; does not count as a finding for the exit code.
Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a KubeSchedulerConfiguration file. `path`: where it is, such as `extenders[0].ignorable`. `trap`: the
    problem's identifier, such as `unknown-field`. `why`: what it leads to. `fix`: what to write instead."""

    path: str
    trap: str
    severity: Severity = "error"
    why: str
    fix: str

    @property
    def counts(self) -> bool:
        """True if the finding makes the exit code of the check non-zero."""
        return self.severity != "advice"

    def __str__(self) -> str:
        return f"{self.severity}: {self.path or 'the file'}: {self.trap}: {self.why}; {self.fix}"


#: The setting that names the file which kube-scheduler runs with.
PLACE: Final = "extender.schedulerConfig"
API_GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{API_GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

_TEXT: Final = "text"
_SWITCH: Final = "true or false"
_WHOLE: Final = "a whole number"
_NUMBER: Final = "a number"
_DURATION: Final = 'a duration such as "5s"'
_OPAQUE: Final = "anything"

_POINTS: Final = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "multiPoint", "placementGenerate", "placementScore"),
)

#: The type of each object's fields: one of the constants above, an object's name, or `[object]` for a list of objects.
_OBJECTS: Final[dict[str, dict[str, str]]] = {
    KIND: {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "parallelism": _WHOLE,
        "leaderElection": "LeaderElection",
        "clientConnection": "ClientConnection",
        "enableProfiling": _SWITCH,
        "enableContentionProfiling": _SWITCH,
        "percentageOfNodesToScore": _WHOLE,
        "podInitialBackoffSeconds": _WHOLE,
        "podMaxBackoffSeconds": _WHOLE,
        "profiles": "[Profile]",
        "extenders": "[Extender]",
        "delayCacheUntilActive": _SWITCH,
    },
    "LeaderElection": {
        "leaderElect": _SWITCH,
        "leaseDuration": _DURATION,
        "renewDeadline": _DURATION,
        "retryPeriod": _DURATION,
        "resourceLock": _TEXT,
        "resourceName": _TEXT,
        "resourceNamespace": _TEXT,
    },
    "ClientConnection": {
        "kubeconfig": _TEXT,
        "acceptContentTypes": _TEXT,
        "contentType": _TEXT,
        "qps": _NUMBER,
        "burst": _WHOLE,
    },
    "Profile": {
        "schedulerName": _TEXT,
        "percentageOfNodesToScore": _WHOLE,
        "plugins": "Plugins",
        "pluginConfig": "[PluginConfig]",
    },
    "Plugins": dict.fromkeys(_POINTS, "PluginSet"),
    "PluginSet": {"enabled": "[Plugin]", "disabled": "[Plugin]"},
    "Plugin": {"name": _TEXT, "weight": _WHOLE},
    "PluginConfig": {"name": _TEXT, "args": _OPAQUE},
    "Extender": {
        "urlPrefix": _TEXT,
        "filterVerb": _TEXT,
        "preemptVerb": _TEXT,
        "prioritizeVerb": _TEXT,
        "weight": _WHOLE,
        "bindVerb": _TEXT,
        "enableHTTPS": _SWITCH,
        "tlsConfig": "TLSConfig",
        "httpTimeout": _DURATION,
        "nodeCacheCapable": _SWITCH,
        "managedResources": "[ManagedResource]",
        "ignorable": _SWITCH,
    },
    "TLSConfig": {
        "insecure": _SWITCH,
        "serverName": _TEXT,
        "certFile": _TEXT,
        "keyFile": _TEXT,
        "caFile": _TEXT,
        "certData": _TEXT,
        "keyData": _TEXT,
        "caData": _TEXT,
    },
    "ManagedResource": {"name": _TEXT, "ignoredByScheduler": _SWITCH},
}
#: Fields for credentials that users expect an extender to have; no version of the format has them.
_CREDENTIALS: Final = frozenset(
    {"token", "tokenfile", "bearertoken", "bearertokenfile", "authorization", "headers", "username", "password"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFile:
    """A file as read. `tree` is the cleaned tree; nulls count as absent, as in Kubernetes.

    `findings` has one entry for each part of the file that is not in the tree.
    """

    tree: dict[str, Any]
    findings: tuple[Finding, ...]


def read_scheduler_file(text: str) -> SchedulerFile:
    """Reads a file. Raises `UnreadableSettings` if it is neither YAML nor JSON, or no KubeSchedulerConfiguration."""
    document = read_document(text, KIND)
    tree = as_yaml_1_1(document.tree)
    _require_kind(tree)
    # kube-scheduler refuses most of these. It accepts a merge key, but the merged values are not checked here.
    findings = [
        Finding(
            path=problem.path,
            trap="ambiguous-yaml",
            why=f"got {problem.seen}; kube-scheduler refuses it or reads more than this check can see",
            fix=f"want {problem.wanted}",
        )
        for problem in document.problems
    ]
    cleaned = _clean(tree, KIND, (), findings)
    if cleaned["apiVersion"] != API_VERSION:
        findings.append(
            Finding(
                path="apiVersion",
                trap="api-version",
                why=f"got {cleaned['apiVersion']}, which kube-scheduler does not read (v1beta3 ended with 1.29)",
                fix=f"want {API_VERSION}",
            )
        )
    return SchedulerFile(tree=cleaned, findings=tuple(findings))


def load_scheduler_file(path: str) -> dict[str, Any]:
    """The cleaned tree of the file `extender.schedulerConfig`. Raises `UnreadableSettings` if it cannot be read, or has parts
    that kube-scheduler refuses."""
    try:
        file = read_scheduler_file(Path(path).read_text(encoding="utf-8"))
    except UnreadableSettings as error:
        raise UnreadableSettings(error.problems, source=path) from error
    except (OSError, ValueError) as error:
        raise UnreadableSettings(
            [Problem(path=PLACE, seen=f"{show(path)} ({error})", wanted="a file that can be read")]
        ) from error
    if file.findings:
        raise refused_file(path, file.findings)
    return file.tree


def refused_file(path: str, findings: Sequence[Finding]) -> UnreadableSettings:
    """The error that the findings make of the file `extender.schedulerConfig`."""
    return UnreadableSettings(
        [
            Problem(path=f"{path}: {found.path}", seen=found.why.removeprefix("got "), wanted=found.fix.removeprefix("want "))
            for found in findings
        ]
    )


def _require_kind(tree: object) -> None:
    wanted = f"kind: {KIND} and apiVersion: {API_VERSION}"
    if not isinstance(tree, dict):
        seen = "nothing in it" if tree is None else show(tree)
        raise UnreadableSettings([Problem(path="", seen=seen, wanted=wanted)])
    version = tree.get("apiVersion")
    problems = []
    if tree.get("kind") != KIND:
        problems.append(Problem(path="kind", seen=show(tree.get("kind")), wanted=KIND))
    if not isinstance(version, str) or version.partition("/")[0] != API_GROUP:
        problems.append(Problem(path="apiVersion", seen=show(version), wanted=API_VERSION))
    if problems:
        raise UnreadableSettings(problems)


def _clean(value: object, kind: str, at: Steps, findings: list[Finding]) -> Any:
    """The value without the parts that have the wrong type, for each of which a finding is added; None if nothing is left."""
    if kind in _OBJECTS:
        if isinstance(value, dict):
            return _clean_object(value, kind, at, findings)
    elif kind.startswith("["):
        if isinstance(value, list):
            entries = (_clean(entry, kind[1:-1], (*at, index), findings) for index, entry in enumerate(value))
            return [{} if entry is None else entry for entry in entries]  # so that the others keep their index
    elif _HAS_TYPE[kind](value):
        return value
    wanted = "a mapping" if kind in _OBJECTS else "a list" if kind.startswith("[") else kind
    why = f"got {show(value)}; kube-scheduler decodes strictly and does not start"
    findings.append(Finding(path=json_path(at), trap="refused-at-start", why=why, fix=f"want {wanted}"))
    return None


def _clean_object(value: dict[str, object], kind: str, at: Steps, findings: list[Finding]) -> dict[str, Any]:
    fields = _OBJECTS[kind]
    cleaned: dict[str, Any] = {}
    for key, entry in value.items():
        if key not in fields:
            findings.append(_unknown(key, kind, (*at, key)))
        elif entry is not None and (kept := _clean(entry, fields[key], (*at, key), findings)) is not None:
            cleaned[key] = kept
    return cleaned


def _unknown(key: str, kind: str, at: Steps) -> Finding:
    path = json_path(at)
    if kind in ("Extender", "TLSConfig") and key.lower() in _CREDENTIALS:
        return Finding(
            path=path,
            trap="no-token",
            why="kube-scheduler can send an extender no token, password or header, and does not start with this field",
            fix="stay on loopback, or let the listener check a client certificate (tlsConfig.certFile and keyFile)",
        )
    known = tuple(_OBJECTS[kind])
    near = difflib.get_close_matches(key, known, n=1) or [name for name in known if name.lower() == key.lower()]
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    return Finding(
        path=path,
        trap="unknown-field",
        why="kube-scheduler decodes strictly, upper and lower case included, and does not start with this field",
        fix=hint,
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parse_duration(value)
    except DurationError:
        return False
    return True


_HAS_TYPE: Final[dict[str, Callable[[object], bool]]] = {
    _TEXT: lambda value: isinstance(value, str),
    _SWITCH: lambda value: isinstance(value, bool),
    _WHOLE: _is_whole,
    _NUMBER: lambda value: isinstance(value, float) or _is_whole(value),
    _DURATION: _is_duration,
    _OPAQUE: lambda value: True,
}


def entries(tree: dict[str, Any], key: str) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Yields the objects in the list `key` of the cleaned tree, each with its place."""
    for index, entry in enumerate(tree.get(key, [])):
        yield (key, index), entry
