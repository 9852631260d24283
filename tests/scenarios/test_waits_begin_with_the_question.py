"""What an agent waits for may happen between its question and the moment at which somebody waits: it is not missed."""

from collections.abc import Awaitable

import anyio
import pytest

from slackwater.controllers.permits.service import PermitService
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.permits import PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.resources import Amounts
from tests.faults.virtualloop import virtual_time
from tests.support.builders import a_node, amounts
from tests.support.growing import UNIT, Growing

pytestmark = pytest.mark.anyio
__all__ = ["virtual_time"]  # a fixture

SMALL, LARGE = amounts("1", "4Gi"), amounts("4", "16Gi")
#: Less than the agent is ready to wait for room; and by this clock, which stands, the permit service's own wait for a write
#: never ends.
AT_ONCE_SECONDS = 5.0


@pytest.fixture
def cluster() -> Growing:
    cluster = Growing()
    cluster.has_node(a_node("n", cpu="5", memory="40Gi"))
    return cluster


@pytest.fixture
def permit_service(cluster: Growing) -> PermitService:
    return PermitService(cluster.state_machine, cluster.sent.extend, lambda: Instant(cluster.now))


def asks(
    permit_service: PermitService, pod: Pod, asked: Amounts, *, last: Amounts, wait: float = 0.0
) -> Awaitable[PermitAnswer | PermitRefusal]:
    ask = PermitAsk(key=pod.key, version=7, asked=asked, last_permit=last, compute_unit=UNIT, load=None, slots=False)
    answer = permit_service.ask(ask, wait_seconds=wait, caller=None)
    assert isinstance(answer, Awaitable)
    return answer


async def test_room_that_appears_before_a_question_waits_is_granted(cluster: Growing, permit_service: PermitService) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, SMALL)
    other = cluster.places("other", on="n")
    cluster.ask(other, amounts("3", "4Gi"))
    pending = asks(permit_service, pod, LARGE, last=SMALL, wait=30)
    cluster.deletes(other)
    permit_service.wake()
    with anyio.fail_after(AT_ONCE_SECONDS):
        async with anyio.create_task_group() as group:
            answers: list[PermitAnswer | PermitRefusal] = []

            async def hears() -> None:
                answers.append(await pending)

            group.start_soon(hears)
            await anyio.wait_all_tasks_blocked()
            cluster.write()
            permit_service.wake()
    assert isinstance(answers[0], PermitAnswer)
    assert answers[0].permit == LARGE


async def test_a_write_that_ends_before_a_question_waits_is_answered_at_once(
    cluster: Growing, permit_service: PermitService
) -> None:
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, SMALL)
    cluster.passes(2)
    cluster.write()
    pending = asks(permit_service, pod, LARGE, last=SMALL)
    cluster.write()
    permit_service.wake()
    with anyio.fail_after(AT_ONCE_SECONDS):
        answer = await pending
    assert isinstance(answer, PermitAnswer)
    assert answer.permit == LARGE


@pytest.mark.parametrize("order", ["smaller-then-room", "room-then-smaller", "not-awaited-yet"])
async def test_a_waiting_question_is_not_asked_again_after_a_newer_one_of_its_pod(
    cluster: Growing, permit_service: PermitService, order: str
) -> None:
    """Its old amounts would undo what the newer question decided: 4 CPUs Reserved for a pod that asked for 1."""
    pod = cluster.places("vm", on="n")
    cluster.ask(pod, SMALL)
    other = cluster.places("other", on="n")
    cluster.ask(other, amounts("3", "4Gi"))
    pending = asks(permit_service, pod, LARGE, last=SMALL, wait=30)
    heard: list[PermitAnswer | PermitRefusal] = []

    async def hears() -> None:
        heard.append(await pending)

    def smaller() -> None:
        ask = PermitAsk(key=pod.key, version=7, asked=SMALL, last_permit=SMALL, compute_unit=UNIT, load=None, slots=False)
        permit_service.ask(ask, caller=None)

    def room() -> None:
        cluster.deletes(other)
        permit_service.wake()

    with anyio.fail_after(AT_ONCE_SECONDS):
        async with anyio.create_task_group() as group:
            if order != "not-awaited-yet":
                group.start_soon(hears)
                await anyio.wait_all_tasks_blocked()
            for step in (room, smaller) if order == "room-then-smaller" else (smaller, room):
                step()
            if order == "not-awaited-yet":
                group.start_soon(hears)
    claim = cluster.state_machine.state.reservations.get(pod.uid)
    assert claim is not None
    assert claim.pod_resources.reserved == SMALL
    assert isinstance(heard[0], PermitAnswer)
    assert heard[0].permit == SMALL
    assert permit_service.waiting == 0
