"""Reads Cluster Autoscaler's annotations of Cluster API groups: size limits, options, and the template of new nodes.

The functions are pure. An invalid annotation raises `ValueError`, with the annotation, its value and what is wanted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from slackwater.adapters.cloud.clusterapi.objects import NOTHING_SAID, GroupWire, Infrastructure
from slackwater.adapters.cloud.group_options import EFFECTS, read_options, read_said
from slackwater.adapters.cloud.read_groups import template_node
from slackwater.model.devices import read_template_devices
from slackwater.model.nodegroups import CSI_DRIVERS, GroupOptions, read_attach_limits
from slackwater.model.objects import Node, Taint
from slackwater_protocol.names import CLUSTER_API_GROUP
from slackwater_protocol.units import parse_nanos

T = TypeVar("T")

MIN_SIZE: Final = f"{CLUSTER_API_GROUP}/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE: Final = f"{CLUSTER_API_GROUP}/cluster-api-autoscaler-node-group-max-size"
PAUSED: Final = f"{CLUSTER_API_GROUP}/paused"
_OPTIONS: Final = f"{CLUSTER_API_GROUP}/autoscaling-options-"
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"

#: The annotations for amounts, named without the prefix `_CAPACITY`, and the resource of each.
_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-disk": "ephemeral-storage", "maxPods": "pods"}
#: Kubernetes' own default of `maxPods`.
_PODS: Final = "110"
#: A size limit may have at most this many digits.
_MOST_DIGITS: Final = 9
#: Labels of a Machine that Cluster API copies to its Node.
_COPIED: Final = ("node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io")


@dataclass(frozen=True, slots=True)
class Limits:
    """The smallest and greatest number of nodes that a group may have."""

    min_size: int
    max_size: int


def limits(annotations: Mapping[str, str]) -> Limits | None:
    """Reads the size limits; None if the object must not be scaled: it has neither annotation, or is paused.

    :raises ValueError: a limit is missing or invalid.
    """
    if PAUSED in annotations or not annotations.keys() & {MIN_SIZE, MAX_SIZE}:
        return None
    found = Limits(_count(annotations, MIN_SIZE), _count(annotations, MAX_SIZE))
    if found.max_size < 1 or found.min_size > found.max_size:
        raise ValueError(f"sizes {found.min_size} to {found.max_size}, want 0 <= min <= max and 1 <= max")
    return found


def options(annotations: Mapping[str, str]) -> GroupOptions:
    """Reads the group's own options; options without an annotation are None.

    :raises ValueError: an annotation is invalid.
    """
    return read_options(annotations, _OPTIONS, what="annotation")


def template(group: GroupWire, infrastructure: Infrastructure = NOTHING_SAID) -> Node | None:
    """Builds the template of the group's new nodes; None if CPU or memory is specified nowhere.

    :raises ValueError: an annotation or quantity is invalid.
    """
    annotations = group.metadata.annotations or {}
    nanos: dict[str, int] = {name: parse_nanos(amount) for name, amount in (infrastructure.capacity or {}).items()}
    nanos |= _resources(annotations)
    if "cpu" not in nanos or "memory" not in nanos:
        return None
    nanos.setdefault("pods", parse_nanos(_PODS))
    return template_node(
        f"template-of-{group.metadata.namespace}-{group.metadata.name}",
        nanos,
        labels=_labels(group, annotations, infrastructure),
        taints=_taints(group.spec.template.spec.taints or (), annotations),
        csi=_read(CSI_DRIVERS, annotations.get(CSI_DRIVERS, ""), read_attach_limits),
        slices=read_template_devices(annotations),
    )


def _resources(annotations: Mapping[str, str]) -> dict[str, int]:
    found = {
        resource: _read(_CAPACITY + key, annotations[_CAPACITY + key], parse_nanos)
        for key, resource in _RESOURCES.items()
        if _CAPACITY + key in annotations
    }
    gpu_type, gpu_count = annotations.get(_CAPACITY + "gpu-type"), annotations.get(_CAPACITY + "gpu-count")
    if gpu_type and gpu_count:
        found[gpu_type] = _read(_CAPACITY + "gpu-count", gpu_count, parse_nanos)
    return {resource: int(amount) for resource, amount in found.items()}


def _labels(group: GroupWire, annotations: Mapping[str, str], infrastructure: Infrastructure) -> dict[str, str]:
    labels = {
        "kubernetes.io/arch": infrastructure.node_info.architecture or "amd64",
        "kubernetes.io/os": infrastructure.node_info.operating_system or "linux",
    }
    # Cluster API copies the labels of the first to Machines; Cluster Autoscaler reads those of the second.
    for said in (group.spec.template.metadata.labels, group.spec.template.spec.metadata.labels):
        labels |= {key: value for key, value in (said or {}).items() if _is_copied(key)}
    key = _CAPACITY + "labels"
    return labels | _read(key, annotations.get(key, ""), _pairs)


def _is_copied(key: str) -> bool:
    domain = key.partition("/")[0]
    return any(domain == copied or domain.endswith(f".{copied}") for copied in _COPIED)


def _taints(said: Iterable[Taint], annotations: Mapping[str, str]) -> tuple[Taint, ...]:
    """Returns the Machine template's taints and the annotation's, which wins for the same key and effect."""
    found = {(taint.key, taint.effect): taint for taint in said}
    key = _CAPACITY + "taints"
    for taint in _read(key, annotations.get(key, ""), _annotated_taints):
        found[taint.key, taint.effect] = taint
    return tuple(found.values())


def _annotated_taints(text: str) -> list[Taint]:
    taints = []
    for entry in filter(None, text.split(",")):
        pair, _, effect = entry.strip().rpartition(":")
        key, _, value = pair.partition("=")
        if not key or effect not in EFFECTS:
            raise ValueError(f"{entry!r}, want key=value:Effect")
        taints.append(Taint(key, value, effect))
    return taints


def _pairs(text: str) -> dict[str, str]:
    entries = [entry.strip().partition("=") for entry in filter(None, text.split(","))]
    if any(not key or not equals for key, equals, _ in entries):
        raise ValueError("want key=value,key=value")
    return {key: value for key, _, value in entries}


def _count(annotations: Mapping[str, str], key: str) -> int:
    text = annotations.get(key, "nothing")
    if not text.isdecimal() or not text.isascii() or len(text) > _MOST_DIGITS:
        raise ValueError(f"annotation {key}: got {text:.40}, want a whole number from 0 to {10**_MOST_DIGITS - 1}")
    return int(text)


def _read(key: str, text: str, read: Callable[[str], T]) -> T:
    return read_said(key, text, read, what="annotation")
