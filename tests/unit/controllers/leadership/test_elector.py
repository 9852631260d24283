"""Replicas with a Lease of their own: at every moment at most one leads, whatever their clocks say."""

from collections.abc import Callable
from random import Random

import anyio
import pytest

from slackwater.adapters.kube.lease_store import ApiLease
from tests.faults.virtualloop import run_virtually
from tests.support.elections import CONFIG, Candidate, StoppableApi, a_server

#: Seconds that each call takes; less than the time-out of one, which is a third of `renew_seconds`.
SLOW = 3.0


def leaders(candidates: list[Candidate]) -> list[str]:
    return [one.name for one in candidates if one.leadership.leads() and not one.api.stopped]


async def play(candidates: list[Candidate], story: Callable[[], object], *, releases: str = "") -> None:
    """Runs the elections beside the story; never may two lead, one that is stopped included."""
    async with anyio.create_task_group() as group:
        for one in candidates:
            group.start_soon(one.holding().run)
        group.start_soon(watch_over, candidates)
        await story()  # type: ignore[misc]
        group.cancel_scope.cancel()


async def watch_over(candidates: list[Candidate]) -> None:
    while True:
        leading = [one.name for one in candidates if one.leadership.leads()]
        assert len(leading) <= 1, f"at {anyio.current_time():.3f} s {leading} lead"
        await anyio.sleep(0.01)


def test_the_first_leads_and_keeps_leading() -> None:
    async def main() -> None:
        server = a_server()
        candidates = [Candidate("a", server, offset=7.0), Candidate("b", server, skew=-3000.0)]

        async def story() -> None:
            await anyio.sleep(1)
            first = leaders(candidates)
            assert len(first) == 1
            for _ in range(60):
                await anyio.sleep(1)
                assert leaders(candidates) == first

        await play(candidates, story)
        assert sum(one.leadership.leadership_terms for one in candidates) == 1

    run_virtually(Random(1), main)


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_a_stopped_leader_is_replaced_after_the_lease_and_does_not_lead_when_it_continues(skew: float) -> None:
    async def main() -> None:
        server = a_server()
        candidates = [Candidate("a", server, offset=7.0, skew=skew), Candidate("b", server)]

        async def story() -> None:
            await anyio.sleep(5)
            old = next(one for one in candidates if one.leadership.leads())
            new = next(one for one in candidates if one is not old)
            stopped_at = anyio.current_time()
            old.api.stop()
            await new_leader(new)
            waited = anyio.current_time() - stopped_at
            assert CONFIG.lease_seconds - CONFIG.retry_seconds < waited < CONFIG.lease_seconds + 2 * CONFIG.retry_seconds
            assert not old.leadership.leads()
            await old.api.go_on()
            for _ in range(100):
                await anyio.sleep(0.1)
                assert leaders(candidates) == [new.name]
            # What it was about to write when it was stopped met another version.
            assert all(status == 409 for method, _, status in old.api.late if method == "PUT")

        await play(candidates, story)

    run_virtually(Random(2), main)


async def new_leader(one: Candidate) -> None:
    with anyio.fail_after(60):
        while not one.leadership.leads():
            await one.leadership.changed()


def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    async def main() -> None:
        server = a_server()
        a, b = Candidate("a", server), Candidate("b", server)
        holding = a.holding()
        async with anyio.create_task_group() as group:
            group.start_soon(holding.run)
            await new_leader(a)
            group.start_soon(b.holding().run)
            group.start_soon(watch_over, [a, b])
            await anyio.sleep(3)
            began_at = anyio.current_time()
            await holding.release()
            assert not a.leadership.leads()
            await new_leader(b)
            assert anyio.current_time() - began_at < 0.1
            await anyio.sleep(30)
            assert leaders([a, b]) == ["b"]
            found = await a.lease.read(timeout_seconds=1)
            assert found is not None
            assert (found.holder, found.transitions) == ("b_1", 1)
            group.cancel_scope.cancel()

    run_virtually(Random(3), main)


def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    async def main() -> None:
        server = a_server()
        a = Candidate("a", server)
        async with anyio.create_task_group() as group:
            group.start_soon(a.holding().run)
            await new_leader(a)
            a.api.stop()
            stopped_at = anyio.current_time()
            while a.leadership.leads():
                await a.leadership.changed()
            assert anyio.current_time() - stopped_at <= CONFIG.renew_seconds
            group.cancel_scope.cancel()

    run_virtually(Random(4), main)


def test_leadership_counts_from_the_beginning_of_a_slow_renewal() -> None:
    """The answer may be late, but others count from what they have seen, and that may be the moment of the write."""

    async def main() -> None:
        server = a_server()
        a = Candidate("a", server)
        a.api = StoppableApi(server, delay_seconds=SLOW)
        a.lease = ApiLease(a.api, namespace="kube-system", name="slackwater")
        async with anyio.create_task_group() as group:
            group.start_soon(a.holding().run)
            await new_leader(a)
            answered_at = anyio.current_time()
            a.api.stop()
            while a.leadership.leads():
                await a.leadership.changed()
            assert anyio.current_time() - answered_at <= CONFIG.renew_seconds - SLOW
            group.cancel_scope.cancel()

    run_virtually(Random(5), main)
