"""Marked workloads: placeholders for the annotation `slackwater.dev/slack` on pods or their controllers (S7 of the proposal).

"2": two placeholders like a pod of the workload; "10%": a tenth of its replicas, rounded up; "0": none, and no room is kept for
the size of its pods. Pods of one controller count as one workload, however many carry the annotation. A text that cannot be
read is reported, and asks for nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.controllers.slack.pod_headroom import PodHeadroom
from slackwater.model.buffers import Workload
from slackwater.model.eviction_facts import Owner
from slackwater.model.objects import Pod
from slackwater_protocol.names import SLACK

#: A larger number for one workload is taken for a mistake.
MOST: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The placeholders of marked workloads. `problems` are for people: annotations that cannot be read."""

    pod_headroom: tuple[PodHeadroom, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Group:
    """The pods of one controller: the newest, and their number."""

    pod: Pod
    count: int = 0


def wanted(text: str, replicas: int) -> int:
    """How many placeholders an annotation asks for. Raises ValueError."""
    percent = text.endswith("%")
    digits = text.removesuffix("%").strip()
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r}, want a number or a percentage such as 2 or 10%")
    count = -(-int(digits) * replicas // 100) if percent else int(digits)
    if count > MOST:
        raise ValueError(f"{text!r} is {count} placeholders, want at most {MOST}")
    return count


def marked(workloads: Iterable[Workload], pods: Iterable[Pod], newest: Mapping[tuple[str, Owner], Pod]) -> Marked:
    """The placeholders that marked workloads ask for. `pods` are those with the annotation; the annotation of a workload itself
    takes precedence over its pods'."""
    asks: list[tuple[str, str, int, Pod]] = []
    spoken: set[tuple[str, Owner]] = set()
    for workload in sorted(workloads, key=lambda each: (each.namespace, each.ref.kind, each.ref.name)):
        key = (workload.namespace, workload.ref)
        spoken.add(key)
        name = f"{workload.ref.kind} {workload.namespace}/{workload.ref.name}"
        asks.append((name, workload.slack, workload.replicas, newest.get(key, workload.pod)))
    for name, group in sorted(_by_controller(pods, spoken).items()):
        asks.append((name, group.pod.eviction_facts.slack, group.count, group.pod))
    found: list[PodHeadroom] = []
    problems: list[str] = []
    for name, text, replicas, pod in asks:
        try:
            count = wanted(text, replicas)
        except ValueError as error:
            problems.append(f"{name}: annotation {SLACK}: {error}")
        else:
            found += [PodHeadroom(source=name, kind=pod.kind, labels=pod.labels, count=count)] if count else []
    return Marked(pod_headroom=tuple(found), problems=tuple(problems))


def _by_controller(pods: Iterable[Pod], spoken: set[tuple[str, Owner]]) -> dict[str, _Group]:
    """The newest pod and the number of pods of each controller; a pod without one counts alone."""
    groups: dict[str, _Group] = {}
    for pod in pods:
        owner = pod.eviction_facts.owner
        if owner is not None and (pod.key.namespace, owner) in spoken:
            continue
        name = f"Pod {pod.key}" if owner is None else f"{owner.kind} {pod.key.namespace}/{owner.name}"
        group = groups.setdefault(name, _Group(pod))
        group.count += 1
        if (pod.created_at, pod.key) > (group.pod.created_at, group.pod.key):
            group.pod = pod
    return groups
