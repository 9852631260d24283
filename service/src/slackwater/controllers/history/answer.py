"""The answer to "what happened?": for the ops listener, the command line and `explain`. Pure functions."""

from typing import Final, Literal

from slackwater.controllers.history.policy import SLOTS
from slackwater.controllers.history.state import History
from slackwater.model.history import HistoryEntry, HistoryLine, PastOfObject, time_text

#: How many entries `explain` shows.
_MOST_IN_EXPLAIN: Final = 5


def entries_of(history: History, what: Literal["pod", "node"], name: str) -> list[HistoryEntry]:
    """The entries about the object, the oldest first. A pod's name is `namespace/name`."""
    return history.of_pod(name) if what == "pod" else history.of_node(name)


def past_of(
    history: History, what: Literal["pod", "node"], name: str, *, since_ms: int | None, notes: tuple[str, ...] = ()
) -> PastOfObject:
    """The answer about one object: its entries since `since_ms` (None: all), the oldest first, and for each ring the time since
    when the ring is complete (None: nothing has been forgotten)."""
    found = [entry for entry in entries_of(history, what, name) if since_ms is None or entry.at_ms >= since_ms]
    reaches = {ring: None if (at := history.reaches(ring)) is None else time_text(at) for ring in SLOTS}
    return PastOfObject(object=f"{what} {name}", entries=tuple(map(HistoryLine.of, found)), reaches=reaches, notes=notes)


def newest(history: History, what: Literal["pod", "node"], name: str) -> tuple[HistoryLine, ...]:
    """The newest entries about the object, for its explanation; the oldest first."""
    return tuple(map(HistoryLine.of, entries_of(history, what, name)[-_MOST_IN_EXPLAIN:]))
