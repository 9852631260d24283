"""Which time counts: the window, without the time in which nothing was written, and without jumps of the clock.

Flows in: the time of each line, in the log's order. Flows out: `counted`, a clock in whole milliseconds that never goes back
and that all sums go by. So the figures of both sides, and the money of single decisions, are about the same time.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from slackwater.model.texts import count_text, time_text
from slackwater_protocol.money import rounded, signed_text

#: Samples are written once a minute; after so many seconds without a line nothing is known of the time between.
SILENCE_SECONDS: Final = 600.0
MILLISECONDS_OF_HOUR: Final = 3_600_000
_LATEST: Final = 253_402_300_799.0


def utc_text(at: float) -> str:
    """The time as `2026-11-27T15:40:00Z`."""
    return datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def amount_text(amount: int) -> str:
    """The money of micros an hour, times milliseconds, as a decimal number."""
    return signed_text(rounded(amount, MILLISECONDS_OF_HOUR))


@dataclass(slots=True)
class Window:
    """`start`: lines before it do not count. `begins`, `ends`: the first and the last time that count. `parts`: how often both
    sides have begun within the window. `breaks`: how often time was left out. `counted`: milliseconds that count so far."""

    start: float
    begins: float = 0.0
    ends: float = 0.0
    counted: int = 0
    parts: int = 0
    breaks: int = 0
    _last: float | None = None
    _silent: float = 0.0
    _silences: int = 0
    _stopped: float = 0.0
    _backs: int = 0

    def take(self, at: float, *, begins_again: bool) -> bool:
        """Goes on to a line's time. True if the line is within the window."""
        last, self._last = self._last, at
        if at < self.start:
            if self.parts and last is not None and last >= self.start:
                self._note_break(at - last, begins_again=False)
            return False
        since = at if last is None else max(last, self.start)
        gap = 0.0 if last is None else at - last
        if begins_again or not 0.0 <= gap <= SILENCE_SECONDS:
            if self.parts:
                self._note_break(gap, begins_again=begins_again)
            since = at
        self.counted += round(at * 1000) - round(since * 1000)
        self.begins = since if not self.parts else min(self.begins, since)
        self.ends = max(self.ends, at)
        self.parts += not self.parts or begins_again
        return True

    def _note_break(self, gap: float, *, begins_again: bool) -> None:
        self.breaks += 1
        if begins_again:
            self._stopped += max(gap, 0.0)
        elif gap < 0:
            self._backs += 1
        else:
            self._silences, self._silent = self._silences + 1, self._silent + gap

    def notes(self) -> list[str]:
        """What does not count, for people."""
        found = []
        if self.parts > 1:
            found.append(
                f"The service has started {count_text(self.parts - 1, 'time')} meanwhile. Both sides begin again with the real "
                f"cluster then, and the {time_text(self._stopped)} before do not count."
            )
        if self._silences:
            found.append(
                f"Nothing was written {count_text(self._silences, 'time')} for more than {time_text(SILENCE_SECONDS)}: "
                f"{time_text(self._silent)} do not count."
            )
        if self._backs:
            found.append(f"The clock went back {count_text(self._backs, 'time')}; the time after counts as it passed.")
        return found
