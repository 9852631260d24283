"""What pods take of a node besides amounts: host ports, in-line disks, claims. Few pods do, so dictionaries suffice.

Pods may share a claim or a read-only disk, so each entry has a count.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from slackwater.model.pod_constraints import EVERY_ADDRESS, ClaimMount, DiskMount, HostPort, InlineDisk
from slackwater.snapshot.equivalence_groups import Numbered

#: A claim's key: namespace and name.
ClaimKey = tuple[str, str]
Mount = tuple[str, ClaimMount | InlineDisk]  #: the namespace, and what is mounted


class Attached:
    """The ports, disks and mounts that pods take, by row."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        self._disks: dict[tuple[str, tuple[str, ...]], dict[DiskMount, dict[int, int]]] = {}
        #: How many mounts each claim has in the whole cluster; claims of ephemeral volumes are not counted.
        self._users: dict[ClaimKey, int] = {}
        self._mounts: dict[int, dict[Mount, int]] = {}

    def change(self, numbered: Numbered, row: int, count: int) -> None:
        """Adds `count` pods of an equivalence group to the row; removes them where it is negative."""
        asks, namespace = numbered.asks, numbered.kind.namespace
        for port in asks.host_ports:
            _add(self._ports.setdefault((port.protocol, port.port), {}).setdefault(port.ip, {}), row, count)
        for disk in asks.disks:
            _add(self._disks.setdefault((disk.source, disk.disk), {}).setdefault(disk, {}), row, count)
        for mount in asks.claims:
            if mount.owner is None:
                _add(self._users, (namespace, mount.claim), count)
        for held in (*asks.claims, *asks.inline_disks):
            _add(self._mounts.setdefault(row, {}), (namespace, held), count)

    def rows_with_port(self, wanted: HostPort) -> Iterator[int]:
        """Rows where a pod has a host port that conflicts with this one."""
        for ip, rows in self._ports.get((wanted.protocol, wanted.port), {}).items():
            if EVERY_ADDRESS in (ip, wanted.ip) or ip == wanted.ip:
                yield from rows

    def rows_with_disk(self, wanted: DiskMount) -> Iterator[int]:
        """Rows where a pod mounts the same disk in a way that excludes a second mount."""
        for disk, rows in self._disks.get((wanted.source, wanted.disk), {}).items():
            shared = not disk.monitors or not set(disk.monitors).isdisjoint(wanted.monitors)
            if shared and (wanted.exclusive or not (disk.read_only and wanted.read_only)):
                yield from rows

    def users_of(self, claim: ClaimKey) -> int:
        return self._users.get(claim, 0)

    def mounts(self, row: int) -> Iterator[Mount]:
        """The mounts of a row's pods, each once."""
        return iter(self._mounts.get(row, ()))

    def counts(self, row: int) -> Iterable[tuple[Mount, int]]:
        """The mounts of a row's pods, with the number of pods that have each."""
        return self._mounts.get(row, {}).items()


def _add(counts: dict[Any, int], key: object, count: int) -> None:
    total = counts.get(key, 0) + count
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
