"""Plans are made in a worker thread of this process, on a replica that this thread alone touches.

It needs no second process, and shares the interpreter's lock with whoever serves: see docs/adr/0052 for what that costs.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from anyio import get_cancelled_exc_class

from slackwater.runtime.autoscaler.clocks import Watch
from slackwater.runtime.autoscaler.planning import Inquiry, PlanMaker, PlannerObservation, Plans
from slackwater.runtime.autoscaler.scaledown_planning import ScaleDownProposal

T = TypeVar("T")

#: While a plan is made in Python, the serving loop waits for its turn at most so long, instead of 5 ms.
_SWITCH_SECONDS: Final = 1e-4


class ThreadPlanning:
    """Implements `runtime.autoscaler.planning.Planning`. `timeout_seconds`: a plan that takes longer is given up."""

    def __init__(self, maker: PlanMaker, *, timeout_seconds: float) -> None:
        self._maker = maker
        self._timeout = timeout_seconds
        self._one = anyio.CapacityLimiter(1)

    async def plan(self, inquiry: Inquiry, _watch: Watch) -> Plans:
        """Raises TimeoutError."""
        return await self._in_thread(partial(self._maker.make, inquiry))

    async def scale_down(self, _watch: Watch) -> ScaleDownProposal | None:
        """Raises TimeoutError."""
        return await self._in_thread(self._maker.scale_down)

    async def _in_thread(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """Cancelled or out of time, it gives the thread up, which ends at its next look at `stop`."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_SECONDS)
        over = threading.Event()
        try:
            with anyio.fail_after(self._timeout):
                return await anyio.to_thread.run_sync(work, over.is_set, abandon_on_cancel=True, limiter=self._one)
        except (get_cancelled_exc_class(), TimeoutError):
            over.set()
            raise
        finally:
            sys.setswitchinterval(before)

    async def run(self) -> None:
        """Nothing has to go on."""

    def observation(self) -> PlannerObservation:
        """There is no process."""
        return PlannerObservation()

    def forget(self) -> None:
        self._maker.forget()
