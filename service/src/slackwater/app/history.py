"""Connects the history: its state, its loop, its store, and the answers from it.

The leader answers from memory. A standby reads the ConfigMaps when it is asked, because the leader writes them.
"""

import math
from collections.abc import Callable
from typing import Final, Protocol

import anyio

from slackwater.adapters.api_calls import ApiPort
from slackwater.adapters.kube.errors import KubeError
from slackwater.adapters.kube.history import ConfigMapHistory
from slackwater.controllers.history.loop import HistoryLoop, HistoryStore
from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import Chunk, History, evictions, newest, past_of
from slackwater.model.history import HistoryLine, PastOfObject, Remembered
from slackwater.model.ids import PodKey, PodUid, UnixTime
from slackwater.ports.clock import SteadyClock, Times
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.names import SCHEDULER_NAMESPACE

#: A standby answers from what it has read before, unless that is older than this.
_FRESH_SECONDS: Final = 5.0
_STILL_READ: Final = "what earlier processes wrote is still being read"
_IN_MEMORY: Final = "the history is not persisted, so it begins with this process"


class StoredHistory(HistoryStore, Protocol):
    """Where the history is persisted: in ConfigMaps, or in a file."""

    async def load(self) -> list[Chunk]:
        """All stored chunks. Raises KubeError."""
        ...


class ServiceHistory:
    """The history of one `Service`: state, loop and store, and the answers from them."""

    def __init__(
        self, state_machine: StateMachine, store: StoredHistory | None, *, times: Times, leads: Callable[[], bool]
    ) -> None:
        """`store` is None if the history is in memory alone."""
        policy, self._steady = HistoryPolicy(), SteadyClock(times)
        self._leads = leads
        self._monotonic = times.monotonic
        self._store = store
        self.history = History(policy)
        self.loop = HistoryLoop(
            self.history,
            state_machine.state.pods,
            migrations=state_machine.migrating.objects,
            preemptor_of=lambda victim: _preemptor_of(state_machine, victim),
            store=self._store,
            policy=policy,
            wall_ms=self._now_ms,
        )
        self._read: tuple[float, History] = -math.inf, self.history
        self._one = anyio.Lock()

    def _now_ms(self) -> int:
        return round(self._steady() * 1000)

    async def __call__(self, what: Remembered, namespace: str, name: str, since_seconds: float | None) -> PastOfObject:
        """Implements `ports.protocols.HistoryQuery`."""
        history, notes = await self._current()
        since = None if since_seconds is None else self._now_ms() - round(since_seconds * 1000)
        return past_of(history, what, f"{namespace}/{name}" if namespace else name, since_ms=since, notes=notes)

    def evicted_before(self) -> dict[PodKey, UnixTime]:
        """The pods that were evicted when their nodes were removed, as far as the history goes back, and when first; none until
        what earlier processes wrote has been read."""
        return evictions(self.history) if self.history.restored else {}

    async def newest(self, what: str, namespace: str, name: str) -> tuple[HistoryLine, ...]:
        """The newest entries about a pod or a node, for its explanation; none about objects of other kinds."""
        if what not in {"pod", "node"}:
            return ()
        history, _ = await self._current()
        return newest(history, "pod" if what == "pod" else "node", f"{namespace}/{name}" if namespace else name)

    async def _current(self) -> tuple[History, tuple[str, ...]]:
        """The history as far as this replica knows it, with notes on what is missing in it."""
        if self._store is None:
            return self.history, (_IN_MEMORY,)
        if self._leads():
            return self.history, () if self.history.restored else (_STILL_READ,)
        async with self._one:
            if self._monotonic() - self._read[0] > _FRESH_SECONDS:
                try:
                    self._read = self._monotonic(), await _stored(self._store)
                except KubeError as error:
                    return self._read[1], (f"this replica does not lead, and cannot read the history: {error}",)
            return self._read[1], ()


def _preemptor_of(state_machine: StateMachine, victim: PodUid) -> PodKey | None:
    uid = state_machine.preemptions.accepted.preemptor_of(victim)
    pod = None if uid is None else state_machine.state.pods.known(uid)
    return None if pod is None else pod.key


async def read_history(client: ApiPort) -> History:
    """Reads the history from its ConfigMaps, for a command that works without a running service. Raises KubeError."""
    return await _stored(ConfigMapHistory(client, namespace=SCHEDULER_NAMESPACE))


async def _stored(store: StoredHistory) -> History:
    history = History(HistoryPolicy())
    history.restore(await store.load())
    return history
