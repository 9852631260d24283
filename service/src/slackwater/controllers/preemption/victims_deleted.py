"""AsyncPreemption off: the answer that began a preemption waits until the victims have been deleted, not beyond a bound.

Whatever is still on its way then goes on as it would with the gate on. Deliberately absent: the preemption itself.
"""

from collections.abc import Callable

import anyio

from slackwater.model.ids import PodUid
from slackwater.runtime.state_machine import World


class VictimsDeleted:
    """`send` hands on what the world owes; `wake` has to be called after each change of the world."""

    def __init__(self, world: World, send: Callable[[], None], *, within_seconds: float) -> None:
        self._world = world
        self._send = send
        self._within_seconds = within_seconds
        self._waiting: dict[PodUid, anyio.Event] = {}

    def due(self, preemptor: PodUid) -> bool:
        """Does the answer about this pod have to wait?"""
        return not self._world.policy.preemption.asynchronous and self._world.preemptions.sending(preemptor)

    async def wait(self, preemptor: PodUid) -> None:
        """Until each victim's deletion has ended, well or not, or the time is over."""
        done = self._waiting.setdefault(preemptor, anyio.Event())
        self._send()
        with anyio.move_on_after(self._within_seconds):
            await done.wait()

    def wake(self) -> None:
        """Ends the waits that are over."""
        for preemptor in [uid for uid in self._waiting if not self._world.preemptions.sending(uid)]:
            self._waiting.pop(preemptor).set()
