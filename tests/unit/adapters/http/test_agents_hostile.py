"""Whatever an agent sends: an error has the right status and changes nothing, and no answer breaks what always holds."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.model.ids import NodeName
from slackwater.model.permits import Caller
from tests.support.agents import a_request
from tests.support.invariants import violations
from tests.support.realdesk import a_real_permit_service
from tests.support.seeds import examples

pytestmark = pytest.mark.anyio

POD = "vm-pod"


def request(**parts: Any) -> dict[str, Any]:
    return a_request(**{"name": POD, **parts})


def resources(cpu: Any, mem: Any) -> dict[str, Any]:
    return {"vCPUs": cpu, "mem": mem}


REFUSED: list[tuple[str, Any, int, str]] = [
    ("no JSON", b"{", 400, "bad JSON"),
    ("empty", b"", 400, "bad JSON"),
    ("a list", b"[]", 400, "bad JSON"),
    ("not UTF-8", b'{"protoVersion": 7, "pod": {"namespace": "default", "name": "\xff"}}', 400, ""),
    ("deep", b"[" * 1000, 400, "bad JSON"),
    ("more than 1,024 bytes", request(also="x" * 1100), 400, "bad JSON"),
    ("negative CPU", request(cpu=-1), 400, "resources.vCPUs"),
    ("negative memory", request(mem="-4Gi"), 400, "resources.mem"),
    ("negative last permit", request(lastPermit=resources(-1, "1Gi")), 400, "lastPermit.vCPUs"),
    ("negative unit", request(computeUnit=resources("250m", -1)), 400, "computeUnit.mem"),
    ("CPU beyond 32 bits", request(cpu=5_000_000), 400, "resources.vCPUs"),
    ("memory beyond 63 bits", request(mem="8Ei"), 400, "resources.mem"),
    ("memory that no node has", request(mem="7Ei"), 400, "want at most"),
    ("a last permit that no node has", request(lastPermit=resources(1, "7Ei")), 400, "want at most"),
    ("slots that no node has", request(version=5, mem=2**40, computeUnit=None), 400, "want at most"),
    ("slots times their size beyond 63 bits", request(version=5, mem=2**62, computeUnit=None), 400, "want at most"),
    ("no CPU", request(cpu=0), 400, "resources fields must be non-zero"),
    ("no memory", request(mem=0), 400, "resources fields must be non-zero"),
    ("nothing", request(resources=None), 400, "resources fields must be non-zero"),
    ("no unit", request(computeUnit=None), 400, "computeUnit fields must be non-zero"),
    ("half a unit", request(computeUnit={"vCPUs": "250m"}), 400, "computeUnit fields must be non-zero"),
    ("a unit of half a slot", request(computeUnit=resources("250m", "512Mi")), 400, "not divisible by VM memory slot size"),
    ("an older version", request(version=4), 400, "Protocol version mismatch: Need v3.0 to v5.0 but got v2.1"),
    ("a later version", request(version=8), 400, "but got <unknown = v5.0 + 1>"),
    ("no version", request(protoVersion=None), 400, "Invalid protocol version <invalid: zero>"),
    ("a version that is a text", request(protoVersion="7"), 400, "bad JSON"),
    ("a version that is a fraction", b'{"protoVersion": 7.0}', 400, "bad JSON"),
    ("metrics of another version", request(metrics={"loadAvg1M": 1, "loadAvg5M": 1, "memoryUsageBytes": 1}), 400, "non-nil"),
    ("an endless load", request(metrics={"loadAvg1M": 1e300}), 400, ""),
    ("a negative load", request(metrics={"loadAvg1M": -1.5}), 400, "metrics.loadAvg1M"),
    ("a load that is none", b'{"protoVersion": 7, "metrics": {"loadAvg1M": NaN}}', 400, "bad JSON"),
    ("an absent pod", request(name="absent"), 404, "pod not found"),
    ("a pod of another namespace", request(pod={"namespace": "kube-system", "name": POD}), 404, "pod not found"),
    ("no pod", request(pod=None), 404, "pod not found"),
    ("the machine's name", request(name="vm"), 404, "pod not found"),
    ("a pod that waits for a node", request(name="pending"), 404, "pod not found"),
    ("a pod that has run to its end", request(name="done"), 404, "pod not found"),
    ("an ordinary pod", request(name="plain"), 400, "pod is not associated with a VM"),
    ("a pod that is being migrated", request(name="moving-pod", cpu=2), 400, "already been informed"),
]


@pytest.mark.parametrize(("body", "status", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("headers", [{}, {"prefer": "wait=20"}], ids=["", "waiting"])
async def test_what_is_refused_is_refused_at_once_and_changes_nothing(
    body: Any, status: int, words: str, headers: dict[str, str]
) -> None:
    async with a_real_permit_service() as cluster:
        before = cluster.state()
        with anyio.fail_after(60):
            answer = await cluster.post(body, **headers)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain")
        assert words in answer.text
        assert cluster.state() == before


async def test_a_request_for_a_pod_of_another_node_is_refused_and_changes_nothing() -> None:
    async with a_real_permit_service(caller=Caller(node=NodeName("other"), name="system:node:other")) as cluster:
        before = cluster.state()
        answer = await cluster.post(request(cpu=2))
        assert answer.status_code == 403
        assert "node other" in answer.text
        assert cluster.state() == before
        assert (await cluster.post(request(name="absent"))).status_code == 404


async def test_an_order_for_the_same_that_a_migrating_pod_has_is_answered() -> None:
    async with a_real_permit_service() as cluster:
        answer = await cluster.post(request(name="moving-pod", cpu=1, mem="4Gi"))
        assert (answer.status_code, answer.json()) == (200, {"permit": {"vCPUs": 1, "mem": "4Gi"}})


async def test_a_wait_that_is_longer_than_allowed_is_cut() -> None:
    async with a_real_permit_service() as cluster:
        cluster.growing.has_pod("filler", on="n", vertical=None)
        answer = await cluster.post(request(cpu=4, mem="16Gi"), prefer="wait=999999999")
        assert answer.headers["preference-applied"] == "wait=30"


AMOUNT: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([0, 1, 2, 4, "250m", "1100m", "4Gi", "16Gi", "17Gi", 2**31, 2**53, "7Ei", -1, None, "x", True, [], 0.1]),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
)
AMOUNTS = st.one_of(st.none(), st.fixed_dictionaries({}, optional={"vCPUs": AMOUNT, "mem": AMOUNT}))
REQUEST = st.fixed_dictionaries(
    {
        "protoVersion": st.sampled_from([5, 6, 7, 7, 7]),
        "pod": st.fixed_dictionaries(
            {"namespace": st.just("default"), "name": st.sampled_from(["vm-pod", "vm-pod", "half-pod", "moving-pod", "plain"])}
        ),
    },
    optional={
        "computeUnit": st.one_of(AMOUNTS, st.just({"vCPUs": "250m", "mem": "1Gi"})),
        "resources": AMOUNTS,
        "lastPermit": AMOUNTS,
        "metrics": st.one_of(st.none(), st.fixed_dictionaries({}, optional={"loadAvg1M": AMOUNT, "loadAvg5M": AMOUNT})),
    },
)


@given(bodies=st.lists(REQUEST, min_size=1, max_size=8))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_sequence_of_requests_leaves_a_state_in_which_everything_adds_up(bodies: list[dict[str, Any]]) -> None:
    async def conversation() -> None:
        async with a_real_permit_service() as cluster:
            for body in bodies:
                before = cluster.state()
                answer = await cluster.post(json.dumps(body).encode())
                assert answer.status_code in {200, 400, 404}
                if answer.status_code != 200:
                    assert cluster.state() == before
                assert violations(cluster.growing.state_machine) == []

    anyio.run(conversation)
