"""When the intake is ready: after the first lists, and after binds in flight have had time to arrive."""

from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import anyio
import pytest

from slackwater.controllers.policy import Policy
from slackwater.model.ids import Instant
from slackwater.ports.protocols import Batch
from slackwater.runtime.intake import SETTLE_SECONDS, TICK_SECONDS, Intake
from slackwater.runtime.state_machine import StateMachine
from tests.faults.virtualloop import run_virtually


class _Submitter:
    def submit_all(self, _effects: Any) -> None:
        pass


class _ListsOnce:
    def __init__(self, after: float) -> None:
        self._after = after

    async def batches(self) -> AsyncGenerator[Batch]:
        await anyio.sleep(self._after)
        yield Batch((), listed=True)
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("settles", "standby", "waits"), [(True, False, SETTLE_SECONDS), (False, False, 0.0), (True, True, 0.0)]
)
def test_binds_in_flight_have_time_to_arrive_where_they_matter(settles: bool, standby: bool, waits: float) -> None:
    async def main() -> None:
        def clock() -> Instant:
            return Instant(anyio.current_time())

        sources: dict[str, Any] = {"nodes": _ListsOnce(1.0), "pods": _ListsOnce(2.0)}
        intake = Intake(StateMachine(Policy()), clock, sources, standby=standby, settles=lambda: settles)
        intake.connect(_Submitter())  # type: ignore[arg-type]
        async with anyio.create_task_group() as group:
            began = clock()
            group.start_soon(intake.run)
            await anyio.sleep(1.5)
            assert list(intake.unlisted) == ["pods"]
            await anyio.sleep(0.6)
            assert list(intake.unlisted) == (["binds in flight"] if waits else [])
            assert intake.ready is not bool(waits)
            await intake.listed()
            assert intake.ready
            assert clock() - began <= 2.0 + waits + TICK_SECONDS + 0.1
            if not standby:
                await intake.synced()
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)
