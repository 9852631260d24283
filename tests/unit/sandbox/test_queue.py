"""The embedded scheduler's queue tries pods again when kube-scheduler would."""

from random import Random

import anyio
import pytest

from slackwater.sandbox.embedded.queue import SchedulingQueue
from slackwater.sandbox.embedded.timers import Timers
from tests.faults.virtualloop import run_virtually


@pytest.mark.parametrize("error", [False, True])
def test_an_attempt_that_ended_with_an_error_is_repeated_and_a_rejection_waits_for_a_change(error: bool) -> None:
    """As in kube-scheduler: no plug-in rejected the pod, so no event would ever bring it back."""

    async def main() -> None:
        timers = Timers()
        queue = SchedulingQueue(timers, lambda _: 0)
        key = ("default", "p")
        async with anyio.create_task_group() as group:
            group.start_soon(timers.run)
            queue.add(key)
            assert await queue.next() == key
            queue.failed(key, error=error)
            with anyio.move_on_after(5) as scope:
                assert await queue.next() == key
            assert scope.cancelled_caught is not error
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)
