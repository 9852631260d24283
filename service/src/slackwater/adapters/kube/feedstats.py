"""Counts of a reflector, and the causes for which a list or a watch ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

from slackwater.adapters.kube.errors import Garbled, KubeError, NoAnswer, Refused, Unreachable, WentBack

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
        case Garbled():
            return "garbled"
        case WentBack():
            return "went_back"
        case Refused():
            return _STATUSES.get(error.code, "refused")
        case _:
            return "credentials"


_STATUSES: dict[int, Cause] = {
    HTTPStatus.GONE: "expired",
    HTTPStatus.GATEWAY_TIMEOUT: "ahead",
    HTTPStatus.NOT_FOUND: "absent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorStats:
    """The state and the counts of a reflector. `alive`: the latest list or watch was accepted and has not broken off."""

    resource: str
    objects: int
    version: str  #: where a watch continues; empty: list everything
    lists: int
    watches: int
    events: int
    broken_objects: int
    breaks: Mapping[Cause, int]
    last_event_age_seconds: float | None
    alive: bool


@dataclass(slots=True)
class Counts:
    """Counts of a reflector, which only grow, except `alive` and `last_event_at`."""

    clock: Callable[[], float]
    lists: int = 0
    watches: int = 0
    events: int = 0
    breaks: dict[Cause, int] = field(default_factory=dict)
    last_event_at: float | None = None
    alive: bool = False

    def note_events(self, n_events: int) -> None:
        if n_events:
            self.events += n_events
            self.last_event_at = self.clock()

    def note_break(self, cause: Cause) -> None:
        self.alive = False
        self.breaks[cause] = self.breaks.get(cause, 0) + 1

    def last_event_age_seconds(self) -> float | None:
        return None if self.last_event_at is None else self.clock() - self.last_event_at
