"""Finds the version of kube-scheduler that a simulation follows.

The first of these that exists is followed: the version in the command line or the configuration; that of a kube-scheduler pod
among the objects, whose image and arguments name version and feature gates; that of the API server or the dump;
`DEFAULT_VERSION`. Kubelets' versions are not used, because they may be up to three minor versions older.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from slackwater.adapters.api_objects import Wire
from slackwater.adapters.kube.errors import UNREADABLE
from slackwater.app.offline.objects import FoundObject
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion, gates_of_compatibility, read_gates
from slackwater_protocol.names import SCHEDULER_NAMESPACE

_SCHEDULER: Final = "kube-scheduler"
_GATES: Final = "--feature-gates"
_COMPATIBLE: Final = "--min-compatibility-version"
_TAG: Final = re.compile(r":(v1\.[^@]+)(?:@.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRequest:
    """What a user says about the version to follow. `version` is None if it is to be found.

    `gates` are feature gates to set in addition to those that are found with the version.
    """

    version: KubernetesVersion | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)


NO_REQUEST: Final = VersionRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFound:
    """The version to follow, and its source. `source` is empty if the default is assumed, because nothing names a version."""

    version: KubernetesVersion
    source: str = ""


#: The version of clusters for which nothing names one.
ASSUMED: Final = VersionFound(version=DEFAULT_VERSION)


class _Container(Wire):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None


class _Spec(Wire):
    containers: list[_Container] | None = None


class _Pod(Wire):
    spec: _Spec | None = None


_POD: Final = msgspec.json.Decoder(_Pod)


def find_version(request: VersionRequest, pods: Iterable[FoundObject], said: KubernetesVersion | None = None) -> VersionFound:
    """Finds the version to follow. `said` is the version of the API server or of the dump, None without one.

    Raises ValueError for gates of `request` that the version does not have.
    """
    found = ASSUMED
    if request.version is not None:
        found = VersionFound(version=request.version, source="as given")
    elif (running := _of_scheduler(pods)) is not None:
        found = VersionFound(version=running, source=f"as of the pod {SCHEDULER_NAMESPACE}/{_SCHEDULER}")
    elif said is not None:
        found = VersionFound(version=said, source="as of the API server")
    return VersionFound(version=found.version.with_gates(request.gates), source=found.source) if request.gates else found


def _of_scheduler(pods: Iterable[FoundObject]) -> KubernetesVersion | None:
    """The version of kube-scheduler's pods, the newest of several: while a control plane is upgraded there are two."""
    found = [
        version
        for pod in pods
        if pod.namespace == SCHEDULER_NAMESPACE and pod.name.startswith(_SCHEDULER)
        for version in _versions(pod)
    ]
    return max(found, key=lambda version: (version.minor, version.patch), default=None)


def _versions(pod: FoundObject) -> Iterable[KubernetesVersion]:
    try:
        wire = _POD.decode(pod.raw)
    except UNREADABLE:  # the pods' own decoder says what is wrong
        return
    for container in (wire.spec.containers if wire.spec else None) or ():
        tag = _TAG.search(container.image.rpartition("/")[2])
        if container.name != _SCHEDULER or tag is None:
            continue
        try:
            yield KubernetesVersion.parse(tag[1], _gates_of([*(container.command or ()), *(container.args or ())]))
        except ValueError:  # a vendor's own numbering, or a gate of a version that is not known here
            continue


def _gates_of(arguments: list[str]) -> dict[str, bool]:
    gates: dict[str, bool] = {}
    by_compatibility: dict[str, bool] = {}
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        value = value if equals else "".join(arguments[at + 1 : at + 2])
        if name == _GATES:
            gates |= read_gates(value)
        if name == _COMPATIBLE:
            by_compatibility = gates_of_compatibility(KubernetesVersion.parse(value))
    return by_compatibility | gates
