"""Applies the configuration's names, size limits and templates to the node groups of a provider.

`ConfiguredGroups` wraps another `GroupReader`, `ConfiguredProvider` another `NodeProvider`. Groups that the configuration does
not name pass unchanged. Limits can only become narrower, since the provider's own limits still apply.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from slackwater.model.nodegroups import GroupName, Instance, NodeGroup
from slackwater.model.objects import Node
from slackwater.ports.protocols import GroupReader, NodeProvider, ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The configuration of one node group, which the provider calls `id` and Slackwater calls `name`.

    `template` replaces the provider's template of new nodes; None keeps the provider's.
    """

    id: GroupName
    name: GroupName
    min_size: int
    max_size: int
    template: Node | None = None


class ConfiguredGroups:
    """Implements `ports.protocols.GroupReader` on another reader, under configured names and limits."""

    def __init__(self, provider: GroupReader, entries: Iterable[Entry]) -> None:
        self._groups = provider
        known = tuple(entries)
        self._by_id: Mapping[GroupName, Entry] = {entry.id: entry for entry in known}
        self._by_name: Mapping[GroupName, Entry] = {entry.name: entry for entry in known}

    @property
    def name(self) -> str:
        return self._groups.name

    async def groups(self, *, timeout_seconds: float) -> Sequence[NodeGroup]:
        with self._named():
            found = await self._groups.groups(timeout_seconds=timeout_seconds)
        return sorted((self._configured(group) for group in found), key=lambda group: group.name)

    def _id(self, name: GroupName) -> GroupName:
        entry = self._by_name.get(name)
        return name if entry is None else entry.id

    def _configured(self, group: NodeGroup) -> NodeGroup:
        entry = self._by_id.get(group.name)
        if entry is None:
            return group
        return replace(
            group,
            name=entry.name,
            id=entry.id,
            min_size=max(group.min_size, entry.min_size),
            max_size=min(group.max_size, entry.max_size),
            template=group.template if entry.template is None else entry.template,
            choice=group.choice if entry.template is None else group.choice.settled_by(entry.template),
        )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A context whose errors name groups as the configuration does."""
        try:
            yield
        except ProviderError as error:
            entry = None if error.group is None else self._by_id.get(error.group)
            raise ProviderError(error.kind, error.group if entry is None else entry.name, error.detail) from error


class ConfiguredProvider(ConfiguredGroups):
    """Implements `ports.protocols.NodeProvider` on another provider, under configured names and limits."""

    def __init__(self, provider: NodeProvider, entries: Iterable[Entry]) -> None:
        super().__init__(provider, entries)
        self._provider = provider

    async def grow(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        entry = self._by_name.get(group)
        if entry is not None and to > entry.max_size:
            raise ProviderError("limit", group, f"got {to} nodes, want at most {entry.max_size} (configuration)")
        with self._named():
            await self._provider.grow(self._id(group), seen=seen, to=to, timeout_seconds=timeout_seconds)

    async def lower(self, group: GroupName, *, seen: int, to: int, timeout_seconds: float) -> None:
        entry = self._by_name.get(group)
        if entry is not None and to < entry.min_size:
            raise ProviderError("limit", group, f"got {to} nodes, want at least {entry.min_size} (configuration)")
        with self._named():
            await self._provider.lower(self._id(group), seen=seen, to=to, timeout_seconds=timeout_seconds)

    async def delete(
        self, group: GroupName, instances: Sequence[Instance], *, timeout_seconds: float, replace: bool = False
    ) -> None:
        """Deletes instances without checking the configured minimum, which is left to the caller.

        Only the provider knows which instances still count towards the group's size.
        """
        with self._named():
            await self._provider.delete(self._id(group), instances, timeout_seconds=timeout_seconds, replace=replace)
