"""Groups the pending pods for the dashboard: pods of one owner with equal requests and the same reason to wait are one entry.

    groups.add(pods)
    groups.section()    # {"total": pods, "groups": number of groups, "entries": [...]}

So ten thousand pods of a few jobs are a few entries. Reasons are schedulers' messages, compared without their numbers, which
differ from attempt to attempt. Deliberately absent: what would help (`/explain`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.model.ids import UnixTime
from slackwater.model.objects import Pod, created_at_of
from slackwater.model.resources import RESOURCES

#: The most groups that are sent.
MOST_GROUPS: Final = 400
#: The most pods that a group names.
MOST_NAMES: Final = 20
_DIGITS: Final = re.compile(r"\d+")
#: The end of a pod's name, a number or a hash. Pods without an owner that differ only in this part count as one workload.
_LAST_PART: Final = re.compile(r"[-.](?:\d+|[a-z0-9]{5})$")


@dataclass(slots=True)
class _PendingGroup:
    first: Pod
    oldest_at: UnixTime
    names: list[str] = field(default_factory=list)
    count: int = 0


class PendingGroups:
    """Groups pending pods. A caller with many pods may add them in slices, and let other tasks run in between."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], _PendingGroup] = {}
        self._reasons: dict[str | None, str] = {}
        self._total = 0

    def add(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._total += 1
            key = self._key(pod)
            at = created_at_of(pod.created_at)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _PendingGroup(pod, at)
            elif (at, pod.key) < (group.oldest_at, group.first.key):
                group.first, group.oldest_at = pod, at
            group.count += 1
            if len(group.names) < MOST_NAMES:
                group.names.append(pod.key.name)

    def _key(self, pod: Pod) -> tuple[Any, ...]:
        message = pod.unschedulable_message
        reason = self._reasons.get(message)
        if reason is None:
            reason = self._reasons[message] = without_numbers(message)
        owner = pod.eviction_facts.owner or _LAST_PART.sub("", pod.key.name)
        return (pod.key.namespace, owner, pod.priority, pod.kind.scheduler_name, pod.need, pod.gates, reason)

    def section(self) -> dict[str, Any]:
        """The groups as a JSON value, sorted by descending priority; among equal priorities the oldest first."""
        ordered = sorted(self._groups.values(), key=lambda group: (-group.first.priority, group.oldest_at, group.first.key))
        return {"total": self._total, "groups": len(ordered), "entries": [_entry(group) for group in ordered[:MOST_GROUPS]]}


def without_numbers(message: str | None) -> str:
    """The scheduler's message with "#" in place of each number, so that equal reasons give equal texts."""
    return "" if message is None else _DIGITS.sub("#", message)


def _entry(group: _PendingGroup) -> dict[str, Any]:
    pod = group.first
    owner = pod.eviction_facts.owner
    return {
        "namespace": pod.key.namespace,
        "name": pod.key.name,
        "owner": None if owner is None else f"{owner.kind} {owner.name}",
        "count": group.count,
        "names": sorted(group.names),
        "priority": pod.priority,
        "scheduler": pod.kind.scheduler_name,
        **dict(zip(RESOURCES, pod.need, strict=True)),
        "gates": list(pod.gates),
        "message": pod.unschedulable_message,
        "createdAt": int(group.oldest_at),
    }
