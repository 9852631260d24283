"""Calls the cloud providers for the autoscaler's loop. Every call has a deadline; the node group registry gets the result."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import anyio

from slackwater.cluster.nodegroups.registry import NodeGroupRegistry
from slackwater.cluster.nodegroups.status import Chore, Delete, Grow, Lower
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import NodeProvider, ProviderError

T = TypeVar("T")

#: The most concurrent provider calls.
_WIDTH: Final = 8


@dataclass(slots=True)
class Done:
    """The results of one loop's provider calls: scale-ups, deleted and lowered nodes by group, problems as text."""

    asked: list[tuple[Grow, ProviderError | None]] = field(default_factory=list)
    deleted: dict[GroupName, int] = field(default_factory=dict)
    lowered: dict[GroupName, int] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Actor:
    """Calls the providers. Skips each call if `leading` says that this replica is no longer the leader."""

    def __init__(
        self,
        providers: Mapping[str, NodeProvider],
        group_registry: NodeGroupRegistry,
        *,
        clock: Callable[[], Instant],
        leading: Callable[[], bool],
        timeout_seconds: float,
    ) -> None:
        self._providers = providers
        self._group_registry = group_registry
        self._clock = clock
        self._leading = leading
        self._timeout = timeout_seconds

    async def clean(self, chores: Iterable[Chore], done: Done) -> None:
        """Deletes lost instances, and lowers the targets of groups by requested nodes that never came."""
        await self._each(chores, lambda chore: self._chore(chore, done))

    async def grow(self, scale_ups: Iterable[Grow], done: Done) -> None:
        """Requests the scale-ups, started in the given order (most important first), some concurrently."""
        await self._each(scale_ups, lambda scale_up: self._grow(scale_up, done))

    async def _chore(self, chore: Chore, done: Done) -> None:
        provider = self._providers[chore.provider]
        try:
            match chore:
                case Delete():
                    lost = [problem.instance for problem in chore.lost]
                    await provider.delete(chore.group, lost, timeout_seconds=self._timeout)
                    done.deleted[chore.group] = len(lost)
                    done.failed.update(problem.code for problem in chore.lost)
                case Lower():
                    await provider.lower(chore.group, seen=chore.seen, to=chore.to, timeout_seconds=self._timeout)
                    done.lowered[chore.group] = chore.seen - chore.to
        except ProviderError as error:
            done.problems.append(str(error))

    async def _grow(self, scale_up: Grow, done: Done) -> None:
        group_registry = self._group_registry
        group_registry.grow_begun(scale_up, self._clock())
        try:
            await self._providers[scale_up.provider].grow(
                scale_up.group, seen=scale_up.seen, to=scale_up.to, timeout_seconds=self._timeout
            )
        except ProviderError as error:
            group_registry.grow_ended(scale_up, error.kind, error.detail, self._clock())
            done.asked.append((scale_up, error))
            done.problems.append(str(error))
        else:
            group_registry.grow_ended(scale_up, None, "", self._clock())
            done.asked.append((scale_up, None))

    async def _each(self, items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        limiter = anyio.CapacityLimiter(_WIDTH)

        async def one(item: T) -> None:
            async with limiter:
                if self._leading():
                    await do(item)

        async with anyio.create_task_group() as group:
            for item in items:
                group.start_soon(one, item)
