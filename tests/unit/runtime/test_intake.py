"""When the intake is ready: after the first lists, and after binds in flight have had time to arrive."""

from collections.abc import AsyncGenerator, Iterable
from random import Random
from typing import Any

import anyio
import pytest
from msgspec import structs

from slackwater.model.effects import Effect, WritePermit
from slackwater.model.events import Event, NodeSeen, PodSeen
from slackwater.model.ids import Instant
from slackwater.model.permits import PermitAsk, PersistedPermit
from slackwater.ports.protocols import Batch
from slackwater.runtime.intake import SETTLE_SECONDS, TICK_SECONDS, Intake
from slackwater.runtime.state_machine import StateMachine
from tests.faults.virtualloop import run_virtually
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts


class _Submitter:
    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def submit_all(self, effects: Iterable[Effect]) -> None:
        self.effects += effects


class _ListsOnce:
    def __init__(self, after: float, *events: Event) -> None:
        self._after = after
        self._events = events

    async def batches(self) -> AsyncGenerator[Batch]:
        await anyio.sleep(self._after)
        yield Batch(self._events, listed=True)
        await anyio.sleep_forever()


def test_who_takes_over_waits_for_binds_in_flight_as_who_starts_does() -> None:
    async def main() -> None:
        def clock() -> Instant:
            return Instant(anyio.current_time())

        intake = Intake(StateMachine(installed.POLICY), clock, {"pods": _ListsOnce(1.0)}, standby=True, settles=lambda: True)
        intake.connect(_Submitter())  # type: ignore[arg-type]
        async with anyio.create_task_group() as group:
            group.start_soon(intake.run)
            await intake.listed()
            await anyio.sleep(100.0)
            assert intake.ready
            began = clock()
            intake.lead()
            assert (intake.ready, list(intake.unlisted)) == (False, ["binds in flight"])
            await intake.synced()
            assert SETTLE_SECONDS <= clock() - began <= SETTLE_SECONDS + 2 * TICK_SECONDS
            assert intake.ready
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)


@pytest.mark.parametrize(
    ("settles", "standby", "waits"), [(True, False, SETTLE_SECONDS), (False, False, 0.0), (True, True, 0.0)]
)
def test_binds_in_flight_have_time_to_arrive_where_they_matter(settles: bool, standby: bool, waits: float) -> None:
    async def main() -> None:
        def clock() -> Instant:
            return Instant(anyio.current_time())

        sources: dict[str, Any] = {"nodes": _ListsOnce(1.0), "pods": _ListsOnce(2.0)}
        intake = Intake(StateMachine(installed.POLICY), clock, sources, standby=standby, settles=lambda: settles)
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


@pytest.mark.parametrize("standby", [False, True])
def test_a_standby_submits_nothing_and_its_ticks_decide_nothing(standby: bool) -> None:
    """A permit that is higher than what its pod has is lowered by a lazy write. Only the leader begins it."""
    high = PersistedPermit(permit=amounts("3", "4Gi"), permit_limit=amounts("3", "4Gi")).text()
    machine = structs.replace(a_pod("vm", on="n"), vertical=a_vertical(machine=None, using=amounts("1", "4Gi"), permit=high))

    async def main() -> None:
        def clock() -> Instant:
            return Instant(anyio.current_time())

        state_machine, submitter = StateMachine(installed.POLICY), _Submitter()
        sources: dict[str, Any] = {"all": _ListsOnce(1.0, NodeSeen(a_node("n")), PodSeen(machine))}
        intake = Intake(state_machine, clock, sources, standby=standby)
        intake.connect(submitter)  # type: ignore[arg-type]
        async with anyio.create_task_group() as group:
            group.start_soon(intake.run)
            await intake.listed()
            ask = PermitAsk(
                key=machine.key,
                version=7,
                asked=amounts("1", "4Gi"),
                last_permit=amounts("3", "4Gi"),
                compute_unit=amounts("250m", "1Gi"),
                load=None,
                slots=False,
            )
            state_machine.ask_permit(ask, None, clock())
            await anyio.sleep(10)
            assert state_machine.permit_limits.writing() == (not standby)
            assert [type(effect) for effect in submitter.effects] == ([] if standby else [WritePermit])
            # An annotation that cannot be read causes an Event at once, without a tick.
            intake.take(PodSeen(structs.replace(a_pod("odd", on="n", uid="odd"), vertical_problem="no number")))
            assert len(submitter.effects) == (0 if standby else 2)
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)
