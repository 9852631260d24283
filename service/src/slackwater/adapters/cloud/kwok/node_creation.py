"""Makes requested machines arrive: creates their Nodes when due, boots the Nodes later, then takes the machines off the record.

Every step is idempotent, so several processes may do the same step: a Node that exists already is not created again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import anyio
import structlog

from slackwater.adapters.api_calls import ApiCalls
from slackwater.adapters.cloud.apiserver import bounded, each, repeated
from slackwater.adapters.cloud.kwok import nodes
from slackwater.adapters.cloud.kwok.nodes import KwokGroup, Machines, Members, Record, timeline_of
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError

_log = structlog.get_logger(__name__)

#: Interval of reading the record if nothing is due, since another process may have changed it.
_LOOK_EVERY_SECONDS: Final = 5.0
_RETRY_AFTER_SECONDS: Final = 1.0
#: Least time between two passes. Each pass lists all Nodes, so machines that are due soon after each other share a pass.
_GATHER_SECONDS: Final = 0.25
_PASS_SECONDS: Final = 60.0
#: Nodes that are created or booted at the same time.
_WIDTH: Final = 8


@dataclass(slots=True)
class _Pass:
    """The result of one pass over a group.

    `up` are the numbers of the machines to remove from the record. `due_at` are the times of next steps in Unix seconds.
    """

    up: set[int] = field(default_factory=set)
    due_at: list[float] = field(default_factory=list)


class Arrivals:
    """The task that makes requested machines arrive, in passes over all groups.

    Each pass holds `lock`, so that `KwokProvider` takes no machine off the record meanwhile. `now` returns Unix seconds.
    """

    def __init__(
        self,
        api: ApiCalls,
        groups: Mapping[GroupName, KwokGroup],
        record: Record,
        *,
        lock: anyio.Lock,
        now: Callable[[], float],
        seed: int,
    ) -> None:
        self._api, self._groups, self._record = api, groups, record
        self._lock, self._now, self._seed = lock, now, seed
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Starts the next pass soon, since the record has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Makes passes until cancelled. After a `ProviderError` it logs and tries again."""
        while True:
            self._woken = anyio.Event()
            try:
                due_at = await self.settle()
                due_in = _LOOK_EVERY_SECONDS if due_at is None else due_at - self._now()
                wait = min(max(due_in, _GATHER_SECONDS), _LOOK_EVERY_SECONDS)
            except ProviderError as error:
                _log.warning("nodes of kwok groups wait", problem=str(error))
                wait = _RETRY_AFTER_SECONDS
            with anyio.move_on_after(wait):
                await self._woken.wait()

    async def settle(self) -> float | None:
        """Makes one pass: does all steps that are due. Returns the time of the next step in Unix seconds, None if none remains.

        :raises ProviderError: the API server failed.
        """
        due_at: list[float] = []
        with bounded(None, _PASS_SECONDS):
            async with self._lock:
                page = await self._record.read()
                busy = [group for name, group in self._groups.items() if page.of(name).asked_at]
                found = await nodes.members(self._api) if busy else {}
                for group in busy:
                    members = found.get(group.name, Members())
                    due_at += (await self._arrive(group, page.of(group.name), members)).due_at
        return min(due_at, default=None)

    async def _arrive(self, group: KwokGroup, machines: Machines, members: Members) -> _Pass:
        done = _Pass()
        numbers = sorted(machines.asked_at)
        if (stock := group.simulated_failures.stock) is not None:
            coming = [number for number in numbers if group.node_name(number) not in members.there]
            out_of_stock = frozenset(coming[max(stock - len(members.there), 0) :])
            numbers = [number for number in numbers if number not in out_of_stock]

        async def remove_from_record() -> Literal[True] | None:
            page = await self._record.read()
            machines = page.of(group.name)
            removed = machines.asked_at.keys() & done.up
            return await self._record.write(page, group.name, machines.without(removed)) if removed else True

        try:
            await each(group.name, numbers, lambda number: self._step(group, number, machines, members, done), width=_WIDTH)
        finally:
            if done.up:
                async with self._record.alone:
                    await repeated(remove_from_record)
        return done

    async def _step(self, group: KwokGroup, number: int, machines: Machines, members: Members, done: _Pass) -> None:
        name, asked_at = group.node_name(number), machines.asked_at[number]
        life = timeline_of(group.simulated_failures, self._seed, name)
        age = self._now() - asked_at
        boots = life.ending == "fine" and age >= life.boots_after
        if name in members.leaving:
            done.up.add(number)  # another client deletes the Node: it is not created again
            return
        if life.ending not in ("fine", "unready"):
            return
        if age < life.appears_after:
            done.due_at.append(asked_at + life.appears_after)
            return
        await self._make(group, name, members, boots=boots)
        if boots:
            done.up.add(number)
        elif life.ending == "fine":
            done.due_at.append(asked_at + life.boots_after)

    async def _make(self, group: KwokGroup, name: NodeName, members: Members, *, boots: bool) -> None:
        member = members.there.get(name)
        if member is None:
            await nodes.create(self._api, group, name, booted=boots)
        elif boots and not member.booted:
            await nodes.boot(self._api, group.name, member)
