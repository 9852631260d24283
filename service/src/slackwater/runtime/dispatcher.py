"""Carries out effects as API calls: in order per object, merged, with bounded concurrency, retries with back-off and deadlines.

Effects on one object run one at a time in the order of their submission, so the object ends as last requested. Only binds run
concurrently with the object's other effects. A new effect is merged with an equal one if that is the last effect that waits for
the object or, if none waits, the running one. Activations come last: a few at a time, in a queue of their own, so that ten
thousand of them delay neither a permit nor an eviction. An activation that follows another write of its pod goes with it. Every
effect ends, by the API server's answer or by its deadline, and the state machine receives the end as an event
(`given_up`, `preemption_ended`, `drain_ended`).

    submit -> merged into the last waiting effect of the object (`_joins`)
           -> behind the others of its lane: the object, or the object's binds
           -> an activation without other writes of its pod: the queue of activations

Invariant: of one lane only one effect runs, and no effect is merged into a running one that the API server may have processed
before the change that led to the new one. Who lets an effect of another type merge, or run beside its lane, has to show that
the object still ends as last requested.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from slackwater.model.effects import (
    Activate,
    Announce,
    ApiEffect,
    Bind,
    DeleteVictim,
    DrainReport,
    Effect,
    ReadPod,
    Resize,
    WritePreempting,
)
from slackwater.model.events import BindEnded, BindOutcome, Event
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Seconds
from slackwater.ports.protocols import Outcome, Writer
from slackwater.runtime.ended_calls import drain_ended, given_up, preemption_ended

_log = structlog.get_logger(__name__)

#: Why a write is refused before it is tried.
_STOPPING: Final = Outcome("again", detail="the service is stopping")
_TOO_MANY: Final = Outcome("again", detail="too many writes wait")

_BACKOFF: Final = ExponentialBackoff(first_seconds=0.05, longest_seconds=2.0)
_MAX_ANNOUNCEMENTS: Final = 1000
#: The most effects that may wait for one object. Only a few do while the API server answers.
_MAX_WAITING: Final = 64
#: The least time that a place among the concurrent activations is taken, so that kube-scheduler gets at most
#: `max_activations / _ACTIVATION_SECONDS` pods a second to try again: 200, which it can.
_ACTIVATION_SECONDS: Final = 0.02
#: Binds queue if all slots are taken and the oldest bind has been running for longer than this.
_SLOW_BIND_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherConfig:
    """Limits of the dispatcher.

    `max_*` bound concurrent calls. Binds, preemptions, activations and all other writes have separate limits, so none waits for
    another. `write_deadline` bounds one effect with all its attempts, `attempt_seconds` one attempt, `flush_seconds` the time
    to finish at shutdown.
    """

    max_binds: int = 64
    max_concurrent_writes: int
    max_preemptions: int = 64
    max_activations: int = 4
    bind_seconds: float
    write_deadline: Seconds
    attempt_seconds: float = 10.0
    flush_seconds: float = 5.0


#: The outcome of a bind, by the verdict of its last attempt, if that attempt returned no event of its own.
_BIND_OUTCOMES: Final[dict[str, BindOutcome]] = {
    "done": "bound",
    "refused": "refused",
    "again": "unreachable",
    "unknown": "unknown",
}


@dataclass(slots=True)
class Ticket:
    """One submitted effect. `latest` is the outcome as known so far; `ended()` waits for the final one."""

    effect: ApiEffect
    latest: Outcome = Outcome("again", detail="not attempted in time")
    _finished: bool = False
    #: Created only when a caller waits, which is rare.
    _waited_for: anyio.Event | None = None

    def finish(self) -> None:
        self._finished = True
        if self._waited_for is not None:
            self._waited_for.set()

    async def ended(self) -> Outcome:
        if not self._finished:
            self._waited_for = self._waited_for or anyio.Event()
            await self._waited_for.wait()
        return self.latest


@dataclass(slots=True)
class DispatcherStats:
    """Counters of the dispatcher; all but `waiting` only grow."""

    calls: dict[tuple[str, str], int] = field(default_factory=dict)  #: by (effect, verdict of the attempt)
    dropped_announcements: int = 0
    waiting: int = 0


#: Applies an event to the state machine and submits the effects that follow.
OnEvent = Callable[[Event], None]


#: The object's UID, and whether the lane is for binds. Binds have a separate lane: kube-scheduler waits for the answer, so a
#: bind must not queue behind an activation that hangs.
_Lane = tuple[str, bool]


class Dispatcher:
    """Carries out effects as API calls. Once `run` has started, any code on the event loop may call `submit`."""

    def __init__(
        self,
        writer: Writer,
        on_event: OnEvent,
        config: DispatcherConfig,
        *,
        rng: Random,
        leads: Callable[[], bool] = lambda: True,
        on_report: Callable[[DrainReport], None] = lambda _: None,
    ) -> None:
        """Creates the dispatcher; `run` starts it. `on_report` receives the effects that are not API calls.

        `leads` says whether this replica is still the leader. If it is not, `run` ends running effects at once when it is
        cancelled. A call that still reaches the API server has preconditions, so it overwrites nothing of the next leader.
        """
        self._on_report = on_report
        self._writer = writer
        self._leads = leads
        self._on_event = on_event
        self._config = config
        self._rng = rng
        self._lanes: dict[_Lane, deque[Ticket]] = {}
        self._running: dict[_Lane, Ticket] = {}
        self._stop_at = math.inf
        self._announcements = 0
        self._scopes: dict[anyio.CancelScope, None] = {}
        self._group: TaskGroup | None = None
        self._binds = anyio.CapacityLimiter(config.max_binds)
        self._writes = anyio.CapacityLimiter(config.max_concurrent_writes)
        self._preemptions = anyio.CapacityLimiter(config.max_preemptions)
        self._activation_slots = anyio.CapacityLimiter(config.max_activations)
        #: The activations that wait for a worker, at most one a pod; the oldest first. Their deadlines have not begun.
        self._activations: dict[_Lane, Ticket] = {}
        self._activation_workers = 0
        #: The submission time of each bind that has not ended; the oldest first.
        self._binding_since: dict[_Lane, float] = {}
        self.stats = DispatcherStats()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Carries out submitted effects until cancelled. Effects unfinished at the cancellation get `flush_seconds` to finish;
        those that do not finish are logged."""
        async with anyio.create_task_group() as group:
            self._group = group
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._group = None
                # Nothing is lost: kube-scheduler tries every pod again by itself.
                for ticket in self._activations.values():
                    ticket.latest = _STOPPING
                    ticket.finish()
                self.stats.waiting -= len(self._activations)
                self._activations.clear()
                self._stop_at = anyio.current_time() + (self._config.flush_seconds if self._leads() else 0.0)
                for scope in self._scopes:
                    scope.deadline = min(scope.deadline, self._stop_at)

    def submit_all(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, DrainReport):
                self._on_report(effect)
            else:
                self.submit(effect)

    def submit(self, effect: ApiEffect) -> Ticket:
        """Queues the effect behind the others of its object, or merges it into the last of them.

        An effect that cannot be queued ends at once with the verdict "again".
        """
        if isinstance(effect, Announce):
            return self._submit_announcement(effect)
        name = effect.uid, isinstance(effect, Bind)
        lane = self._lanes.get(name)
        last = lane[-1] if lane else self._running.get(name)
        if last is not None and _joins(effect, last, runs=not lane):
            last.effect = effect
            return last
        if isinstance(effect, Activate) and lane is None:
            return self._submit_activation(name, effect)
        ticket = Ticket(effect)
        if self._group is None or (lane is not None and len(lane) >= _MAX_WAITING):
            return self._refuse(ticket)
        self.stats.waiting += 1
        if isinstance(effect, Bind):
            self._binding_since.setdefault(name, anyio.current_time())
        if lane is not None:
            lane.append(ticket)
        else:
            self._lanes[name] = deque([ticket])
            self._group.start_soon(self._run_lane, name, name=f"writes of {effect.key}")
        return ticket

    def binds_are_queued(self) -> bool:
        """Are so many binds running, and so slowly, that a bind submitted now might miss its deadline?"""
        since = self._binding_since
        return len(since) >= self._config.max_binds and anyio.current_time() - next(iter(since.values())) > _SLOW_BIND_SECONDS

    def _submit_activation(self, name: _Lane, effect: Activate) -> Ticket:
        ticket = self._activations.get(name)
        if ticket is not None:
            ticket.effect = effect
            return ticket
        ticket = Ticket(effect)
        if self._group is None:
            return self._refuse(ticket)
        self._activations[name] = ticket
        self.stats.waiting += 1
        if self._activation_workers < self._config.max_activations:
            self._activation_workers += 1
            self._group.start_soon(self._activate_waiting, name="activations")
        return ticket

    async def _activate_waiting(self) -> None:
        try:
            while self._activations:
                name = next(iter(self._activations))
                ticket = self._activations.pop(name)
                lane = self._lanes.get(name)
                if lane is not None:  # another write of the pod came meanwhile
                    lane.append(ticket)
                    continue
                self._lanes[name] = deque([ticket])
                free_at = anyio.current_time() + _ACTIVATION_SECONDS
                await self._run_lane(name)
                await anyio.sleep_until(free_at)
        finally:
            self._activation_workers -= 1

    def _submit_announcement(self, effect: Announce) -> Ticket:
        ticket = Ticket(effect)
        if self._group is None or self._announcements >= _MAX_ANNOUNCEMENTS:
            self.stats.dropped_announcements += 1
            return self._refuse(ticket)
        self._announcements += 1
        self.stats.waiting += 1
        self._group.start_soon(self._announce, ticket, name=f"event of {effect.key}")
        return ticket

    def _refuse(self, ticket: Ticket) -> Ticket:
        ticket.latest = _STOPPING if self._group is None else _TOO_MANY
        self._end(ticket)
        return ticket

    async def _announce(self, ticket: Ticket) -> None:
        try:
            await self._carry_out(ticket)
        finally:
            self._announcements -= 1

    async def _run_lane(self, name: _Lane) -> None:
        lane = self._lanes[name]
        try:
            while lane:
                ticket = self._running[name] = lane.popleft()
                await self._carry_out(ticket)
        finally:
            del self._lanes[name]
            self._running.pop(name, None)
            self._binding_since.pop(name, None)

    async def _carry_out(self, ticket: Ticket) -> None:
        """Attempts the effect until it ends or its deadline passes. Cancellation does not interrupt it: at shutdown `run`
        shortens the deadline instead."""
        limiter = self._limiter_of(ticket.effect)
        deadline = min(anyio.current_time() + self._seconds_of(ticket.effect), self._stop_at)
        with anyio.CancelScope(shield=True, deadline=deadline) as scope:
            self._scopes[scope] = None
            try:
                await _taken(limiter, scope)
                try:
                    await self._attempt_until_ended(ticket)
                finally:
                    limiter.release_on_behalf_of(scope)
            finally:
                del self._scopes[scope]
        if scope.cancelled_caught:
            self._count(ticket.effect, ticket.latest)  # the attempt that the deadline interrupted
        self.stats.waiting -= 1
        self._end(ticket)

    def _seconds_of(self, effect: ApiEffect) -> float:
        return self._config.bind_seconds if isinstance(effect, Bind) else self._config.write_deadline

    def _limiter_of(self, effect: ApiEffect) -> anyio.CapacityLimiter:
        if isinstance(effect, Bind):
            return self._binds
        if isinstance(effect, Activate):
            return self._activation_slots
        return self._preemptions if isinstance(effect, WritePreempting | DeleteVictim) else self._writes

    async def _attempt_until_ended(self, ticket: Ticket) -> None:
        for attempt in count(1):
            # The outcome if the deadline passes before an answer comes.
            ticket.latest, before = Outcome("unknown", detail="no answer in time"), ticket.latest
            outcome = await self._attempt(ticket.effect)
            ticket.latest = _worst(before, outcome)
            self._count(ticket.effect, outcome)
            if outcome.verdict in {"done", "refused"}:
                return
            pause = max(outcome.after_seconds, _BACKOFF.jittered(attempt, self._rng.random()))
            if anyio.current_time() + pause >= anyio.current_effective_deadline():
                return  # the next attempt would begin after the deadline, and other effects wait for the slot
            await anyio.sleep(pause)

    async def _attempt(self, effect: ApiEffect) -> Outcome:
        try:
            return await self._writer.perform(effect, timeout_seconds=self._attempt_seconds(effect))
        except Exception as error:  # a bug of the writer must not end the task group
            _log.exception("write failed", effect=type(effect).__name__, pod=str(effect.key))
            return Outcome("unknown", detail=f"{type(error).__name__}: {error}")

    def _attempt_seconds(self, effect: ApiEffect) -> float | None:
        """The timeout of one attempt; None if the deadline of the whole effect is at least as short."""
        seconds = self._config.attempt_seconds
        return None if self._seconds_of(effect) <= seconds else seconds

    def _count(self, effect: ApiEffect, outcome: Outcome) -> None:
        key = (type(effect).__name__, outcome.verdict)
        self.stats.calls[key] = self.stats.calls.get(key, 0) + 1

    def _end(self, ticket: Ticket) -> None:
        effect, outcome = ticket.effect, ticket.latest
        event = outcome.event
        if event is None and isinstance(effect, Bind):
            event = BindEnded(effect.uid, effect.node, _BIND_OUTCOMES[outcome.verdict], outcome.detail)
        if outcome is _STOPPING:
            _log.info("write refused, because the service is stopping", effect=type(effect).__name__, pod=str(effect.key))
        elif outcome.verdict in {"again", "unknown"}:
            event = event if self._group is None else given_up(effect, outcome) or event
            _log.warning(
                "write given up", effect=type(effect).__name__, pod=str(effect.key), code=outcome.code, detail=outcome.detail
            )
        # The event is applied before the ticket finishes, so that callers of `ended()` find the state machine up to date.
        if event is not None:
            self._on_event(event)
        end_event = preemption_ended(effect, outcome) or drain_ended(effect, outcome)
        if end_event is not None:
            self._on_event(end_event)
        ticket.finish()


def _joins(effect: ApiEffect, last: Ticket, *, runs: bool) -> bool:
    """Can `effect` replace `last`, so that only one of them is carried out? `runs`: an attempt of `last` is running.

    The API server may have processed a running effect before the change that led to the new one. So only equal binds, reads and
    deletions of victims are merged into a running one. A newer resize of a container replaces a waiting one; likewise a newer
    activation.
    """
    if runs:
        return last.effect == effect and isinstance(effect, Bind | ReadPod | DeleteVictim)
    if isinstance(effect, Activate) and isinstance(last.effect, Activate):
        return True
    newer = isinstance(effect, Resize) and isinstance(last.effect, Resize) and effect.container == last.effect.container
    return newer or last.effect == effect


async def _taken(limiter: anyio.CapacityLimiter, holder: object) -> None:
    """Acquires a slot of the limiter. If one is free this does not yield to the event loop, unlike the limiter's own method."""
    try:
        limiter.acquire_on_behalf_of_nowait(holder)
    except anyio.WouldBlock:
        await limiter.acquire_on_behalf_of(holder)


def _worst(before: Outcome, outcome: Outcome) -> Outcome:
    """Combines the outcomes of the earlier attempts and of the last one. If an earlier attempt got no answer, it may have
    succeeded. A later refusal does not disprove that: an API server that has just started answers 403 until it has loaded its
    roles."""
    event = outcome.event
    no_news = outcome.verdict == "refused" and (event is None or (isinstance(event, BindEnded) and event.outcome == "refused"))
    if before.verdict == "unknown" and (outcome.verdict == "again" or no_news):
        return replace(outcome, verdict="unknown", event=None)
    return outcome
