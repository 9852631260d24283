"""The loop: what it writes, how often, and what the next process finds."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import anyio
from msgspec import structs

from slackwater.cluster.pods import PodTable
from slackwater.controllers.history.loop import HistoryLoop
from slackwater.controllers.history.policy import SLOTS, HistoryPolicy
from slackwater.controllers.history.state import Chunk, History, chunk_of
from slackwater.model.effects import ApiEffect, DeleteMigration, DeleteVictim, Evict
from slackwater.model.events import EvictionEnded, PodGone
from slackwater.model.history import HistoryAction, HistoryEntry, words
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod
from slackwater.model.vertical import VirtualMachineMigration
from slackwater.ports.protocols import Outcome
from tests.faults.virtualloop import run_virtually
from tests.support.builders import a_migration_to_n2, a_pod
from tests.support.service import ScriptedWriter

NOW = Instant(0.0)


@dataclass
class Store:
    """Keeps chunks by slot. `silent`: it answers nothing."""

    slots: dict[tuple[str, int], Chunk] = field(default_factory=dict)
    writes: list[tuple[float, int]] = field(default_factory=list)
    silent: bool = False

    async def read(self) -> list[Chunk] | None:
        await anyio.sleep(0.01)
        return None if self.silent else list(self.slots.values())

    async def write(self, chunk: Chunk) -> int | None:
        await anyio.sleep(0.01)
        if self.silent:
            return None
        copy = chunk_of(chunk.ring, chunk.number, list(chunk.entries))
        self.slots[chunk.ring, chunk.slot] = copy
        self.writes.append((anyio.current_time(), copy.bytes))
        return copy.bytes


class Life:
    """One process: a loop over a table of pods."""

    def __init__(self, store: Store, pods: PodTable | None = None, policy: HistoryPolicy | None = None) -> None:
        policy = policy or HistoryPolicy()
        self.migrations: dict[PodKey, VirtualMachineMigration] = {}
        self.history, self.pods = History(policy), pods or PodTable()
        self.loop = HistoryLoop(
            self.history,
            self.pods,
            migrations=self.migrations,
            preemptor_of=lambda _: None,
            store=store,
            policy=policy,
            wall_ms=lambda: round(anyio.current_time() * 1000),
        )

    async def live(self, seconds: float) -> None:
        """Runs for some time, and ends in order."""
        with anyio.move_on_after(seconds):
            await self.loop.run()

    async def call(self, effect: ApiEffect, outcome: Outcome = Outcome("done", 200)) -> None:
        await self.loop.noting(ScriptedWriter([outcome])).perform(effect, timeout_seconds=1.0)

    def reported(self, key: str) -> list[HistoryAction]:
        return [entry.action for entry in self.history.of("pod", key)]


def evict(name: str, node: str = "n1") -> Evict:
    return Evict(uid=PodUid(f"uid-{name}"), key=PodKey("default", name), node=NodeName(node))


def victim(name: str) -> DeleteVictim:
    return DeleteVictim(PodUid(f"uid-{name}"), PodKey("default", name), PodKey("default", "high"))


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(Random(1), main)


def test_decisions_are_answered_at_once_and_written_soon() -> None:
    async def main() -> None:
        store = Store()
        life = Life(store, pods_with(a_pod("a", on="n1")))
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 60.0)
            await anyio.sleep(2.0)
            await life.call(victim("a"))
            assert life.reported("default/a") == [HistoryAction.PREEMPTED]
            assert words(life.history.of("pod", "default/a")[0]) == "preempted on n1 to make room for default/high"
            await anyio.sleep(2.0)
            assert [entry.pod for chunk in store.slots.values() for entry in chunk.entries] == ["default/a"]

    play(main)


def test_a_killed_process_loses_the_last_second_and_no_more() -> None:
    async def main() -> None:
        store, copies = Store(), list[Store]()
        life = Life(store)
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 60.0)
            await anyio.sleep(2.0)
            await life.call(evict("old"))
            await anyio.sleep(2.0)
            await life.call(evict("new"))
            copies.append(Store(slots=dict(store.slots)))  # what the API server has at the moment of the kill
            group.cancel_scope.cancel()
        other = Life(copies[0])
        await other.live(3.0)
        assert other.reported("default/old") == [HistoryAction.EVICTED]
        assert other.reported("default/new") == []
        third = Life(store)  # after an orderly end everything is there
        await third.live(3.0)
        assert third.reported("default/new") == [HistoryAction.EVICTED]

    play(main)


def test_nothing_is_overwritten_before_it_was_read() -> None:
    async def main() -> None:
        store = Store(silent=True)
        store.slots["acts", 0] = chunk_of("acts", 0, [an_entry("yesterday")])
        life = Life(store)
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 60.0)
            await anyio.sleep(10.0)
            await life.call(evict("today"))
            await anyio.sleep(10.0)
            assert not store.writes
            assert life.loop.writes == {"done": 0, "failed": 0}
            store.silent = False
            await anyio.sleep(20.0)
        assert [entry.pod for entry in store.slots["acts", 0].entries] == ["default/yesterday", "default/today"]
        assert life.loop.writes == {"done": 1, "failed": 0}

    play(main)


def test_only_what_the_api_server_accepted_is_an_entry() -> None:
    async def main() -> None:
        life = Life(Store())
        gone = Outcome("done", 404, event=PodGone(PodUid("uid-a"), PodKey("default", "a"), read=True))
        blocked = EvictionEnded(PodUid("uid-a"), NodeName("n1"), "blocked", "budget")
        for outcome in (gone, Outcome("refused", 429, event=blocked), Outcome("unknown"), Outcome("again", 500)):
            await life.call(evict("a"), outcome)
        assert life.reported("default/a") == []

    play(main)


def test_a_refused_pod_is_followed_until_it_has_a_node() -> None:
    async def main() -> None:
        life = Life(Store())
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 10.0)
            await anyio.sleep(1.0)
            life.pods.put(a_pod("a", message="0/1 nodes are available: 1 Insufficient cpu."))
            await anyio.sleep(1.0)
            life.pods.put(a_pod("a", on="n1"))
            life.pods.put(a_pod("b", on="n1"))
        assert life.reported("default/a") == [HistoryAction.REFUSED, HistoryAction.BOUND]
        assert life.reported("default/b") == [], "it was placed at the first attempt"

    play(main)


def test_the_condition_that_our_own_eviction_sets_is_no_second_entry() -> None:
    async def main() -> None:
        pod = structs.replace(a_pod("a", on="n1"), disruption="EvictionByEvictionAPI: Eviction API: evicting", deleting=True)
        other = structs.replace(a_pod("b", on="n1"), disruption="EvictionByEvictionAPI: Eviction API: evicting", deleting=True)
        life = Life(Store())
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 10.0)
            await anyio.sleep(1.0)
            life.pods.put(pod)  # the watch is faster than the answer
            life.pods.put(other)
            life.pods.drop(other.uid, other.key, NOW)
            await anyio.sleep(1.0)
            await life.call(evict("a"))
        assert life.reported("default/a") == [HistoryAction.EVICTED]
        assert life.reported("default/b") == [HistoryAction.DISRUPTED], "also of a pod that was gone at once"

    play(main)


def test_a_migration_whose_object_is_gone_at_once_has_ended() -> None:
    async def main() -> None:
        life = Life(Store())
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 10.0)
            await anyio.sleep(1.0)
            ended = a_migration_to_n2("Succeeded")
            life.migrations[ended.key] = ended
            await life.call(DeleteMigration(ended.uid, ended.key))
            del life.migrations[ended.key]
        assert [words(entry) for entry in life.history.of("pod", "shop/vm-1")] == [
            "live migration to n2 succeeded; it is shop/vm-2 now"
        ]

    play(main)


def test_a_restart_repeats_nothing() -> None:
    async def main() -> None:
        pods, store = pods_with(a_pod("a", message="0/1 nodes are available: 1 Insufficient cpu.")), Store()
        for _ in range(3):
            life = Life(store, pods)
            await life.live(10.0)
        assert life.reported("default/a") == [HistoryAction.REFUSED]

    play(main)


def test_a_storm_is_written_at_a_bounded_rate() -> None:
    async def main() -> None:
        store, policy = Store(), HistoryPolicy(chunk_bytes=20_000, bytes_per_second=2_000)
        life = Life(store, policy=policy)
        async with anyio.create_task_group() as group:
            group.start_soon(life.live, 100.0)
            await anyio.sleep(1.0)
            for number in range(20_000):
                await life.call(evict(f"a-{number}", f"n{number % 500}"))
                if number % 200 == 0:
                    await anyio.sleep(0.5)
        assert sum(size for _, size in store.writes) <= 100.0 * policy.bytes_per_second + 10 * policy.chunk_bytes
        pauses = [after - before for (before, _), (after, _) in pairwise(store.writes[:-8])]
        assert min(pauses) >= policy.min_seconds
        assert len(store.slots) <= sum(SLOTS.values())

    play(main)


def pods_with(*pods: Pod) -> PodTable:
    table = PodTable()
    for pod in pods:
        table.put(pod)
    return table


def an_entry(name: str) -> HistoryEntry:
    return HistoryEntry(at_ms=1, action=HistoryAction.EVICTED, pod=f"default/{name}", uid="uid-", node="n1")
