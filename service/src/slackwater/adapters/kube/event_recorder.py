"""Writes `Announce` effects as events.k8s.io/v1 Events.

Equal texts about the same object within five minutes become one Event with a growing series. A token bucket limits the rate,
and a fixed number of entries the memory. Events beyond that are dropped and counted; a failed write is not repeated.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Final
from urllib.parse import quote

from slackwater.adapters.api_calls import MERGE_PATCH, ApiPort, ask
from slackwater.adapters.kube.client import outcome_of
from slackwater.adapters.kube.errors import KubeError
from slackwater.model.effects import Announce
from slackwater.model.ids import PodUid
from slackwater.ports.protocols import Outcome

#: The API's limits: bytes of UTF-8 for a note, characters for names.
_LONGEST_NOTE: Final = 1024
_LONGEST_NAME: Final = 253

_NOT_FOUND: Final = 404
_MERGED: Final = Outcome("done", detail="counted; the next write of its series reports it")
#: The namespace of Events about nodes, which have none.
_OF_NODES: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderConfig:
    """Limits of the Events that are written.

    `burst` Events are written at once, then `per_second`. Equal texts are merged until `merge_seconds` after the last one.
    Their count is written at most every `series_seconds`. At most `max_entries` Events are remembered for merging.
    """

    per_second: float = 10.0
    burst: int = 100
    merge_seconds: float = 300.0
    series_seconds: float = 10.0
    max_entries: int = 4_096


_CONTROLLER: Final = "slackwater.dev/slackwater"
_Words = tuple[PodUid, str, str]  # (pod, reason, note)


@dataclass(slots=True)
class _Entry:
    """One Event in the cluster. `count`: how often it was announced, `written_at`: when it was last written."""

    path: str
    count: int
    last_at: float
    written_at: float


class Recorder:
    """Writes Events. `now` gives the time in them (UTC), `clock` measures intervals; `instance` names this process."""

    def __init__(
        self,
        client: ApiPort,
        *,
        instance: str,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        config: RecorderConfig | None = None,
    ) -> None:
        self._client = client
        self._instance = instance
        self._now = now
        self._clock = clock
        self._config = config or RecorderConfig()
        self._entries: OrderedDict[_Words, _Entry] = OrderedDict()  # the one announced longest ago comes first
        self._names = count()
        self._tokens = float(self._config.burst)
        self._filled_at = clock()
        #: Announcements beyond the rate.
        self.dropped = 0

    async def announce(self, effect: Announce, *, timeout_seconds: float) -> Outcome:
        """Writes or merges an announcement. Ends as "done" or "refused", never "again": nothing depends on an Event."""
        words = (effect.uid, effect.reason, effect.note)
        entry = self._entries.get(words)
        now = self._clock()
        if entry is not None and now - entry.last_at < self._config.merge_seconds:
            entry.count += 1
            entry.last_at = now
            self._entries.move_to_end(words)
            if now - entry.written_at < self._config.series_seconds:
                return _MERGED
            return await self._extend(words, entry, timeout_seconds)
        return await self._create(words, effect, timeout_seconds)

    async def _create(self, words: _Words, effect: Announce, timeout_seconds: float) -> Outcome:
        if not self._take_token():
            self.dropped += 1
            return Outcome("refused", detail=f"more than {self._config.per_second:g} Events a second: dropped")
        now = self._now()
        name = _event_name(effect.key.name, now, next(self._names))
        events = f"/apis/events.k8s.io/v1/namespaces/{quote(effect.key.namespace or _OF_NODES, safe='')}/events"
        moment = self._clock()
        self._remember(words, _Entry(f"{events}/{name}", count=1, last_at=moment, written_at=moment))
        outcome = await self._write("POST", events, self._event(effect, name, now), timeout_seconds)
        if outcome.verdict != "done":
            self._entries.pop(words, None)
        return outcome

    async def _extend(self, words: _Words, entry: _Entry, timeout_seconds: float) -> Outcome:
        if not self._take_token():
            return _MERGED
        entry.written_at = self._clock()
        patch = {"series": {"count": entry.count, "lastObservedTime": _micro_time(self._now())}}
        outcome = await self._write("PATCH", entry.path, patch, timeout_seconds)
        if outcome.code == _NOT_FOUND:  # the API server has expired it: the next announcement creates a new one
            self._entries.pop(words, None)
        return outcome

    async def _write(self, method: str, path: str, body: object, timeout_seconds: float) -> Outcome:
        kind = "application/json" if method == "POST" else MERGE_PATCH
        try:
            answer = await ask(self._client, method, path, body, content_type=kind, timeout_seconds=timeout_seconds)
        except KubeError as error:
            return Outcome("refused", detail=str(error))
        outcome = outcome_of(answer)
        return Outcome("done" if outcome.verdict == "done" else "refused", outcome.code, outcome.detail)

    def _event(self, effect: Announce, name: str, now: datetime) -> dict[str, object]:
        regarding = {"apiVersion": "v1", "kind": effect.about, "name": effect.key.name}
        if effect.uid:
            regarding["uid"] = effect.uid
        if effect.key.namespace:
            regarding["namespace"] = effect.key.namespace
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": effect.key.namespace or _OF_NODES},
            "eventTime": _micro_time(now),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Scheduling",
            "reason": effect.reason,
            "regarding": regarding,
            "note": _fitting(effect.note),
            "type": effect.type,
        }

    def _remember(self, words: _Words, entry: _Entry) -> None:
        self._entries[words] = entry
        self._entries.move_to_end(words)
        while len(self._entries) > self._config.max_entries:
            self._entries.popitem(last=False)

    def _take_token(self) -> bool:
        now = self._clock()
        filled = self._tokens + (now - self._filled_at) * self._config.per_second
        self._tokens = min(float(self._config.burst), filled)
        self._filled_at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def _event_name(pod: str, now: datetime, number: int) -> str:
    """The Event's name, as other components build it: the object's name and the time in hex. `number` keeps names unique."""
    suffix = f".{round(now.timestamp() * 1e6):x}{number % 4096:03x}"
    return pod[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _fitting(note: str) -> str:
    raw = note.encode()
    if len(raw) <= _LONGEST_NOTE:
        return note
    return raw[: _LONGEST_NOTE - 4].decode(errors="ignore") + " ..."
