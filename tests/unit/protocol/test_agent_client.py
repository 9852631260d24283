"""The client for agent authors against the listener: one conversation, and answers that no agent may follow."""

import json
from collections.abc import Callable

import anyio
import httpx
import pytest

from slackwater_protocol.agent import Metrics, PodName, Resources, SlotResources
from slackwater_protocol.agent_client import AgentClient, AnswerRefused, BadAnswer, NoAnswer, check_permit
from slackwater_protocol.agent_versions import ProtocolVersion
from tests.support.agents import AgentService, an_agent_service
from tests.support.permitservice import GIB, amounts

pytestmark = pytest.mark.anyio

VM = PodName(namespace="default", name="vm")
UNIT = Resources(milli_cpu=250, memory=GIB)


def cus(count: int) -> Resources:
    return Resources(milli_cpu=250 * count, memory=GIB * count)


def a_client(service: AgentService, pod: PodName = VM) -> AgentClient:
    return AgentClient(service.http, service.url, pod=pod, compute_unit=UNIT)


async def test_a_vm_grows_shrinks_and_reports_its_last_permit() -> None:
    async with an_agent_service() as service:
        client = a_client(service)
        assert await client.ask(cus(4), in_use=cus(4)) == cus(4)
        assert await client.ask(cus(8), in_use=cus(4), metrics=Metrics(load_avg_1m=2.5)) == cus(8)
        assert await client.ask(cus(2), in_use=cus(2)) == cus(2)
        assert client.permit == cus(2)
        reported = [asked.last_permit for asked in service.permit_service.asked]
        assert reported == [None, amounts(1000, 4 * GIB), amounts(2000, 8 * GIB)]
        assert service.permit_service.asked[1].load is not None


@pytest.mark.parametrize("version", ProtocolVersion)
async def test_every_version_has_the_same_conversation_in_its_own_units(version: ProtocolVersion) -> None:
    slots = version == ProtocolVersion.V3_0
    size = 1 if slots else GIB
    kind = SlotResources if slots else Resources
    async with an_agent_service() as service:
        unit = Resources(milli_cpu=250, memory=size)
        client = AgentClient(service.http, service.url, pod=VM, compute_unit=unit, version=version)
        for count in (4, 9, 3):
            wanted = Resources(milli_cpu=250 * count, memory=size * count)
            permit = await client.ask(wanted, in_use=Resources(milli_cpu=250, memory=size))
            assert (permit.milli_cpu, permit.memory) == (wanted.milli_cpu, wanted.memory)
            assert type(permit) in (Resources, kind)
        assert [asked.version for asked in service.permit_service.asked] == [version] * 3


async def test_with_a_wait_growth_comes_as_soon_as_there_is_room() -> None:
    async with an_agent_service() as service:
        other = service.permit_service.has_pod("other", on="n", reserved=amounts(9000, 4 * GIB))
        client = a_client(service)

        async def grow() -> None:
            permit = await client.ask(cus(8), in_use=cus(4), wait_seconds=20)
            assert permit == cus(8)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(grow)
                await anyio.wait_all_tasks_blocked()
                service.permit_service.drop_pod(other)


async def test_a_migration_is_reported_until_the_next_answer() -> None:
    async with an_agent_service() as service:
        service.permit_service.to_migrate.update(service.permit_service.pods)
        client = a_client(service)
        await client.ask(cus(4), in_use=cus(4))
        assert client.migrating
        await client.ask(cus(4), in_use=cus(4))
        assert not client.migrating


async def test_a_refusal_leaves_the_permit_as_it_was() -> None:
    async with an_agent_service() as service:
        client = a_client(service)
        await client.ask(cus(4), in_use=cus(4))
        service.permit_service.pods.clear()
        with pytest.raises(AnswerRefused, match="answered 404: pod not found") as caught:
            await client.ask(cus(5), in_use=cus(4))
        assert (caught.value.status, caught.value.text) == (404, "pod not found")
        assert client.permit == cus(4)


@pytest.mark.parametrize(
    ("wanted", "want"),
    [(cus(3), "is below"), (Resources(milli_cpu=1000, memory=3 * GIB), "is below")],
)
async def test_wanting_less_than_is_in_use_is_an_error_of_the_author(wanted: Resources, want: str) -> None:
    async with an_agent_service() as service:
        with pytest.raises(ValueError, match=want):
            await a_client(service).ask(wanted, in_use=cus(4))
        with pytest.raises(ValueError, match="resources fields must be non-zero"):
            await a_client(service).ask(Resources(), in_use=Resources())
        assert service.permit_service.asked == []


def answering(answer: Callable[[httpx.Request], httpx.Response]) -> AgentClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return AgentClient(http, "http://agents/", pod=VM, compute_unit=UNIT, token=lambda: "the-token")


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"permit":{"vCPUs":-1,"mem":1}}', "cannot be read"),
        ("{}", "zero field"),
        ('{"permit":{"vCPUs":1}}', "zero field"),
        ('{"permit":{"vCPUs":"1250m","mem":"4Gi"}}', "exceeds what was asked"),
        ('{"permit":{"vCPUs":1,"mem":"5Gi"}}', "exceeds what was asked"),
        ('{"permit":{"vCPUs":"500m","mem":"4Gi"}}', "below what is in use"),
        ('{"permit":{"vCPUs":1,"mem":"2Gi"}}', "below what is in use"),
    ],
)
async def test_an_answer_that_no_agent_may_follow_is_refused(body: str, want: str) -> None:
    client = answering(lambda _: httpx.Response(200, text=body))
    with pytest.raises(BadAnswer, match=want):
        await client.ask(cus(4), in_use=cus(3))
    assert client.permit is None


async def test_no_answer_is_an_error_of_its_own_and_the_token_is_read_again_each_time() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        raise httpx.ReadTimeout("too late")

    with pytest.raises(NoAnswer, match="ReadTimeout"):
        await answering(answer).ask(cus(4), in_use=cus(4), wait_seconds=7)
    assert (seen[0].headers["authorization"], seen[0].headers["prefer"]) == ("Bearer the-token", "wait=7")
    assert json.loads(seen[0].content)["protoVersion"] == 7


def test_a_permit_between_use_and_request_is_valid() -> None:
    check_permit(cus(4), wanted=cus(4), in_use=cus(4))
    check_permit(Resources(milli_cpu=900, memory=3 * GIB + 1), wanted=cus(4), in_use=cus(3))
