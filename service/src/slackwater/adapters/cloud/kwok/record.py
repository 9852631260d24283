"""Persists the machines that were requested and are not up yet: a ConfigMap with one key for each group.

Writes have the resourceVersion as precondition. A machine is identified by its number, and numbers are never reused; so a late
request that creates a Node again creates the same one. Once its Node is up, a machine leaves the record (docs/adr/0040).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from slackwater.adapters.cloud.apiserver import (
    CONFLICT,
    CREATED,
    MERGE_PATCH,
    NOT_FOUND,
    OK,
    ApiServer,
    MetaWire,
    Wire,
    refusal,
)
from slackwater.model.nodegroups import GroupName


class Machines(msgspec.Struct, frozen=True, rename="camel"):
    """The machines of one group on the record. `next_number` is the lowest number that was never used.

    `asked_at` has, by number, the time of the request in Unix seconds.
    """

    next_number: int = 0
    asked_at: dict[int, float] = {}

    def with_more(self, count: int, now: float) -> "Machines":
        new = dict.fromkeys(range(self.next_number, self.next_number + count), now)
        return Machines(next_number=self.next_number + count, asked_at=self.asked_at | new)

    def without(self, numbers: Iterable[int]) -> "Machines":
        gone = frozenset(numbers)
        left = {number: at for number, at in self.asked_at.items() if number not in gone}
        return Machines(next_number=self.next_number, asked_at=left)


NO_MACHINES = Machines()


class _ConfigMapWire(Wire):
    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    data: dict[str, str] | None = None


_CONFIG_MAP = msgspec.json.Decoder(_ConfigMapWire)
_MACHINES = msgspec.json.Decoder(Machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The record as it was read: all groups, with the ConfigMap's resourceVersion ("" if it does not exist yet)."""

    version: str = ""
    groups: Mapping[GroupName, Machines] = field(default_factory=dict)

    def of(self, group: GroupName) -> Machines:
        return self.groups.get(group, NO_MACHINES)


class Record:
    """Reads and writes the record in ConfigMap `name`. Failures are raised as `ProviderError`."""

    def __init__(self, api: ApiServer, *, namespace: str, name: str) -> None:
        self._api = api
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._collection}/{name}"
        self._name = name

    async def read(self) -> Page:
        answer = await self._api.ask("GET", self._path)
        if answer.status == NOT_FOUND:
            return Page()
        if answer.status != OK:
            raise refusal(None, f"read {self._path}", answer)
        found = _CONFIG_MAP.decode(answer.body)
        groups = {GroupName(group): _MACHINES.decode(text) for group, text in (found.data or {}).items()}
        return Page(version=found.metadata.resource_version, groups=groups)

    async def write(self, page: Page, group: GroupName, machines: Machines) -> Literal[True] | None:
        """Writes one group's machines; returns None, without an effect, if another client has written since `page` was read."""
        data = {group: msgspec.json.encode(machines).decode()}
        if not page.version:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self._name}, "data": data}
            answer = await self._api.ask("POST", self._collection, body=made)
        else:
            patch = {"metadata": {"resourceVersion": page.version}, "data": data}
            answer = await self._api.ask("PATCH", self._path, body=patch, content_type=MERGE_PATCH)
        # 404: the ConfigMap was deleted since. The next attempt reads an empty record and creates it again.
        if answer.status == CONFLICT or (answer.status == NOT_FOUND and page.version):
            return None
        if answer.status not in (OK, CREATED):
            raise refusal(group, f"write {self._path}", answer)
        return True
