"""Waits for deletions if AsyncPreemption is off: filter's answer that began a preemption waits until its victims' deletions
have ended, at most for a bounded time.

What is still on its way after that goes on as with the feature on. Deliberately absent: the preemption itself.
"""

from collections.abc import Callable

import anyio

from slackwater.model.ids import PodUid
from slackwater.runtime.state_machine import StateMachine


class VictimsDeleted:
    """Makes answers wait. `send` submits the effects that the state machine owes. Call `wake` after each change of the state
    machine."""

    def __init__(self, state_machine: StateMachine, send: Callable[[], None], *, within_seconds: float) -> None:
        self._state_machine = state_machine
        self._send = send
        self._within_seconds = within_seconds
        self._waiting: dict[PodUid, anyio.Event] = {}

    def due(self, preemptor: PodUid) -> bool:
        """Does the answer about this pod have to wait?"""
        return not self._state_machine.policy.preemption.asynchronous and self._state_machine.preemptions.sending(preemptor)

    async def wait(self, preemptor: PodUid) -> None:
        """Waits until each victim's deletion has ended, well or not, or the time is over."""
        done = self._waiting.setdefault(preemptor, anyio.Event())
        self._send()
        with anyio.move_on_after(self._within_seconds):
            await done.wait()

    def wake(self) -> None:
        """Ends the waits whose deletions have ended."""
        for preemptor in [uid for uid in self._waiting if not self._state_machine.preemptions.sending(uid)]:
            self._waiting.pop(preemptor).set()
