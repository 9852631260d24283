"""The window of nominations: how many may be under way at once. It grows while nominated pods are bound to their nodes, and
shrinks otherwise.

Additive increase, multiplicative decrease, as in congestion control: after enough outcomes the width grows by a few, or is
halved if too many nominations were missed or writes are slow. Nominations made before a halving do not count for the next one.
At width 1 no nomination is made for a pause, which doubles each time; then one is tried again. So nominations cost next to
nothing where they are of no use because kube-scheduler is quicker or another client takes the room.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant

#: Outcomes after which the width is adjusted.
_ENOUGH: Final = 20
_STEP: Final = 8
#: How long nothing is nominated after a failure at which the window cannot be halved any more.
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=30.0)
#: The weight of the newest write's time in the mean.
_NEWEST: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """Limits of the window. `most`: the most nominations whose writes are under way at the same time. The window is halved if
    the share of missed nominations exceeds `max_miss_share` (0 to 1), or the mean time of a write exceeds `slow_seconds`."""

    most: int = 64
    max_miss_share: float = 0.2
    slow_seconds: float = 1.0


class NominationWindow:
    """The limit on nominations whose writes are under way at the same time. It adapts to outcomes and to the time of writes."""

    def __init__(self) -> None:
        self.width = 32
        self.write_seconds = 0.0  #: moving average
        self._hits = self._misses = self._writes = 0
        self._halved_at = self._resume_at = Instant(0.0)
        self._pauses = 0  # in a row

    def allowed(self, policy: WindowPolicy, now: Instant) -> int:
        """The most nominations whose writes may be under way now; 0 during a pause."""
        return min(self.width, policy.most) if now >= self._resume_at else 0

    def note_hit(self, policy: WindowPolicy, now: Instant) -> None:
        self._hits += 1
        self._adjust_width(policy, now)

    def note_miss(self, policy: WindowPolicy, now: Instant, *, made_at: Instant) -> None:
        if made_at >= self._halved_at:
            self._misses += 1
            self._adjust_width(policy, now)

    def written(self, seconds: float, policy: WindowPolicy, now: Instant) -> None:
        """Counts a write that took so many seconds, and halves the window if writes are slow."""
        self.write_seconds += (seconds - self.write_seconds) * _NEWEST
        self._writes += now - seconds >= self._halved_at
        if self._writes >= _ENOUGH:
            self._writes = 0
            if self.write_seconds > policy.slow_seconds:
                self._slow_down(now)

    def _adjust_width(self, policy: WindowPolicy, now: Instant) -> None:
        counted = self._hits + self._misses
        if counted < min(_ENOUGH, max(1, self.width)):
            return
        share = self._misses / counted
        self._hits = self._misses = 0
        if share > policy.max_miss_share:
            self._slow_down(now)
        else:
            self.width = min(self.width + _STEP, policy.most)
            self._pauses = 0

    def _slow_down(self, now: Instant) -> None:
        self.width = max(1, self.width // 2)
        self._halved_at = now
        if self.width == 1:
            self._pauses += 1
            self._resume_at = Instant(now + _BACKOFF.seconds(self._pauses))
