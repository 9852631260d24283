"""Lists and watches one resource type, as an event source. A watch that breaks is continued, or the type is listed again.

- `Reflector`: the event source, with its counts.
- `Cause`: why a list or a watch ended.

In: pages and watch lines, as bytes. Out: events in batches. Invariant: each object's events come in the order of its history,
without gaps or duplicates.
"""

import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import islice
from random import Random
from typing import Final, Generic, Literal, TypeVar

import anyio
import anyio.lowlevel
import structlog

from slackwater.adapters.api_calls import ApiReader
from slackwater.adapters.api_objects import ListWire
from slackwater.adapters.kube.errors import HistoryWentBack, KubeError, MalformedAnswer, NoAnswer, StatusError, Unreachable
from slackwater.adapters.kube.resource_type import ResourceType
from slackwater.adapters.kube.slices import PageSize, read, read_page, slices
from slackwater.adapters.kube.watch_lines import KnownObjects, LineReader
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.ports.protocols import Batch

#: ended: the server closed the watch, as it does when the watch's time is over. dropped: the connection broke. silent: nothing
#: came for too long. unreachable: no connection. credentials: there are none to send. expired: 410, the server no longer keeps
#: the version. ahead: 504, the server has not reached our version. absent: 404. refused: another status. garbled: not what the
#: API specifies. went_back: the server's history is older than what it reported before.
Cause = Literal[
    "ended", "dropped", "silent", "unreachable", "credentials",
    "expired", "ahead", "absent", "refused", "garbled", "went_back",
]  # fmt: skip


def cause_of(error: KubeError) -> Cause:
    match error:
        case NoAnswer():
            return "silent" if error.timed_out else "dropped"
        case Unreachable():
            return "unreachable"
        case MalformedAnswer():
            return "garbled"
        case HistoryWentBack():
            return "went_back"
        case StatusError():
            return _STATUSES.get(error.code, "refused")
        case _:
            return "credentials"


_STATUSES: dict[int, Cause] = {
    HTTPStatus.GONE: "expired",
    HTTPStatus.GATEWAY_TIMEOUT: "ahead",
    HTTPStatus.NOT_FOUND: "absent",
}


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_log = structlog.get_logger(__name__)

#: The causes after which the resource version cannot be used any more, so the type is listed again.
_LIST_AGAIN: Final[frozenset[Cause]] = frozenset({"expired", "absent", "garbled", "went_back"})
#: After so many watches in a row that the server refuses to continue from our version, the type is listed again.
_REFUSALS: Final[frozenset[Cause]] = frozenset({"refused", "ahead"})
_MOST_REFUSALS: Final = 5
#: Events passed on before other tasks run.
_SLICE: Final = 64
#: Up to so many lines of a watch are decoded without letting other tasks run: the next read does that.
_FEW: Final = 8
#: A watch that lasted this long counts as a success, even without events.
_GOOD_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorConfig:
    """Durations of a reflector. `watch_seconds`: each watch lasts a random time within this range.

    A server that is silent for `grace_seconds` longer than the watch counts as lost. `absent_seconds`: how often an optional
    type that is absent is looked for again.
    """

    page_size: int = 500
    page_seconds: float = 60.0
    watch_seconds: tuple[float, float] = (60.0, 120.0)
    grace_seconds: float = 10.0
    absent_seconds: float = 10.0
    first_backoff_seconds: float = 0.1
    longest_backoff_seconds: float = 5.0


class Reflector(Generic[K]):
    """Lists and watches one resource type for one reader. Implements `ports.protocols.EventSource`; ends by cancellation only.

    A list yields only what has changed since the earlier events. For that the reflector keeps the key, UID and version of each
    object, but not the objects. `lists`, `watches`, `events` and `breaks` count since the start.
    """

    def __init__(
        self,
        client: ApiReader,
        resource: ResourceType[K],
        *,
        rng: Random,
        config: ReflectorConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._resource = resource
        self._selector = {"fieldSelector": resource.field_selector} if resource.field_selector else {}
        self._rng = rng
        self._config = config = config or ReflectorConfig()
        self._clock = clock
        self._backoff = ExponentialBackoff(
            first_seconds=config.first_backoff_seconds, longest_seconds=config.longest_backoff_seconds
        )
        self._page_size = PageSize(config.page_size)
        self._failures = 0  # since the last success
        self._known = KnownObjects(resource.gone)
        self._reader = LineReader(resource, self._known)
        #: Where a watch continues; empty: everything is listed first.
        self.version = ""
        self._refusals = 0  # failures of the watch in a row
        self._pause_seconds = 0.0  # seconds before the next list or watch
        self._last_cause: Cause | None = None  # of a break, since the last success
        self.lists = self.watches = self.events = 0
        self.breaks: dict[Cause, int] = {}
        #: The latest list or watch was accepted and has not broken off.
        self.alive = False
        #: The optional type is not installed in the cluster.
        self.absent = False

    @property
    def broken_objects(self) -> int:
        return self._reader.broken

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields batches until cancelled. Iterate within `contextlib.aclosing`, so that the connection is closed at the end."""
        while True:
            self._pause_seconds = 0.0
            turn = self._watch() if self.version else self._list()
            try:
                async with aclosing(turn):
                    async for batch in turn:
                        self.events += len(batch.events)
                        yield batch
            except KubeError as error:
                self._pause_seconds = self._broke(error)
            await anyio.sleep(self._pause_seconds)

    async def _list(self) -> AsyncGenerator[Batch, None]:
        """Lists page by page. Ends with the version to watch from, or without one if the path does not exist."""
        self.lists += 1
        self._known.begin_list()
        version = token = ""
        while True:
            try:
                page = await self._page(token)
            except KubeError as error:
                status = error.code if isinstance(error, StatusError) else 0
                if token and 400 <= status < 500 and status != HTTPStatus.TOO_MANY_REQUESTS:
                    # The server refuses to continue at this token (usually with 410): the list has to begin again.
                    raise
                pause = self._broke(error)
                if self._resource.may_be_absent and cause_of(error) == "absent":
                    self.absent = True
                    self._pause_seconds = self._config.absent_seconds
                    break
                await anyio.sleep(pause)
                continue  # with the same page: the token is all that the server needs
            self.alive, self.absent = True, False
            await anyio.lowlevel.checkpoint()
            for items in slices(page.items or ()):
                if events := await read(partial(self._reader.read_items, items), items):
                    yield Batch(events)
                await anyio.lowlevel.checkpoint()
            version = version or page.metadata.resource_version
            token = page.metadata.continue_
            if not token:
                break
        for gone in _batches(self._known.end_list()):
            yield Batch(gone)
            await anyio.lowlevel.checkpoint()
        self.version = version
        yield Batch((), listed=True)

    async def _page(self, token: str) -> ListWire:
        path, seconds = self._resource.path, self._config.page_seconds
        page = await read_page(self._client, path, token, self._page_size, timeout_seconds=seconds, selector=self._selector)
        if not page.metadata.resource_version:
            raise MalformedAnswer(f"list {path}: it has no resourceVersion to watch from")
        return page

    async def _watch(self) -> AsyncGenerator[Batch, None]:
        """Runs one watch to its end. Afterwards `version` is the version of the last line that was read without an error."""
        self.watches += 1
        since, begun_at = self.version, self._clock()
        progressed = False
        try:
            async with aclosing(self._lines()) as arriving:
                async for lines in arriving:
                    self.alive = True
                    for some in slices(lines):
                        reading = await read(partial(self._reader.read_lines, some, since=self.version), some)
                        self.version = reading.version
                        if reading.events:
                            yield Batch(reading.events)
                        if reading.ended_by is not None:
                            raise reading.ended_by
                        if len(some) > _FEW:
                            await anyio.lowlevel.checkpoint()
        finally:
            progressed = self.version != since or self._clock() - begun_at >= _GOOD_SECONDS
            if progressed:
                self._failures = 0
                self._refusals = 0
                self._last_cause = None
        self._note_break("ended")
        self._pause_seconds = 0.0 if progressed else self._next_pause()

    def _note_break(self, cause: Cause) -> None:
        self.alive = False
        self.breaks[cause] = self.breaks.get(cause, 0) + 1

    def _next_pause(self) -> float:
        self._failures += 1
        return self._backoff.jittered(self._failures, self._rng.random())

    def _lines(self) -> AsyncGenerator[list[bytes], None]:
        seconds = self._rng.uniform(*self._config.watch_seconds)
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": str(round(seconds)),
            **self._selector,
        }
        silence_seconds = seconds + self._config.grace_seconds
        return self._client.stream(self._resource.path, params=params, silence_seconds=silence_seconds)

    def _broke(self, error: KubeError) -> float:
        """Counts and logs the end of a list or watch by an error. Returns how many seconds to wait before the next attempt."""
        cause = cause_of(error)
        self._note_break(cause)
        self._refusals += cause in _REFUSALS
        if cause in _LIST_AGAIN or self._refusals >= _MOST_REFUSALS:
            self.version = ""
            self._refusals = 0
        first = self._failures == 0
        if cause == "expired" and self._last_cause != "expired":
            # The server answers, so the reason for growing pauses is over, and a list is due at once.
            self._failures = 0
        self._last_cause = cause
        asked = (error.after_seconds if isinstance(error, StatusError) else None) or 0.0
        pause = max(self._next_pause(), asked)
        if cause == "absent" and self._resource.may_be_absent:
            if first:
                _log.info("not installed in this cluster, looked for now and then", resource=self._resource.name)
            return pause
        log = _log.warning if first else _log.debug
        log("feed broke off", resource=self._resource.name, cause=cause, error=str(error), again_in_seconds=round(pause, 3))
        return pause


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Splits the items into lists of at most `_SLICE`, so that other tasks can run after each list."""
    rest = iter(items)
    while some := list(islice(rest, _SLICE)):
        yield some
