"""Many agents of all versions on one node, their loads rising and falling: no answer is one that they must reject."""

import math

import pytest

from slackwater.model.ids import NodeName
from slackwater_protocol.agent import PodName, Resources
from slackwater_protocol.agent_client import AgentClient
from slackwater_protocol.agent_versions import ProtocolVersion, counts_slots
from tests.support.agents import AgentService, an_agent_service
from tests.support.permitservice import GIB, amounts
from tests.support.vmagent import VmAgent

pytestmark = pytest.mark.anyio

#: 40 GiB and 10 CPUs hold 40 units; ten VMs of up to eight want twice as much at the top.
VMS, ROUNDS, LARGEST = 10, 60, 8


def an_agent(service: AgentService, number: int) -> VmAgent:
    version = list(ProtocolVersion)[number % 3]
    slots = counts_slots(version)
    key = service.permit_service.has_pod(f"vm-{number}", on="big", reserved=amounts(1000, 4 * GIB))
    unit = Resources(milli_cpu=250, memory=1 if slots else GIB)
    client = AgentClient(
        service.http, service.url, pod=PodName(namespace=key.namespace, name=key.name), compute_unit=unit, version=version
    )
    in_use = Resources(milli_cpu=1000, memory=4 if slots else 4 * GIB)
    return VmAgent(client=client, unit=unit, in_use=in_use, bounds=(1, LARGEST), version=version)


async def test_no_answer_is_rejected_and_the_node_is_never_over() -> None:
    async with an_agent_service() as service:
        service.permit_service.has_node("big", milli_cpu=10_000, memory=40 * GIB)
        agents = [an_agent(service, number) for number in range(VMS)]
        largest = 0
        for now in range(ROUNDS):
            for number, agent in enumerate(agents):
                await agent.step(1 + math.sin(now / 6 + number / 10))
                assert service.permit_service.reserved_on(NodeName("big")).within(amounts(10_000, 40 * GIB))
                held = sum(other.in_use.milli_cpu for other in agents)
                assert held <= 10_000
                largest = max(largest, agent.in_use.milli_cpu)
        assert [agent.rejected + agent.failed for agent in agents] == [[]] * VMS
        assert sum(agent.denied for agent in agents) > VMS, "there was too little room at the top"
        assert largest > 1000, "yet some of them had more than their share"


async def test_an_agent_that_lost_its_scheduler_goes_on_with_its_last_permit() -> None:
    async with an_agent_service() as service:
        service.permit_service.has_node("big", milli_cpu=10_000, memory=40 * GIB)
        agent = an_agent(service, 2)
        await agent.step(0.9)
        await agent.step(1.8)
        grown = agent.in_use
        service.readiness.unlisted = ["pods"]
        await agent.step(1.8)
        assert len(agent.failed) == 1
        assert agent.in_use == grown
        # The next scheduler knows of nothing; what was permitted is honoured all the same.
        service.readiness.unlisted = []
        service.permit_service.pods[next(key for key in service.permit_service.pods if key.name == "vm-2")].reserved = amounts(
            250, GIB
        )
        await agent.step(1.8)
        assert agent.in_use == grown
        assert agent.rejected == []
