"""Applies the events of each event source to the state machine, in order, and knows when every source has listed once.

The state machine's effects go to the dispatcher. A standby replica applies the same events but discards the effects, and its
ticks (`StandbyTimePassed`) make no decisions.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import anyio.lowlevel
import structlog

from slackwater.model.auxiliary import AuxiliaryGone, AuxiliarySeen
from slackwater.model.effects import Effect
from slackwater.model.events import (
    Event,
    LeadershipTaken,
    NodeSeen,
    ObjectUnreadable,
    PodAudited,
    PodRead,
    PodSeen,
    StandbyTimePassed,
    Stopping,
    Synced,
    TimePassed,
)
from slackwater.model.ids import Instant
from slackwater.ports.clock import Clock
from slackwater.ports.protocols import EventSource
from slackwater.runtime.dispatcher import Dispatcher
from slackwater.runtime.state_machine import StateMachine

_LONGEST: int = 200


def object_of(event: Event) -> str:
    """The name of the object that the event is about, for log lines."""
    match event:
        case PodSeen(pod) | PodRead(pod) | PodAudited(pod):
            return f"pod {pod.key}"
        case NodeSeen(node):
            return f"node {node.name}"
        case _:
            text = repr(event)
            return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + " ..."


def unreadable_after(event: Event, why: str) -> ObjectUnreadable | None:
    """The event that quarantines the object's node after `event` failed; None if `event` is about no pod and no node."""
    match event:
        case PodSeen(pod) | PodRead(pod) | PodAudited(pod):
            return ObjectUnreadable(pod.uid, f"pod {pod.key}", None if pod.ended else pod.node, why)
        case NodeSeen(node):
            return ObjectUnreadable(node.uid, f"node {node.name}", node.name, why)
        case _:
            return None


_log = structlog.get_logger(__name__)

#: Events applied before other tasks get a turn: about 5 ms of work.
_SLICE: Final = 200
TICK_SECONDS: Final = 0.1
#: How long a new leader waits, after its first lists and after it has begun to lead, if kube-scheduler binds. Pods may still be
#: bound by filter's answers of the former leader, and this process does not know the room that was held for them. A bind takes
#: some 10 ms, so the watch shows most of these pods bound already.
SETTLE_SECONDS: Final = 3.0


class Intake:
    """Applies events and ticks to the state machine. With `standby`, effects are discarded until `lead` is called.

    It is ready when each event source has listed once. When it then begins to lead, it is not ready for `SETTLE_SECONDS` if
    `settles` returns True. `settles` says whether a bind that the watch does not show yet could take room that the state
    machine would give to other pods."""

    def __init__(
        self,
        state_machine: StateMachine,
        clock: Clock,
        event_sources: Mapping[str, EventSource],
        *,
        standby: bool = False,
        settles: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state_machine = state_machine
        self._clock = clock
        self._event_sources = event_sources
        self._unlisted = set(event_sources)
        self._listed_once = anyio.Event()
        self._synced = anyio.Event()
        self._standby = standby
        self._settles = settles
        self._settled_at: Instant | None = None
        self._dispatcher: Dispatcher | None = None
        self._changed: tuple[Callable[[], None], ...] = ()
        #: Number of events that could not be applied, by event type.
        self.failed: Counter[str] = Counter()

    def connect(self, dispatcher: Dispatcher | None, *changed: Callable[[], None]) -> None:
        """Sets the dispatcher that receives the effects, and the callbacks to call after each event. Not an argument of the
        constructor because the dispatcher itself needs `take`. None: it stays a standby for ever, as a shadow does."""
        self._dispatcher = dispatcher
        self._changed = changed

    @property
    def unlisted(self) -> Sequence[str]:
        """What readiness waits for: the names of the event sources that have not listed once, sorted; after the last list
        "binds in flight", while the intake waits for them. Empty if ready."""
        return sorted(self._unlisted) or (["binds in flight"] if self._settled_at is not None else [])

    @property
    def ready(self) -> bool:
        return not self._unlisted and self._settled_at is None

    async def listed(self) -> None:
        """Returns when every event source has listed once, and unless it is a standby, the state machine may decide."""
        await self._listed_once.wait()

    async def synced(self) -> None:
        """Returns when the state machine has begun to decide (`lead`)."""
        await self._synced.wait()

    def lead(self) -> None:
        """Lets the state machine decide: from now on, or once binds in flight have had time to arrive. Every event source must
        have listed once."""
        assert not self._unlisted, self.unlisted
        if self._settles():
            self._settled_at = Instant(self._clock() + SETTLE_SECONDS)
        else:
            self._begin()

    def take(self, event: Event) -> None:
        """Applies one event: from an event source, a tick, or the end of an API call.

        Never raises. An error is logged with the object and counted, and the object's node is quarantined until the object can
        be applied again.
        """
        try:
            effects = self._state_machine.apply(event, self._clock())
        except Exception as error:
            kind = type(event).__name__
            self.failed[kind] += 1
            _log.exception("event not applied", resource=kind, object=object_of(event))
            effects = self._closed(event, f"{type(error).__name__}: {error}")
        self._submit(effects)

    def _closed(self, event: Event, why: str) -> list[Effect]:
        unreadable = unreadable_after(event, why)
        if unreadable is None:
            return []
        try:
            return self._state_machine.apply(unreadable, self._clock())
        except Exception:
            _log.exception("node not closed", object=unreadable.name, node=unreadable.node)
            return []

    def _submit(self, effects: Iterable[Effect]) -> None:
        if not self._standby:
            assert self._dispatcher is not None
            self._dispatcher.submit_all(effects)
        for changed in self._changed:
            changed()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as group:
                for name, event_source in self._event_sources.items():
                    group.start_soon(self._drain, name, event_source, name=f"intake of {name}")
                group.start_soon(self._tick, name="ticker")
        finally:
            # Preemptions end in memory alone: the next process resumes them from the annotations of their preemptors.
            self._state_machine.apply(Stopping(), self._clock())

    async def _drain(self, name: str, event_source: EventSource) -> None:
        async with aclosing(event_source.batches()) as batches:
            async for batch in batches:
                for start in range(0, len(batch.events), _SLICE):
                    if start:
                        await anyio.lowlevel.checkpoint()
                    for event in batch.events[start : start + _SLICE]:
                        assert not isinstance(event, AuxiliarySeen | AuxiliaryGone), event
                        self.take(event)
                if batch.listed:
                    self._listed(name)

    def _listed(self, name: str) -> None:
        if name not in self._unlisted:
            return
        self._unlisted.discard(name)
        _log.info("listed", resource=name, waiting_for=self.unlisted)
        if not self._unlisted and self._standby:
            self._listed_once.set()
        elif not self._unlisted:
            self.lead()

    def _begin(self) -> None:
        self._settled_at = None
        self._listed_once.set()
        if self._standby:
            self._standby = False
            self.take(LeadershipTaken())
        self.take(Synced())
        self._synced.set()

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            if self._settled_at is not None and self._clock() >= self._settled_at:
                self._begin()
            self.take(StandbyTimePassed() if self._standby else TimePassed())
