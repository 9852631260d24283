"""Filter answers at once about a pod for which others have to leave."""

from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from slackwater.model.effects import DeleteVictim
from slackwater.model.events import TimePassed
from tests.support.bodies import filter_args
from tests.support.builders import a_node, a_pod
from tests.support.preempting import POLICY
from tests.support.service import Service, a_service

pytestmark = pytest.mark.anyio

NODES = ("n", "full")
PREEMPTOR = a_pod("p", cpu="2", priority=9)


def a_cluster(service: Service) -> None:
    service.has(a_node("n"), a_node("full"), a_pod("v", on="n", cpu="3"), a_pod("w", on="full", cpu="3", priority=99))
    service.has(PREEMPTOR)


async def ask(service: Service, nodes: Sequence[str] = NODES) -> Any:
    return await service.ask("filter", filter_args(PREEMPTOR, *nodes))


async def test_a_gated_pod_is_answered_with_one_entry_whatever_was_asked() -> None:
    async with a_service(POLICY) as service:
        a_cluster(service)
        first = await ask(service)
        assert list(first["FailedAndUnresolvableNodes"]) == ["n"]
        again = await ask(service, ["n", *(f"node-{number}" for number in range(5000))])
        assert again["NodeNames"] == []
        assert again["FailedNodes"] == {}
        assert list(again["FailedAndUnresolvableNodes"]) == ["n"]
        assert again["Error"] == ""
        assert service.state_machine.state.event_counts.attempts == 2


async def test_the_answer_does_not_wait_for_the_victims() -> None:
    async with a_service(POLICY) as service:
        a_cluster(service)
        service.writer.open_gate = anyio.Event()
        await ask(service)
        assert service.state_machine.preemptions.gated(PREEMPTOR.uid)


async def test_the_least_important_pods_that_make_room_are_the_victims() -> None:
    async with a_service(POLICY) as service:
        a_cluster(service)
        service.has(a_pod("less", on="n", cpu="900m", priority=-1))
        await ask(service)
        with anyio.fail_after(60):
            while not any(isinstance(effect, DeleteVictim) for effect in service.writer.asked):
                service.take(TimePassed())
                await anyio.lowlevel.checkpoint()
        deleted = [effect.key.name for effect in service.writer.asked if isinstance(effect, DeleteVictim)]
        assert deleted == ["v"]
