"""What one replica saw of a Lease, and until when that counts, by its own clock alone.

Clocks of two machines may differ, so no time in the Lease is compared with a clock. What is certain is only the order of things
here: a renewal that a look shows, and the look before did not, was written after that earlier look began, and before this
one was answered. Whoever holds the Lease counts from the first of the two, whoever waits for its end from the second: so the
one has stopped before the other begins, however late either hears of it. A replica that was stopped (by a signal, say) finds
its time over when it goes on. The rule for those who wait is client-go's.
"""

import math
from typing import Final

from slackwater.controllers.leadership.lease import Lease
from slackwater.model.ids import Instant

#: Share of the Lease's duration for which a look counts: the rest is for clocks that do not run alike.
_COUNTS_FOR: Final = 0.8
_NEVER: Final = Instant(-math.inf)


class LeaseObservation:
    """`lease` is as last seen; None: there was none, or nobody has looked yet."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self._written_after = _NEVER
        self._seen_at = _NEVER
        self._looked_at = _NEVER

    def look(self, lease: Lease | None, *, asked_at: Instant, answered_at: Instant) -> None:
        """A look that began at `asked_at` showed this at `answered_at`."""
        if lease is None or not lease.says_the_same(self.lease):
            self._written_after, self._seen_at = self._looked_at, answered_at
        self.lease, self._looked_at = lease, asked_at

    @property
    def holds_until(self) -> Instant:
        """Until when its holder holds it for certain."""
        return _NEVER if self.lease is None else Instant(self._written_after + self.lease.seconds * _COUNTS_FOR)

    @property
    def free_at(self) -> Instant:
        """From when on it may be taken; nobody holds it any more then, or nobody did."""
        if self.lease is None or not self.lease.holder:
            return _NEVER
        return Instant(self._seen_at + self.lease.seconds)
