"""One run: a cluster, its story, the service's lives, and the storm; laws after every step, and when it is calm again."""

import gc
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup

from slackwater.model.events import TimePassed
from slackwater.model.ids import Instant
from slackwater.model.permits import PermitAsk
from slackwater.sandbox.embedded.agents import AgentBehavior, Agents
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.extender_client import ConnectionLost
from slackwater.sandbox.embedded.kubelets import KubeletDelays
from slackwater.sandbox.embedded.machines import MigrationBehavior
from slackwater.sandbox.embedded.scheduler import Scheduler
from tests.faults import deeds, laws
from tests.faults.laws import Broken
from tests.faults.lives import Life, Lives
from tests.faults.promises import SentBinds, check_reported
from tests.faults.provider_faults import Sky, provider_faults_of
from tests.faults.service import settings_of
from tests.faults.story import Story
from tests.faults.tempers import Tempers
from tests.faults.truth import Truth
from tests.faults.virtualloop import run_virtually
from tests.faults.wire import Wire
from tests.support.garbage import no_freezing

_OK: Final = 200
_EPOCH: Final = 1.8e9
#: After the storm everything has to be well: looked at after each of these, since back-offs and lost watches add up.
_CALM_SECONDS: Final = (15.0, 10.0, 10.0, 10.0)
#: Of the scheduler, at most; and some.
_BACKOFF_SECONDS: Final = 12.0
#: kube-scheduler's leaseDuration.
_LEASE_SECONDS: Final = 15.0
#: Every so many steps what is expensive is checked too.
_SUMS_EVERY: Final = 17
_DUMP_EVERY: Final = 199


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What makes a run what it is. `without`: faults of `weather.FAULTS` that are left out."""

    seed: int
    seconds: float = 30.0
    without: frozenset[str] = frozenset()


@dataclass(slots=True)
class Result:
    """`digest` is the same for the same script."""

    steps: int = 0
    broken: Broken | None = None
    digest: str = ""
    at: float = 0.0
    trace: list[str] = field(default_factory=list)


def play(script: Script, *, keep_trace: bool = False) -> Result:
    """Plays one run to its end, or to the first law that does not hold."""
    result = Result()
    found = _Play(script, result, keep_trace=keep_trace)
    gc.freeze()  # the collection at the end is of this run's objects alone
    gc.disable()  # when objects are finalized must not depend on anything but the run
    try:
        with no_freezing():
            run_virtually(Random(f"{script.seed}/loop"), found.main)
    except* Broken as group:
        result.broken = _first(group)
    finally:
        gc.enable()
        gc.collect()
    result.digest = found.digest.hexdigest()
    return result


def _first(group: BaseExceptionGroup[Broken]) -> Broken:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Broken)
    return error


def silence_logs() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class _Play:
    def __init__(self, script: Script, result: Result, *, keep_trace: bool) -> None:
        self.script = script
        self.result = result
        self.digest = hashlib.sha256()
        self._keep = keep_trace
        self._sky = Sky(provider_faults_of(self._rng("weather"), script.without))
        self._outage, self._disk = False, 0.0
        self._settings = settings_of(self._rng("hold"), self._rng("autoscaler"), self._rng("bind"))
        self._wall_error = self._rng("skew").uniform(-1, 1) * self._sky.stormy.skew
        self._faults = self._rng("faults")
        self._dirty = True

    def _rng(self, what: str) -> Random:
        return Random(f"{self.script.seed}/{what}")

    async def main(self) -> None:
        rng = self._rng("cluster")
        kubelet_delays = KubeletDelays(start=rng.uniform(0.05, 1), stop=rng.uniform(0.05, 3), boot=rng.uniform(0.1, 2))
        moves = MigrationBehavior(seconds=rng.uniform(0.5, 5), fails=rng.choice((0.0, 0.0, 0.3)))
        self._box = Sandbox(
            rng=rng, wall=lambda: _EPOCH + anyio.current_time(), kubelet_delays=kubelet_delays, migration_behavior=moves
        )
        self._truth = Truth(self._box.api)
        self._box.api.store.on_change.append(lambda _kind, _change: self._touch())
        self._calmed = anyio.Event()
        self._story = Story(self._box.api, self._rng("story"), self._truth.meddle)
        self._lives = Lives(
            self._settings,
            self._rng("lives"),
            new_wire=self._new_wire,
            wall=lambda: _EPOCH + anyio.current_time() + self._wall_error,
            born=self._watch_over,
        )
        habits = AgentBehavior(
            wants=self._story.wants, tick_seconds=1.0, retry_seconds=0.5, answer_seconds=3.0, grow_seconds=1.5
        )
        self._agents = Agents(self._box.api, self._to_agents, self._rng("agents"), habits)
        self._truth.agents = self._agents
        self._tempers = Tempers(self._rng("tempers"), self._sky)
        self._story.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(self._box.run)
            await self._lives.begin(group)
            group.start_soon(self._agents.run)
            scheduler = await group.start(self._schedule)
            with anyio.move_on_after(self.script.seconds):
                async with anyio.create_task_group() as storm:
                    storm.start_soon(self._story.tell)
                    storm.start_soon(self._nemesis, group, storm)
            await self._calm(group)
            del scheduler
            self._lives.end()
            group.cancel_scope.cancel()
        self.result.at = 0.0

    # --- the storm --------------------------------------------------------------------------------------------------------

    async def _nemesis(self, group: TaskGroup, storm: TaskGroup) -> None:
        provider_faults, chance = self._sky.stormy, self._faults.random
        while True:
            await anyio.sleep(0.5)
            if chance() < provider_faults.kill / 2:
                self._note("kill")
                await self._lives.kill(group)
            if chance() < provider_faults.stop / 2:
                self._note("stop")
                await self._lives.stop(group)
            if chance() < provider_faults.outage / 2 and not self._outage:
                storm.start_soon(self._go_dark, self._faults.uniform(0.2, 8.0))
            if chance() < provider_faults.disk / 2 and not self._disk:
                storm.start_soon(self._go_slow, self._faults.uniform(1.0, 8.0), self._faults.uniform(0.5, 6.0))
            if chance() < provider_faults.scheduler_restart / 2:
                self._note("scheduler restarts")
                self._scheduling.cancel()

    async def _go_dark(self, seconds: float) -> None:
        self._note(f"outage of {seconds:.1f} s")
        self._outage = True
        self._spread()
        try:
            await anyio.sleep(seconds)
        finally:
            self._outage = False
            self._spread()

    async def _go_slow(self, seconds: float, disk: float) -> None:
        self._note(f"writes take up to {2 * disk:.1f} s for {seconds:.1f} s")
        self._disk = disk
        self._spread()
        try:
            await anyio.sleep(seconds)
        finally:
            self._disk = 0.0
            self._spread()

    def _spread(self) -> None:
        """The API server is the same for whichever life asks."""
        if self._lives.now is not None:
            self._lives.now.wire.outage, self._lives.now.wire.disk_seconds = self._outage, self._disk

    def _new_wire(self) -> Wire:
        rng = Random(self._faults.getrandbits(64))
        binds = SentBinds()
        wire = Wire(self._box.api, self._box.timers, self._sky, rng, about=partial(self._about, binds), binds=binds)
        wire.outage, wire.disk_seconds = self._outage, self._disk
        return wire

    def _lag(self, most: float, rng: Random) -> float:
        return 0.0 if self._sky.calm else most * rng.random()

    async def _schedule(self, *, task_status: Any) -> None:
        """kube-scheduler, again and again."""
        rng = self._rng("scheduler")
        while True:
            lag = self._faults.random() * self._sky.now.watch_lag
            box, late = self._box, partial(self._lag, lag, rng)
            binds, delay = not self._settings.extender.bind, partial(self._sky.bind_delay, rng)
            scheduler = Scheduler(box.api, box.timers, self._to_extender, rng=rng, binds=binds, bind_delay=delay, lag=late)
            scheduler.attach()
            with anyio.CancelScope() as self._scheduling:
                if task_status is not None:
                    task_status.started(scheduler)
                    task_status = None
                await scheduler.run()
            scheduler.detach()
            # The next one leads at once, or only when the lease of this one has run out.
            with anyio.move_on_after(self._faults.choice((0.5, _LEASE_SECONDS))):
                await self._calmed.wait()

    # --- what passes ------------------------------------------------------------------------------------------------------

    async def _to_extender(self, verb: str, body: bytes) -> tuple[int, bytes]:
        found = await self._lossy(lambda: self._lives.extender(verb, body), self._sky.now.extender_lost)
        self._note(f"{verb} {found[0]} {found[1][:300]!r}" if self._keep else f"{verb} {found[0]} {len(found[1])}")
        return found

    async def _to_agents(self, body: bytes) -> tuple[int, bytes]:
        pod = msgspec.json.decode(body)["pod"]["name"]
        if self._tempers.is_silent(pod):
            raise ConnectionLost("it does not feel like asking")
        if (lie := self._tempers.lie(body)) is not None:
            if pod in self._tempers.liars:
                self._truth.meddle_with(pod)
            answer = await self._lives.permits(lie)
            self._note(f"lie {answer[0]} {lie!r} {answer[1]!r}")

        async def ask() -> tuple[int, bytes]:
            status, answer = await self._lives.permits(body)
            if status == _OK and pod not in self._tempers.liars:
                deeds.judge_permit(self._box.api, body, answer)
            return status, answer

        found = await self._lossy(ask, self._sky.now.agent_lost)
        self._note(f"agent {found[0]} {body!r} {found[1]!r}" if self._keep else f"agent {found[0]} {found[1]!r}")
        self._touch()
        return found

    async def _lossy(self, ask: Callable[[], Awaitable[tuple[int, bytes]]], loss: float) -> tuple[int, bytes]:
        await anyio.sleep(0.0005 + self._sky.now.slow * self._faults.random() ** 4)
        if self._faults.random() < loss / 2:
            raise ConnectionLost("lost on its way")
        found = await ask()
        await anyio.sleep(0.0005 + self._sky.now.slow * self._faults.random() ** 4)
        if self._faults.random() < loss / 2:
            raise ConnectionLost("lost on its way back")
        return found

    def _about(self, binds: SentBinds, method: str, path: str, body: bytes | None) -> Callable[[int], None]:
        """A request of the service is carried out: what must not come of it, and then a step."""
        check = deeds.judge(self._box.api, self._truth, method, path, body) if method != "GET" else None

        def reported(status: int) -> None:
            what = f"{method} {path} {status}"
            self._note(f"{what} {body!r}" if self._keep and body else what)
            binds.carried_out(path, body, status)
            if check is not None and status < 300:
                check()
            self._step(None)

        return reported

    # --- the laws ---------------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._dirty = True

    def _note(self, what: str) -> None:
        line = f"{anyio.current_time():.6f} {what}"
        self.digest.update(line.encode())
        if self._keep:
            self.result.trace.append(line)

    def _watch_over(self, life: Life) -> None:
        """Every event and every question of this life's world is a step."""
        state_machine: Any = life.service.state_machine
        apply, ask_permit = state_machine.apply, state_machine.ask_permit
        filter_, bind, preempt = state_machine.filter, state_machine.bind, state_machine.preempt

        def applied(event: Any, now: Instant) -> Any:
            effects = apply(event, now)
            if not isinstance(event, TimePassed):
                self._note(f"{life.number} {event}"[:300] if self._keep else type(event).__name__)
                self._step(life)
            elif effects:
                self._step(life)
            if self._keep:
                for effect in effects:
                    self._note(f"{life.number}   -> {effect}")
            return effects

        def asked(question: Callable[..., Any]) -> Callable[..., Any]:
            def ask(*args: Any) -> Any:
                found = question(*args)
                self._step(life)
                return found

            return ask

        def permitted(ask: PermitAsk, *args: Any) -> Any:
            self._truth.reclaims(ask.key.name)
            return asked(ask_permit)(ask, *args)

        state_machine.apply, state_machine.ask_permit = applied, permitted
        state_machine.filter, state_machine.bind, state_machine.preempt = map(asked, (filter_, bind, preempt))

    def _step(self, life: Life | None) -> None:
        result = self.result
        result.steps += 1
        result.at = anyio.current_time()
        for pod, what in self._agents.broken:
            if pod not in self._tempers.liars:
                raise Broken("S3", what)
        if self._dirty:
            self._dirty = False
            laws.check_truth(self._truth)
            laws.check_group(self._box.api, self._settings)
        if life is None or life.wire.dead:
            return
        state_machine = life.service.state_machine
        laws.check_state(state_machine, self._truth.meddled)
        if life is self._lives.now and life.ready:
            laws.check_times(state_machine, life.service.intake._clock())
            life.wire.binds.check(state_machine, self._truth)
            check_reported(state_machine, self._agents, self._truth)
        if result.steps % _SUMS_EVERY == 0:
            laws.check_sums(state_machine)
        if result.steps % _DUMP_EVERY == 0:
            laws.check_dump(state_machine, life.service.intake._clock())

    # --- the calm ---------------------------------------------------------------------------------------------------------

    async def _calm(self, group: TaskGroup) -> None:
        self._note("calm")
        self._sky.calm = True
        self._calmed.set()
        self._outage, self._disk = False, 0.0
        self._spread()
        self._story.settle()
        if self._lives.now is None:
            await anyio.sleep(1.0)
        if self._lives.now is None:
            await self._lives.begin(group)
        broken: Broken | None = None
        for seconds in _CALM_SECONDS:
            await anyio.sleep(seconds)
            broken = self._ailing()
            if broken is None:
                return
        if broken is not None and broken.law == "L1":
            # A node may have come this very moment: what waits for it still backs off.
            await anyio.sleep(_BACKOFF_SECONDS)
            broken = self._ailing()
        if broken is not None:
            raise broken

    def _ailing(self) -> Broken | None:
        """The first law of those that must hold in the end which does not hold yet."""
        life = self._lives.now
        if life is None or not life.ready:
            return Broken("L5", "the service is not ready again")
        state_machine = life.service.state_machine
        laws.check_sums(state_machine)
        try:
            laws.check_healed(state_machine, self._box.api)
        except Broken as broken:
            return broken
        if gated := [str(pod) for pod in state_machine.preemptions.gated_pods()]:
            return Broken("L2", f"gates of {gated} are shut, and nobody leaves")
        if vain := sorted(laws.waiting_in_vain(self._box.api, self._truth, state_machine)):
            return Broken("L1", vain[0])
        denied = [
            agent
            for agent in self._agents.living.values()
            if agent.permit != (agent.asked, agent.asked) and not self._truth.waits_to_move(agent.namespace, agent.machine)
        ]
        return (
            Broken("L3", f"machine {denied[0].machine} has {denied[0].permit}, asks for {denied[0].asked}") if denied else None
        )
