"""What the agents' listener answers, in the units of each version."""

from typing import Any

import pytest

from slackwater.model.ids import NodeName, PodKey
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal
from slackwater.model.resources import CPU
from tests.support.agents import a_request, an_agent_service
from tests.support.permitservice import GIB, amounts

pytestmark = pytest.mark.anyio

EXTENDED = {"loadAvg1M": 1.5, "loadAvg5M": 1.25, "memoryUsageBytes": 3e9}


@pytest.mark.parametrize(
    ("version", "cpu", "mem", "want"),
    [
        (5, 2, 8, {"vCPUs": 2, "mem": 8}),
        (6, 2, "8Gi", {"vCPUs": 2, "mem": "8Gi"}),
        (7, "1250m", "5Gi", {"vCPUs": "1250m", "mem": "5Gi"}),
        (7, 12, "100Gi", {"vCPUs": 10, "mem": "40Gi"}),
        (5, 12, 100, {"vCPUs": 10, "mem": 40}),
        (7, 0.25, 512, {"vCPUs": "250m", "mem": 512}),
        (7, "1.0001", "1.5Gi", {"vCPUs": "1001m", "mem": "1536Mi"}),
    ],
)
async def test_the_permit_comes_in_the_units_of_the_version(version: int, cpu: Any, mem: Any, want: dict[str, Any]) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(version=version, cpu=cpu, mem=mem))
        assert answer.json() == {"permit": want}
        assert answer.headers["content-type"] == "application/json"
        name = {5: "v3.0", 6: "v4.0", 7: "v5.0"}[version]
        assert service.counted("slackwater_agent_requests_total", code="200", version=name) == 1
        assert service.counted("slackwater_agent_request_duration_seconds_count") == 1


async def test_v3_0_counts_slots_in_all_three_fields() -> None:
    async with an_agent_service() as service:
        service.permit_service.has_pod("small-slots", on="n", slot_bytes=GIB // 2)
        body = a_request(version=5, name="small-slots", mem=6, lastPermit={"vCPUs": 1, "mem": 3})
        assert (await service.post(body)).json() == {"permit": {"vCPUs": 1, "mem": 6}}
        asked = service.permit_service.asked[-1]
        assert (asked.slots, asked.asked, asked.last_permit, asked.compute_unit) == (
            True,
            amounts(1000, 6),
            amounts(1000, 3),
            amounts(250, 1),
        )
        assert service.permit_service.pods[asked.key].reserved.memory == 3 * GIB


async def test_a_permit_in_slots_is_never_rounded_up() -> None:
    class Odd:
        async def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer:
            return PermitAnswer(permit=amounts(1000, 2 * GIB - 1), slot_bytes=GIB, migrate=False, permit_limit_pending=False)

    async with an_agent_service(permit_service=Odd()) as service:
        assert (await service.post(a_request(version=5, mem=4))).json()["permit"]["mem"] == 1


async def test_everything_that_was_sent_reaches_the_permit_service_exactly() -> None:
    async with an_agent_service() as service:
        await service.post(a_request(version=6, cpu="1750m", lastPermit={"vCPUs": 1, "mem": "4Gi"}, metrics=EXTENDED))
        [asked] = service.permit_service.asked
        assert (asked.key, asked.version, asked.slots) == (PodKey("default", "vm"), 6, False)
        assert (asked.asked, asked.last_permit) == (amounts(1750, 4 * GIB), amounts(1000, 4 * GIB))
        assert asked.compute_unit == amounts(250, GIB)
        assert asked.load is not None
        load = asked.load
        assert (load.load1_micro, load.load5_micro, load.memory_usage_bytes) == (1_500_000, 1_250_000, 3 * 10**9)


def in_upper_case(value: Any) -> Any:
    return {key.upper(): in_upper_case(part) for key, part in value.items()} if isinstance(value, dict) else value


async def test_keys_are_read_in_any_case_and_unknown_ones_ignored() -> None:
    async with an_agent_service() as service:
        body = in_upper_case(a_request(note={"a": [1]}, metrics={"loadAvg1M": 1.5}))
        assert (await service.post(body)).json() == {"permit": {"vCPUs": 1, "mem": "4Gi"}}
        assert service.permit_service.asked[-1].load is not None


async def test_migrate_is_there_only_when_the_permit_service_says_so() -> None:
    async with an_agent_service() as service:
        service.permit_service.to_migrate.add(PodKey("default", "vm"))
        first, second = await service.post(a_request()), await service.post(a_request())
        assert first.text == '{"permit":{"vCPUs":1,"mem":"4Gi"},"migrate":{}}'
        assert second.text == '{"permit":{"vCPUs":1,"mem":"4Gi"}}'
        assert service.counted("slackwater_agent_migrations_announced_total") == 1


async def test_a_permit_limit_that_is_not_written_yet_is_counted() -> None:
    async with an_agent_service() as service:
        service.permit_service.pending = True
        await service.post(a_request())
        assert service.counted("slackwater_agent_permit_limits_awaited_total") == 1


async def test_growth_follows_the_room_of_the_node() -> None:
    async with an_agent_service() as service:
        service.permit_service.has_pod("other", on="n", reserved=amounts(6100, 4 * GIB))
        permit = (await service.post(a_request(cpu=8))).json()["permit"]
        assert permit == {"vCPUs": "3750m", "mem": "4Gi"}, "2.9 CPUs are free, 2.75 of them in whole units"
        assert sum(pod.reserved[CPU] for pod in service.permit_service.pods.values()) <= 10_000


async def test_requests_are_counted_by_status_and_those_that_could_be_read_by_the_pods_node_too() -> None:
    async with an_agent_service(permit_service=OnNode()) as service:
        await service.post(a_request(metrics={"loadAvg1M": 1.5}))
        await service.post(a_request())
        await service.post(a_request(name="absent"))
        await service.post(a_request(computeUnit=None))
        await service.post(b"{")
        for code, want in (("200", 2), ("404", 1), ("400", 2)):
            assert service.counted("slackwater_resource_requests_total", code=code) == want
        for code, node, has_metrics in (("200", "n", "true"), ("200", "n", "false"), ("404", "<none>", "false")):
            labels = {"code": code, "node": node, "has_metrics": has_metrics}
            assert service.counted("slackwater_resource_requests_results_total", **labels) == 1
        refused = {"code": "400", "node": "<none>", "has_metrics": "false"}
        assert service.counted("slackwater_resource_requests_results_total", **refused) == 1


class OnNode:
    """Knows one pod, on node `n`."""

    async def ask(self, ask: PermitAsk, *, wait_seconds: float = 0.0, caller: Caller | None) -> PermitAnswer | PermitRefusal:
        if ask.key != PodKey("default", "vm"):
            return PermitRefusal(status=404, code="pod_unknown", message="pod not found")
        return PermitAnswer(permit=ask.asked, slot_bytes=GIB, migrate=False, permit_limit_pending=False, node=NodeName("n"))
