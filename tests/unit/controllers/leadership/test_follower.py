"""Replicas that follow the Lease of the schedulers beside them."""

from random import Random

import anyio

from slackwater.controllers.leadership.lease import holder_name
from slackwater.controllers.leadership.state import LeadershipTerm
from tests.faults.virtualloop import run_virtually
from tests.support.elections import Candidate, a_server, written_by_a_scheduler


async def renew(lead: Candidate, holder: list[str], every_seconds: float = 2.0) -> None:
    """A kube-scheduler; whoever is in `holder` at the moment."""
    number = 0
    while True:
        number += 1
        if holder[0]:
            await written_by_a_scheduler(lead.lease, holder[0], number)
        await anyio.sleep(every_seconds)


def test_it_leads_exactly_while_the_lease_names_its_pod() -> None:
    async def main() -> None:
        server = a_server()
        other, a, b = Candidate("x", server), Candidate("pod-a", server, offset=1e6), Candidate("pod-b", server)
        holder = ["pod-a_11"]
        async with anyio.create_task_group() as group:
            group.start_soon(renew, other, holder)
            group.start_soon(a.following().run)
            group.start_soon(b.following().run)
            await anyio.sleep(5)
            assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
            assert b.leadership.holder == "pod-a_11"
            holder[0] = "pod-b_22"
            await anyio.sleep(2.1)
            assert (a.leadership.leads(), b.leadership.leads()) == (False, True)
            assert (a.leadership.leadership_terms, b.leadership.leadership_terms) == (1, 1)
            group.cancel_scope.cancel()

    run_virtually(Random(1), main)


def test_it_notices_a_hand_over_at_once() -> None:
    async def main() -> None:
        server = a_server()
        other, a = Candidate("x", server), Candidate("pod-a", server)
        async with anyio.create_task_group() as group:
            group.start_soon(a.following().run)
            await written_by_a_scheduler(other.lease, "pod-b_1", 1)
            await anyio.sleep(3)
            began_at = anyio.current_time()
            await written_by_a_scheduler(other.lease, "pod-a_2", 2)
            while not a.leadership.leads():
                await a.leadership.changed()
            assert anyio.current_time() - began_at < 0.05
            group.cancel_scope.cancel()

    run_virtually(Random(2), main)


def test_a_lease_that_is_not_renewed_ends_by_itself() -> None:
    async def main() -> None:
        server = a_server()
        other, a = Candidate("x", server), Candidate("pod-a", server)
        async with anyio.create_task_group() as group:
            group.start_soon(a.following().run)
            await anyio.sleep(1)
            await written_by_a_scheduler(other.lease, "pod-a_2", 1)
            await anyio.sleep(1)
            assert a.leadership.leads()
            await anyio.sleep(11)
            assert not a.leadership.leads()
            group.cancel_scope.cancel()

    run_virtually(Random(3), main)


def test_what_it_finds_at_first_may_be_old_so_it_waits_for_a_renewal() -> None:
    async def main() -> None:
        server = a_server()
        other, a = Candidate("x", server), Candidate("pod-a", server)
        await written_by_a_scheduler(other.lease, "pod-a_2", 1)
        async with anyio.create_task_group() as group:
            group.start_soon(a.following().run)
            await anyio.sleep(5)
            assert not a.leadership.leads()
            await written_by_a_scheduler(other.lease, "pod-a_2", 2)
            await anyio.sleep(0.1)
            assert a.leadership.leads()
            group.cancel_scope.cancel()

    run_virtually(Random(4), main)


def test_one_that_was_stopped_does_not_believe_what_it_reads_first() -> None:
    async def main() -> None:
        server = a_server()
        other, a = Candidate("x", server), Candidate("pod-a", server)
        leadership_term = LeadershipTerm(a.leadership)
        async with anyio.create_task_group() as group:
            group.start_soon(a.following().run)
            await anyio.sleep(1)
            await written_by_a_scheduler(other.lease, "pod-a_2", 1)
            await leadership_term.begun()
            a.api.stop()
            await written_by_a_scheduler(other.lease, "pod-a_2", 2)  # it lies in its socket while it is stopped
            await anyio.sleep(60)
            assert not leadership_term.leads()
            await a.api.go_on()
            await anyio.sleep(1)
            assert not a.leadership.leads()
            # Its scheduler wins again: another leadership term, in which nothing of the first counts.
            await written_by_a_scheduler(other.lease, "pod-a_3", 3)
            await anyio.sleep(0.1)
            assert a.leadership.leads()
            assert not leadership_term.leads()
            group.cancel_scope.cancel()

    run_virtually(Random(5), main)


def test_a_holder_is_known_by_its_host() -> None:
    assert holder_name("slackwater-7d9-x_0b5e-11") == "slackwater-7d9-x"
    assert holder_name("without") == "without"
    assert holder_name("") == ""
