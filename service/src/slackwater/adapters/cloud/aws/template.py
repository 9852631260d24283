"""The template of a group's new nodes and its options, from its tags, under Cluster Autoscaler's names. Pure.

What tags say counts more than what EKS says, and that more than the instance type. If AWS chooses among types, the template has
what each of them has. A tag that cannot be read raises `ValueError`, with the tag, its value and what is wanted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.adapters.cloud.aws.groups import ScalingGroup
from slackwater.adapters.cloud.aws.machine_types import MachineType, ManagedNodeGroup
from slackwater.adapters.cloud.group_options import read_options, read_said, taint_effect
from slackwater.adapters.cloud.read_groups import template_node
from slackwater.model.nodegroups import GroupOptions, read_attach_limits
from slackwater.model.objects import INSTANCE_TYPE, REGION, ZONE, Node, Taint
from slackwater_protocol.units import NANO, NANOS_PER_MILLI, parse_nanos

_PREFIX: Final = "k8s.io/cluster-autoscaler/node-template/"
_LABEL: Final = f"{_PREFIX}label/"
_TAINT: Final = f"{_PREFIX}taint/"
_RESOURCE: Final = f"{_PREFIX}resources/"
_OPTION: Final = f"{_PREFIX}autoscaling-options/"
_CSI: Final = f"{_PREFIX}csi-driver"
_REGION_OF_ZONE: Final = re.compile(r"[a-z]+(-[a-z]+)+-[0-9]+")
_MIB: Final = 2**20
#: The hypervisor and the kernel keep part of a machine's memory, in percent.
_OVERHEAD_PERCENT: Final = 7.5
#: What EKS' images reserve: memory for the kubelet (and for each pod), and for evictions, in MiB; CPU in thousandths of the
#: first core, the second, the next two, and the others.
_KUBELET_MIB, _POD_MIB, _EVICTION_MIB = 255, 11, 100
_RESERVED_CPU: Final = ((1, 60), (1, 10), (2, 5), (10**6, 2.5))
#: The most pods that EKS' images allow, on small machines and on those with at least 30 CPUs.
_MOST_PODS, _MOST_PODS_OF_LARGE, _LARGE_CPUS = 110, 250, 30


def options_of(group: ScalingGroup) -> GroupOptions:
    """The group's own options; options without a tag are None.

    :raises ValueError: a tag is invalid.
    """
    return read_options(group.tags, _OPTION, what="tag")


def template_of(group: ScalingGroup, types: Sequence[MachineType], managed: ManagedNodeGroup | None) -> Node | None:
    """The template of the group's new nodes; None if neither types nor tags say CPU and memory.

    :raises ValueError: a tag is invalid.
    """
    tags = {**group.tags, **(managed.tags if managed is not None else {})}
    nanos = _least([_allocatable(each) for each in types]) | _said_resources(tags)
    if "cpu" not in nanos or "memory" not in nanos:
        return None
    nanos.setdefault("pods", _MOST_PODS * NANO)
    return template_node(
        f"template-of-{group.name}",
        nanos,
        labels=_labels(group, types, managed, tags),
        taints=_taints(managed, tags),
        csi=read_said(_CSI, tags.get(_CSI, ""), read_attach_limits, what="tag"),
    )


def _allocatable(machine: MachineType) -> dict[str, int]:
    """What pods get of a machine, in nanos. Rather too little: a node that comes with less than its template is bought in vain,
    and nodes that have come show the truth."""
    most = _MOST_PODS_OF_LARGE if machine.cpus >= _LARGE_CPUS else _MOST_PODS
    pods = min(machine.addresses, most) if machine.addresses else most
    left, reserved = machine.cpus, 0.0
    for cores, thousandths in _RESERVED_CPU:
        reserved += min(left, cores) * thousandths
        left = max(left - cores, 0)
    kept = int(machine.memory * _OVERHEAD_PERCENT / 100) + (_KUBELET_MIB + _POD_MIB * pods + _EVICTION_MIB) * _MIB
    return {
        "cpu": machine.cpus * NANO - int(reserved * NANOS_PER_MILLI),
        "memory": max(machine.memory - kept, 0) * NANO,
        "pods": pods * NANO,
        **{name: count * NANO for name, count in machine.devices},
    }


def _least(each: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """What all have."""
    names = each[0].keys() if each else ()
    return {name: least for name in names if (least := min(own.get(name, 0) for own in each))}


def _said_resources(tags: Mapping[str, str]) -> dict[str, int]:
    said = ((key, value) for key, value in tags.items() if key.startswith(_RESOURCE))
    return {key.removeprefix(_RESOURCE): int(read_said(key, value, parse_nanos, what="tag")) for key, value in said}


def _labels(
    group: ScalingGroup, types: Sequence[MachineType], managed: ManagedNodeGroup | None, tags: Mapping[str, str]
) -> dict[str, str]:
    """The labels that each new node has: neither a type nor a zone where AWS has a choice."""
    labels = {"kubernetes.io/os": "linux"}
    if len(architectures := {each.architecture for each in types}) == 1:
        labels["kubernetes.io/arch"] = next(iter(architectures))
    if len(types) == 1:
        labels[INSTANCE_TYPE] = types[0].name
    if len(group.zones) == 1:
        labels[ZONE] = group.zones[0]
    if group.zones and (region := _REGION_OF_ZONE.match(group.zones[0])):
        labels[REGION] = region[0]
    said = {key.removeprefix(_LABEL): value for key, value in tags.items() if key.startswith(_LABEL)}
    return labels | (dict(managed.labels) if managed is not None else {}) | said


def _taints(managed: ManagedNodeGroup | None, tags: Mapping[str, str]) -> tuple[Taint, ...]:
    found = {(taint.key, taint.effect): taint for taint in (managed.taints if managed is not None else ())}
    for key, text in tags.items():
        if key.startswith(_TAINT):
            value, effect = read_said(key, text, taint_effect, what="tag")
            name = key.removeprefix(_TAINT)
            found[name, effect] = Taint(name, value, effect)
    return tuple(found.values())
