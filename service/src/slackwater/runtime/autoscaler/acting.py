"""What a loop asks of providers: every call with a deadline, every end back into the fleet."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import anyio

from slackwater.cluster.nodegroups.registry import Fleet
from slackwater.cluster.nodegroups.status import Chore, Delete, Grow, Lower
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import NodeProvider, ProviderError

T = TypeVar("T")

#: Calls to providers at the same time.
_WIDTH: Final = 8


@dataclass(slots=True)
class Done:
    """What came of a loop's calls."""

    asked: list[tuple[Grow, ProviderError | None]] = field(default_factory=list)
    deleted: dict[GroupName, int] = field(default_factory=dict)
    lowered: dict[GroupName, int] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Actor:
    """Makes the calls. `leading` is asked before each: who does not lead any more changes nothing."""

    def __init__(
        self,
        providers: Mapping[str, NodeProvider],
        fleet: Fleet,
        *,
        clock: Callable[[], Instant],
        leading: Callable[[], bool],
        timeout_seconds: float,
    ) -> None:
        self._providers = providers
        self._fleet = fleet
        self._clock = clock
        self._leading = leading
        self._timeout = timeout_seconds

    async def clean(self, chores: Iterable[Chore], done: Done) -> None:
        """Deletes what is lost, gives up what never came."""
        await self._each(chores, lambda chore: self._chore(chore, done))

    async def grow(self, growths: Iterable[Grow], done: Done) -> None:
        """Most important first, as far as calls run side by side."""
        await self._each(growths, lambda growth: self._grow(growth, done))

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

    async def _grow(self, growth: Grow, done: Done) -> None:
        fleet = self._fleet
        fleet.grow_begun(growth, self._clock())
        try:
            await self._providers[growth.provider].grow(
                growth.group, seen=growth.seen, to=growth.to, timeout_seconds=self._timeout
            )
        except ProviderError as error:
            fleet.grow_ended(growth, error.kind, error.detail, self._clock())
            done.asked.append((growth, error))
            done.problems.append(str(error))
        else:
            fleet.grow_ended(growth, None, "", self._clock())
            done.asked.append((growth, None))

    async def _each(self, items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        limiter = anyio.CapacityLimiter(_WIDTH)

        async def one(item: T) -> None:
            async with limiter:
                if self._leading():
                    await do(item)

        async with anyio.create_task_group() as group:
            for item in items:
                group.start_soon(one, item)
