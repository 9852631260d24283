"""Whether this replica leads. This is checked before every decision and every write, so the check is only one comparison.

The end of leadership needs no notification: `leads` compares its end with the clock each time. Deliberately absent: how a
replica comes to lead (`elector`).
"""

import math
from collections.abc import Callable
from typing import Final

import anyio

from slackwater.model.ids import Instant
from slackwater.ports.clock import Clock

_NEVER: Final = Instant(-math.inf)


class Leadership:
    """Whether this replica leads: it does until the instant `until`. `holder`: the identity that the Lease named last; empty if
    it named nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = anyio.Event()
        self.until = _NEVER
        self.holder = ""
        #: How often this replica has begun to lead.
        self.leadership_terms = 0
        #: How often the Lease named another holder than before.
        self.changes = 0
        #: Makes the elector or the follower read the Lease at once; see `read_soon`.
        self.on_doubt: Callable[[], None] = lambda: None

    def leads(self) -> bool:
        return self._clock() < self.until

    def extend(self, until: Instant) -> None:
        """Notes that this replica leads at least until then."""
        began = not self.leads() and self._clock() < until
        self.until = max(self.until, until)
        if began:
            self.leadership_terms += 1
            self.notify()

    def end(self) -> None:
        """Ends leading now."""
        if self.until > _NEVER:
            self.until = _NEVER
            self.notify()

    def held_by(self, holder: str) -> None:
        """Notes the identity of the leader that the Lease names; "" if it names nobody."""
        if holder != self.holder:
            self.changes += bool(holder)
            self.holder = holder
            self.notify()

    def read_soon(self) -> None:
        """Starts an early read of the Lease. Called when a client treats this replica as the leader: the Lease may already name
        it although the last read did not show that."""
        self.on_doubt()

    async def changed(self) -> None:
        """Waits until this replica or the Lease's holder changes, or until `until` has passed."""
        with anyio.move_on_after(self.until - self._clock() if self.leads() else math.inf):
            await self._event.wait()

    def notify(self) -> None:
        """Wakes the tasks that wait in `changed`."""
        event, self._event = self._event, anyio.Event()
        event.set()


class LeadershipTerm:
    """One term of leadership, from its beginning to its end. A decision that is made in a term is valid only because no other
    replica leads during the term.

    A replica that loses leadership and gets it again is in another term.
    """

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self._number = -1

    def leads(self) -> bool:
        """Has the term begun, and not ended?"""
        return self.leadership.leadership_terms == self._number and self.leadership.leads()

    async def begun(self) -> None:
        """Waits until this replica leads, and binds this object to that term."""
        while not self.leadership.leads():
            await self.leadership.changed()
        self._number = self.leadership.leadership_terms
        self.leadership.notify()

    async def awaited(self, seconds: float) -> bool:
        """Waits up to `seconds` for the term to begin; True if it began. Called when a client that should know the leader asks
        this replica.
        """
        self.leadership.read_soon()
        with anyio.move_on_after(seconds):
            while not self.leads():
                await self.leadership.changed()
        return self.leads()

    async def over(self) -> None:
        """Waits until the term has ended."""
        while self.leads():
            await self.leadership.changed()
