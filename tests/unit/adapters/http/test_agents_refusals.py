"""What the agents' listener refuses, in which order and with which words (Neon's scheduler 0.36 and ours)."""

import json
from typing import Any

import pytest

from tests.support.agents import a_request, an_agent_service

pytestmark = pytest.mark.anyio

EXTENDED = {"loadAvg1M": 1.5, "loadAvg5M": 1.25, "memoryUsageBytes": 3e9}
NOT_SUPPORTED = "metrics.{loadAvg5M,memoryUsageBytes} not supported for protocol version"


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE", "OPTIONS"])
async def test_any_method_but_post_is_refused_with_400(method: str) -> None:
    async with an_agent_service() as service:
        answer = await service.http.request(method, "/")
        assert answer.status_code == 400
        assert method == "HEAD" or answer.text == "must be POST"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/anything", "/a/b?c=d"])
async def test_every_path_is_the_agents(path: str) -> None:
    async with an_agent_service() as service:
        assert (await service.http.post(path, json=a_request())).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[]",
        b"7",
        b'"text"',
        b"nonsense",
        b"\xff",
        b'{"protoVersion":7.0}',
        b'{"protoVersion":"7"}',
        b'{"protoVersion":-1}',
        b'{"protoVersion":4294967296}',
        b'{"protoVersion":true}',
        b'{"pod":{"name":1}}',
        b'{"pod":"vm"}',
        b'{"resources":{"vCPUs":""}}',
        b'{"resources":{"vCPUs":"abc"}}',
        b'{"resources":{"vCPUs":true}}',
        b'{"resources":{"mem":{}}}',
        b'{"resources":[]}',
        b'{"metrics":{"loadAvg1M":1e300}}',
        b'{"metrics":{"loadAvg1M":"1"}}',
        b'{"metrics":{"loadAvg1M":NaN}}',
    ],
)
async def test_what_cannot_be_read_is_bad_json(body: bytes) -> None:
    async with an_agent_service() as service:
        answer = await service.post(body)
        assert (answer.status_code, answer.text) == (400, "bad JSON")
        assert answer.headers["content-type"] == "text/plain"
        assert service.counted("slackwater_agent_requests_total", code="400", version="other") == 1


async def test_a_value_that_ends_within_1024_bytes_is_read_and_a_longer_one_is_not() -> None:
    exact = json.dumps(a_request(note="")).encode()
    for size, want_status in ((1024, 200), (1025, 400)):
        body = json.dumps(a_request(note="x" * (size - len(exact)))).encode()
        assert len(body) == size
        async with an_agent_service() as service:
            assert (await service.post(body)).status_code == want_status


@pytest.mark.parametrize("rest", [b"}", b" {}", b"\n" + b"x" * 5000, b"\xff\xff"])
async def test_what_follows_the_first_value_is_ignored(rest: bytes) -> None:
    async with an_agent_service() as service:
        assert (await service.post(json.dumps(a_request()).encode() + rest)).status_code == 200


async def test_null_is_a_request_of_zeros() -> None:
    async with an_agent_service() as service:
        answer = await service.post(b" null")
        assert (answer.status_code, answer.text) == (400, "Invalid protocol version <invalid: zero>")


@pytest.mark.parametrize(
    ("version", "want"),
    [
        (0, "Invalid protocol version <invalid: zero>"),
        (1, "Protocol version mismatch: Need v3.0 to v5.0 but got v1.0"),
        (3, "Protocol version mismatch: Need v3.0 to v5.0 but got v2.0"),
        (4, "Protocol version mismatch: Need v3.0 to v5.0 but got v2.1"),
        (8, "Protocol version mismatch: Need v3.0 to v5.0 but got <unknown = v5.0 + 1>"),
        (107, "Protocol version mismatch: Need v3.0 to v5.0 but got <unknown = v5.0 + 100>"),
    ],
)
async def test_other_versions_are_named_and_refused(version: int, want: str) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(version=version))
        assert (answer.status_code, answer.text) == (400, want)
        assert service.permit_service.asked == []


@pytest.mark.parametrize("version", [6, 7])
@pytest.mark.parametrize(
    ("unit", "want_field"),
    [
        (None, "vCPUs"),
        ({}, "vCPUs"),
        ({"mem": "1Gi"}, "vCPUs"),
        ({"vCPUs": 0, "mem": 1}, "vCPUs"),
        ({"vCPUs": 1}, "mem"),
        ({"vCPUs": 1, "mem": None}, "mem"),
    ],
)
async def test_from_v4_0_on_both_fields_of_the_compute_unit_are_needed(version: int, unit: Any, want_field: str) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(version=version, computeUnit=unit))
        want = f"computeUnit fields must be non-zero: {want_field} must be non-zero"
        assert (answer.status_code, answer.text) == (400, want)


async def test_v3_0_may_leave_the_compute_unit_out_but_not_half_of_it() -> None:
    async with an_agent_service() as service:
        assert (await service.post(a_request(version=5, mem=4, computeUnit=None))).status_code == 200
        assert service.permit_service.asked[-1].compute_unit is None
        half = await service.post(a_request(version=5, mem=4, computeUnit={"vCPUs": 1}))
        assert (half.status_code, half.text) == (400, "computeUnit fields must be non-zero: mem must be non-zero")


@pytest.mark.parametrize(
    ("version", "metrics", "want"),
    [
        (5, {"loadAvg1M": 1}, f"nil {NOT_SUPPORTED} v3.0"),
        (6, {"loadAvg1M": 1}, f"nil {NOT_SUPPORTED} v4.0"),
        (6, {}, f"nil {NOT_SUPPORTED} v4.0"),
        (7, EXTENDED, f"non-nil {NOT_SUPPORTED} v5.0"),
        (6, {"loadAvg5M": 1}, "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes"),
        (7, {"memoryUsageBytes": 1}, "presence of metrics.loadAvg5M must match presence of metrics.memoryUsageBytes"),
    ],
)
async def test_extended_metrics_belong_to_versions_before_v5_0(version: int, metrics: Any, want: str) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(version=version, mem=4, metrics=metrics))
        assert (answer.status_code, answer.text) == (400, want)


@pytest.mark.parametrize(
    ("resources", "want_field"), [({"mem": "4Gi"}, "vCPUs"), ({"vCPUs": 1, "mem": 0}, "mem"), ({}, "vCPUs"), (None, "vCPUs")]
)
async def test_a_request_for_nothing_is_refused(resources: Any, want_field: str) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(resources=resources))
        want = f"resources fields must be non-zero: {want_field} must be non-zero"
        assert (answer.status_code, answer.text) == (400, want)


@pytest.mark.parametrize("value", [-1, "-1m", -0.5, "5000000", 4294968, "1Ei"])
@pytest.mark.parametrize("place", ["resources", "computeUnit", "lastPermit"])
async def test_cpu_that_no_unsigned_32_bit_number_holds_is_refused_by_name(place: str, value: Any) -> None:
    async with an_agent_service() as service:
        answer = await service.post({**a_request(), place: {"vCPUs": value, "mem": "1Gi"}})
        assert (answer.status_code, answer.text) == (400, f"{place}.vCPUs: got {value}, want 0 to 4294967295m CPU")


@pytest.mark.parametrize("value", [-1, "-1Ki", "8Ei", 2**63, 2**200, "1e30"])
async def test_memory_that_no_signed_64_bit_number_holds_is_refused_by_name(value: Any) -> None:
    async with an_agent_service() as service:
        answer = await service.post(a_request(mem=value))
        assert answer.status_code == 400
        assert answer.text.startswith("resources.mem: got ")


async def test_checks_come_in_the_order_of_the_protocol() -> None:
    wrong = a_request(version=8, name="stranger", computeUnit={"vCPUs": 0, "mem": 0}, resources={}, metrics={"loadAvg5M": 1})
    async with an_agent_service() as service:
        for mended, want in (
            ({}, "Protocol version mismatch"),
            ({"protoVersion": 7}, "computeUnit fields"),
            ({"computeUnit": {"vCPUs": 1, "mem": 1}}, "presence of metrics"),
            ({"metrics": None}, "resources fields"),
            ({"resources": {"vCPUs": 1, "mem": 1}}, "pod not found"),
        ):
            wrong |= mended
            answer = await service.post(wrong)
            assert answer.text.startswith(want)
        assert answer.status_code == 404


async def test_pods_that_are_no_vm_are_refused_as_the_permit_service_says() -> None:
    async with an_agent_service() as service:
        service.permit_service.has_pod("plain", on="n", is_vm=False)
        answer = await service.post(a_request(name="plain"))
        assert (answer.status_code, answer.text) == (400, "pod is not associated with a VM")
        assert answer.headers["content-type"] == "text/plain"
