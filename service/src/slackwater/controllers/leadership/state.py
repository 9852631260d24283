"""Whether this replica leads. Asked before everything that decides or changes something, so it costs one comparison.

Nobody has to be told that the time is over: `leads` compares with the clock each time. Deliberately absent: how one comes to
lead (`following`, `holding`).
"""

import math
from collections.abc import Callable
from typing import Final

import anyio

from slackwater.model.ids import Instant
from slackwater.ports.clock import Clock

_NEVER: Final = Instant(-math.inf)


class Leadership:
    """`until` is when it ends unless it is prolonged; `holder` the identity of whoever leads as far as is known, "" nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = anyio.Event()
        self.until = _NEVER
        self.holder = ""
        #: How often this replica has begun to lead.
        self.leadership_terms = 0
        #: How often another holder was seen than before.
        self.changes = 0
        #: Asks whoever knows to look at once; see `look_soon`.
        self.on_doubt: Callable[[], None] = lambda: None

    def leads(self) -> bool:
        return self._clock() < self.until

    def prolong(self, until: Instant) -> None:
        """It leads until then; never shorter than was said before."""
        began = not self.leads() and self._clock() < until
        self.until = max(self.until, until)
        if began:
            self.leadership_terms += 1
            self.tell()

    def end(self) -> None:
        """It does not lead, from this moment on."""
        if self.until > _NEVER:
            self.until = _NEVER
            self.tell()

    def held_by(self, holder: str) -> None:
        """Who leads, as the Lease says."""
        if holder != self.holder:
            self.changes += bool(holder)
            self.holder = holder
            self.tell()

    def look_soon(self) -> None:
        """Somebody acts as if it led: perhaps it does, and has not heard."""
        self.on_doubt()

    async def changed(self) -> None:
        """Returns when something of it has changed, or its time is over."""
        with anyio.move_on_after(self.until - self._clock() if self.leads() else math.inf):
            await self._event.wait()

    def tell(self) -> None:
        """Wakes whoever waits for a change."""
        told, self._event = self._event, anyio.Event()
        told.set()


class LeadershipTerm:
    """One time of leading, from its beginning to its end: what was decided in it rests on nobody else having led meanwhile.

    A replica that lost the lead and has it again is in another leadership term.
    """

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self._number = -1

    def leads(self) -> bool:
        """Has it begun, and not ended?"""
        return self.leadership.leadership_terms == self._number and self.leadership.leads()

    async def begun(self) -> None:
        """Returns once it has: the next time that this replica leads, or at once if it does."""
        while not self.leadership.leads():
            await self.leadership.changed()
        self._number = self.leadership.leadership_terms
        self.leadership.tell()

    async def awaited(self, seconds: float) -> bool:
        """Whether it has begun, or begins within `seconds`: somebody who should know takes us for the leader."""
        self.leadership.look_soon()
        with anyio.move_on_after(seconds):
            while not self.leads():
                await self.leadership.changed()
        return self.leads()

    async def over(self) -> None:
        """Returns once it has ended."""
        while self.leads():
            await self.leadership.changed()


def alone(clock: Clock) -> Leadership:
    """Of a service without others beside it: it leads, always."""
    leadership = Leadership(clock)
    leadership.prolong(Instant(math.inf))
    return leadership
