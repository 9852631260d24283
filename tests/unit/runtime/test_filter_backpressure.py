"""When filter's answer waits for queued binds, and for how long at most."""

from random import Random

import anyio

from slackwater.runtime.filter_backpressure import FilterBackpressure
from tests.faults.virtualloop import run_virtually


async def waited(backpressure: FilterBackpressure) -> float:
    began = anyio.current_time()
    if backpressure.due():
        await backpressure.wait()
    return round(anyio.current_time() - began, 3)


def test_an_answer_waits_while_binds_queue_and_a_second_at_most() -> None:
    async def main() -> None:
        assert await waited(FilterBackpressure(lambda: False)) == 0
        assert await waited(FilterBackpressure(lambda: anyio.current_time() < 0.3)) == 0.3
        assert await waited(FilterBackpressure(lambda: True)) == 1.0, "slowed down, and not stopped"

    run_virtually(Random(1), main)
