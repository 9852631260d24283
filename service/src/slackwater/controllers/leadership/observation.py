"""Observation of a Lease: what one replica has seen of it, and until when that counts, by its own clock alone.

Clocks of two machines may differ, so no time in the Lease is compared with a clock. Certain is only the order of events on this
replica: a renewal that a read shows, and the read before did not, was written after that earlier read began, and before this
one was answered. The holder counts from the first of these two instants, a waiting replica from the second: so the holder has
stopped before another begins, however late either learns of the renewal. A replica that was suspended (by a signal, for
example) finds its time over when it continues. The rule for waiting replicas is client-go's.
"""

import math
from typing import Final

from slackwater.controllers.leadership.lease import Lease
from slackwater.model.ids import Instant

#: Share of the Lease's duration for which the holder counts it: the rest is for clocks that run at different speeds.
_COUNTS_FOR: Final = 0.8
_NEVER: Final = Instant(-math.inf)


class LeaseObservation:
    """What was seen. `lease` is the latest; None: there was none, or it was not read yet."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._written_after = _NEVER
        self._seen_at = _NEVER
        self._looked_at = _NEVER

    def look(self, lease: Lease | None, *, asked_at: Instant, answered_at: Instant) -> None:
        """Takes in a read that began at `asked_at` and was answered at `answered_at`."""
        if lease is None or not lease.says_the_same(self.lease):
            self._written_after, self._seen_at = self._looked_at, answered_at
        self.lease, self._looked_at = lease, asked_at

    @property
    def holds_until(self) -> Instant:
        """Until when the holder certainly holds the Lease."""
        return _NEVER if self.lease is None else Instant(self._written_after + self.lease.seconds * _COUNTS_FOR)

    @property
    def free_at(self) -> Instant:
        """From when on the Lease may be taken, because no replica can hold it any more."""
        if self.lease is None or not self.lease.holder:
            return _NEVER
        return Instant(self._seen_at + self.lease.seconds)
