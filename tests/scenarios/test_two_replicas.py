"""Two replicas over one cluster, on virtual time: one leads and is stopped, the other goes on, and the first wakes up."""

from random import Random
from typing import Final

import anyio
import pytest

from slackwater.app.wiring import Service
from slackwater.model.ids import Instant
from slackwater.runtime.dump import Dump, state_of
from slackwater.sandbox.embedded.agents import AgentBehavior, Agents
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.extender_client import ConnectionLost
from slackwater.sandbox.embedded.kinds import PODS
from slackwater.sandbox.embedded.scheduler import Scheduler
from tests.faults import laws
from tests.faults.story import Story
from tests.faults.truth import Truth
from tests.faults.virtualloop import run_virtually
from tests.support.answers import json_of
from tests.support.elections import EPOCH
from tests.support.invariants import violations
from tests.support.replicas import Replica, as_if_begun
from tests.support.seeds import FRESH, a_seed

#: Longer than a Lease lasts.
_STOPPED_SECONDS: Final = 25.0
_ROUNDS: Final = 3
_STORIES: Final = 4 if FRESH else 2
#: Parts of a dump: what is promised, and on what it rests.
_COUNTED: Final = ("nodes", "pods", "permits", "holds", "nominations", "gates", "migrations", "migrationQueue", "epoch")
#: A pod that was refused for want of a leader is tried again by then.
_CALM_SECONDS: Final = 40.0


class Pair:
    """Two replicas, a scheduler that asks whoever leads, agents that ask whichever they like, and a cluster's life around."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.box = Sandbox(rng=self.rng("box"), wall=lambda: EPOCH + anyio.current_time())
        self.truth = Truth(self.box.api)
        self.story = Story(self.box.api, self.rng("story"), self.truth.meddle)
        self.replicas = [Replica(name, self.box.api, self.rng(name)) for name in ("slackwater-a", "slackwater-b")]
        self.taken_over = 0
        for one, other in zip(self.replicas, reversed(self.replicas), strict=True):
            one.others = [other]
            one.on_lead = self._begins_like_a_new_one
        self.box.api.store.on_change.append(lambda _kind, _change: self.check())
        self.bound: dict[str, str] = {}

    def _begins_like_a_new_one(self, service: Service, now: Instant) -> None:
        """Whoever has watched, and takes over, counts what a process would that had just listed everything."""
        self.taken_over += 1
        mine, fresh = (
            json_of(state_of(Dump(state_machine, now)))
            for state_machine in (service.state_machine, as_if_begun(service.state_machine, now))
        )
        for part in _COUNTED:
            assert mine[part] == fresh[part], part

    def rng(self, what: str) -> Random:
        return Random(f"{self._seed}/{what}")

    def check(self) -> None:
        """After each change: no node is promised more than it has, no pod has moved, one leads at the most."""
        assert not self.truth.too_full()
        assert len([one.name for one in self.replicas if one.leads]) <= 1
        for uid, placed in self.truth.placed.items():
            assert self.bound.setdefault(uid, placed.node) == placed.node

    async def leader(self) -> Replica:
        with anyio.fail_after(60):
            while True:
                for one in self.replicas:
                    if one.leads:
                        return one
                await anyio.sleep(0.05)

    async def ask_extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        await anyio.sleep(0.001)
        for one in self.replicas:
            if one.leads or (one.api.stopped and one.election.leadership.leads()):
                return await one.extender(verb, body)
        raise ConnectionLost("connection refused")

    async def ask_permit(self, body: bytes) -> tuple[int, bytes]:
        await anyio.sleep(0.001)
        return await self._asked.choice(self.replicas).permit(body)

    async def play(self) -> None:
        self._asked = self.rng("asked")
        habits = AgentBehavior(
            wants=self.story.wants, tick_seconds=1.0, retry_seconds=0.5, answer_seconds=3.0, grow_seconds=1.5
        )
        agents = self.truth.agents = Agents(self.box.api, self.ask_permit, self.rng("agents"), habits)
        self.story.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self.box.run)
            for one in self.replicas:
                group.start_soon(one.run)
            group.start_soon(agents.run)
            scheduler = Scheduler(self.box.api, self.box.timers, self.ask_extender, rng=self.rng("scheduler"))
            scheduler.attach()
            group.start_soon(scheduler.run)
            telling = anyio.CancelScope()
            group.start_soon(self._tell, telling)
            await self.leader()
            for _ in range(_ROUNDS):
                await self.round()
            telling.cancel()
            self.story.calm = True
            await anyio.sleep(_CALM_SECONDS)
            await self.healed()
            assert not agents.broken
            assert self.taken_over == 1 + _ROUNDS
            group.cancel_scope.cancel()

    async def _tell(self, scope: anyio.CancelScope) -> None:
        with scope:
            await self.story.tell()

    async def round(self) -> None:
        """The leader is stopped anywhere in what it does; the other follows; the first wakes and does nothing wrong."""
        old = await self.leader()
        lives = old.lives
        await anyio.sleep(self._asked.uniform(2.0, 4.0))
        old.api.stop()
        await anyio.sleep(_STOPPED_SECONDS)
        new = await self.leader()
        assert new is not old
        await old.api.go_on()
        await anyio.sleep(5)
        assert await self.leader() is new
        assert old.lives > lives
        assert old.service is not None
        assert old.service.intake.ready
        assert not old.leads
        samples = [old.service.registry.get_sample_value(f"slackwater_{name}") for name in ("synced", "leader")]
        assert samples == [1.0, 0.0], "a standby that has listed is healthy: no alert about it"

    async def healed(self) -> None:
        leader = await self.leader()
        assert leader.service is not None
        state_machine = leader.service.state_machine
        laws.check_healed(state_machine, self.box.api)
        assert not violations(state_machine)
        assert not list(laws.waiting_in_vain(self.box.api, self.truth, state_machine))
        assert any((stored.body["spec"].get("nodeName")) for stored in self.box.api.store.all(PODS))


@pytest.mark.parametrize("number", range(_STORIES))
def test_a_leader_that_is_stopped_and_continues_breaks_no_law(number: int) -> None:
    seed = a_seed() + number
    run_virtually(Random(f"{seed}/loop"), Pair(seed).play)
