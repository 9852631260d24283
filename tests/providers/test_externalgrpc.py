"""The external provider protocol over a real socket: what is sent, what answers mean, TLS, and servers that are wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import grpc
import pytest
import structlog
import trustme
from google.protobuf.duration_pb2 import Duration

from slackwater.adapters.cloud.externalgrpc.client import Tls, open_client
from slackwater.adapters.cloud.externalgrpc.provider import ExternalGrpcProvider
from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.adapters.cloud.externalgrpc.wire import node_pb2
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import NO_OPTIONS, GroupOptions, Instance, InstanceId, NodeGroup
from slackwater.ports.protocols import ProviderError, ProviderErrorKind
from tests.providers.externalgrpc_rig import GROUP, OTHER, a_server
from tests.providers.rig import FIRST_SIZE
from tests.support.externalserver import ExternalServer

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> ExternalServer:
    return a_server()


@asynccontextmanager
async def provider_of(
    server: ExternalServer,
    *,
    seconds: float = 60.0,
    tls: Tls | None = None,
    credentials: grpc.ServerCredentials | None = None,
    defaults: GroupOptions = NO_OPTIONS,
    prices: bool = False,
) -> AsyncIterator[ExternalGrpcProvider]:
    async with server.serving(credentials) as address, open_client(address, timeout_seconds=seconds, tls=tls) as client:
        yield ExternalGrpcProvider(client, defaults=defaults, now=(lambda: 1_800_000_000.5) if prices else None)


@pytest.fixture
async def provider(anyio_backend: str, server: ExternalServer) -> AsyncIterator[ExternalGrpcProvider]:
    async with provider_of(server) as provider:
        yield provider


async def look(provider: ExternalGrpcProvider) -> NodeGroup:
    found = {group.name: group for group in await provider.groups(timeout_seconds=60)}
    return found[GROUP]


async def grow(provider: ExternalGrpcProvider, to: int = FIRST_SIZE + 2) -> None:
    await provider.grow(GROUP, seen=FIRST_SIZE, to=to, timeout_seconds=60)


def an_instance(id_: str, node: str | None = None) -> Instance:
    return Instance(id=InstanceId(id_), state="running", node=None if node is None else NodeName(node))


async def test_growth_is_sent_as_a_difference(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    await grow(provider)
    assert server.asked("NodeGroupIncreaseSize") == [pb.NodeGroupIncreaseSizeRequest(id=GROUP, delta=2)]
    await provider.lower(GROUP, seen=FIRST_SIZE + 2, to=FIRST_SIZE + 1, timeout_seconds=60)
    assert server.asked("NodeGroupDecreaseTargetSize") == [pb.NodeGroupDecreaseTargetSizeRequest(id=GROUP, delta=-1)]


async def test_a_deleted_node_is_named_and_goes_by_its_id_where_it_has_no_name(
    provider: ExternalGrpcProvider, server: ExternalServer
) -> None:
    first, second, _ = server.pools[GROUP].machines
    to_delete = [an_instance(first, "n1"), an_instance(second)]
    await provider.delete(GROUP, to_delete, timeout_seconds=60)
    (request,) = server.asked("NodeGroupDeleteNodes")
    assert request.id == GROUP
    assert [(node.providerID, node.name) for node in request.nodes] == [(first, "n1"), (second, second)]


async def test_an_observation_begins_with_a_refresh_and_asks_each_group_once(
    provider: ExternalGrpcProvider, server: ExternalServer
) -> None:
    await provider.groups(timeout_seconds=60)
    assert [call.name for call in server.calls][:2] == ["Refresh", "NodeGroups"]
    for name in ("NodeGroupTargetSize", "NodeGroupNodes", "NodeGroupTemplateNodeInfo", "NodeGroupGetOptions"):
        assert sorted(request.id for request in server.asked(name)) == [GROUP, OTHER]


async def test_every_call_has_the_configured_deadline_or_the_callers(server: ExternalServer) -> None:
    async with provider_of(server, seconds=200) as provider:
        await provider.groups(timeout_seconds=5000)
        await provider.groups(timeout_seconds=100)
    waits = [call.seconds for call in server.calls]
    half = len(waits) // 2
    # gRPC sends long deadlines in coarse steps, rounded up.
    assert all(110 < wait <= 210 for wait in waits[:half]), waits
    assert all(0 < wait <= 110 for wait in waits[half:]), waits


async def test_a_call_that_takes_longer_than_configured_is_given_up(server: ExternalServer) -> None:
    server.hangs.add("NodeGroupIncreaseSize")
    for seconds in (0.2, 2.0, 20.0):  # the questions before it have to be answered in time, however slow the machine is
        async with provider_of(server, seconds=seconds) as provider:
            with pytest.raises(ProviderError) as caught:
                await provider.grow(GROUP, seen=FIRST_SIZE, to=FIRST_SIZE + 1, timeout_seconds=300)
        if server.asked("NodeGroupIncreaseSize"):
            break
    assert "NodeGroupIncreaseSize: DEADLINE_EXCEEDED" in str(caught.value)
    assert caught.value.kind == "unknown"


@pytest.mark.parametrize(
    ("code", "want"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "out-of-resources"),
        (grpc.StatusCode.NOT_FOUND, "gone"),
        (grpc.StatusCode.FAILED_PRECONDITION, "other"),
        (grpc.StatusCode.PERMISSION_DENIED, "other"),
        (grpc.StatusCode.UNIMPLEMENTED, "other"),
        (grpc.StatusCode.UNKNOWN, "unknown"),
        (grpc.StatusCode.INTERNAL, "unknown"),
        (grpc.StatusCode.UNAVAILABLE, "unknown"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "unknown"),
    ],
)
async def test_what_a_status_says_of_a_growth(
    provider: ExternalGrpcProvider, server: ExternalServer, code: grpc.StatusCode, want: ProviderErrorKind
) -> None:
    server.fail("NodeGroupIncreaseSize", code)
    with pytest.raises(ProviderError, match=f"{code.name}: as the test asked") as caught:
        await grow(provider)
    assert (caught.value.kind, caught.value.group) == (want, GROUP)
    assert len(server.asked("NodeGroupIncreaseSize")) == 1  # never sent again by itself


@pytest.mark.parametrize("name", ["Refresh", "NodeGroups", "NodeGroupTargetSize", "NodeGroupNodes", "NodeGroupGetOptions"])
async def test_where_no_group_can_be_asked_about_the_provider_fails(
    provider: ExternalGrpcProvider, server: ExternalServer, name: str
) -> None:
    server.fail(name, grpc.StatusCode.INTERNAL)
    server.fail(name, grpc.StatusCode.INTERNAL)
    with pytest.raises(ProviderError, match=name):
        await provider.groups(timeout_seconds=60)


@pytest.mark.parametrize("name", ["NodeGroupTargetSize", "NodeGroupNodes", "NodeGroupGetOptions"])
async def test_a_group_that_cannot_be_asked_about_is_unreadable_alone(
    provider: ExternalGrpcProvider, server: ExternalServer, name: str
) -> None:
    server.fail(name, grpc.StatusCode.INTERNAL)
    found = {group.name: group.unreadable for group in await provider.groups(timeout_seconds=60)}
    (bad,) = (group for group, why in found.items() if why)
    assert found[bad].startswith(f"{bad}: {name}: INTERNAL")
    assert len(found) == 2


async def test_a_group_that_does_not_answer_in_time_is_unreadable_alone(
    provider: ExternalGrpcProvider, server: ExternalServer
) -> None:
    server.hangs_about = OTHER
    found = {group.name: group.unreadable for group in await provider.groups(timeout_seconds=2)}
    assert found == {GROUP: "", OTHER: f"{OTHER}: no answer within 1.5 s"}


async def test_what_a_server_need_not_have_is_not_missed(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    server.pools[GROUP].template = None
    group = await look(provider)
    assert (group.template, group.options) == (None, NO_OPTIONS)


async def test_options_are_given_as_defaults_and_taken_as_they_come_back(server: ExternalServer) -> None:
    server.pools[GROUP].options = pb.NodeGroupAutoscalingOptions(
        scaleDownUtilizationThreshold=0.25,
        zeroOrMaxNodeScaling=True,
        scaleDownUnneededDuration=Duration(seconds=90, nanos=500_000_000),
    )
    defaults = GroupOptions(utilization_threshold=0.5, unneeded_time=600, unready_time=1200.25)
    async with provider_of(server, defaults=defaults) as provider:
        group = await look(provider)
    assert group.options == GroupOptions(
        utilization_threshold=0.25,
        gpu_utilization_threshold=0.0,
        all_or_nothing=True,
        ignore_daemon_sets_utilization=False,
        unneeded_time=90.5,
    )
    sent = server.asked("NodeGroupGetOptions")[0].defaults
    assert sent.scaleDownUtilizationThreshold == 0.5
    assert sent.scaleDownUnneededDuration == Duration(seconds=600)
    assert sent.scaleDownUnreadyDuration == Duration(seconds=1200, nanos=250_000_000)
    assert not sent.HasField("MaxNodeProvisionDuration")


async def test_a_template_is_read_from_kubernetes_own_bytes(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    # A v1.Node as the real one is serialised, with fields (creationTimestamp, podCIDR, phase) that are not ours.
    meta = b"\x0a\x01t" + b"\x42\x02\x08\x07" + b"\x5a\x0a\x0a\x04tier\x12\x02gp"
    spec = b"\x0a\x0b10.0.0.0/24" + b"\x1a\x07ext://1" + b"\x2a\x11\x0a\x01k\x12\x00\x1a\x0aNoSchedule"
    cpu, gpu = b"\x0a\x03cpu\x12\x07\x0a\x053900m", b"\x0a\x0envidia.com/gpu\x12\x03\x0a\x012"
    status = b"\x0a\x0a\x0a\x03cpu\x12\x03\x0a\x014"
    status += b"".join(b"\x12" + bytes([len(part)]) + part for part in (cpu, gpu)) + b"\x1a\x07Running"
    raw = b"".join(bytes([tag, len(part)]) + part for tag, part in ((0x0A, meta), (0x12, spec), (0x1A, status)))
    server.lies["NodeGroupTemplateNodeInfo"] = pb.NodeGroupTemplateNodeInfoResponse(nodeBytes=raw)
    template = (await look(provider)).template
    assert template is not None
    assert (template.name, template.labels, template.provider_id) == ("t", {"tier": "gp"}, "ext://1")
    assert template.allocatable == (3900, 0)
    assert template.scalars == (("nvidia.com/gpu", 2),)
    assert [(taint.key, taint.effect) for taint in template.taints] == [("k", "NoSchedule")]


@pytest.mark.parametrize(
    "raw",
    [
        b"no node at all",
        node_pb2.Node(status={"capacity": {"cpu": node_pb2.Quantity(string="many")}}).SerializeToString(),
        b"",
    ],
    ids=["garbage", "no quantity", "empty"],
)
async def test_a_template_that_cannot_be_read_is_none(
    provider: ExternalGrpcProvider, server: ExternalServer, raw: bytes
) -> None:
    server.lies["NodeGroupTemplateNodeInfo"] = pb.NodeGroupTemplateNodeInfoResponse(nodeBytes=raw)
    group = await look(provider)
    assert group.template is None
    assert group.target == FIRST_SIZE


async def test_more_instances_than_the_target_are_listed_as_they_are(
    provider: ExternalGrpcProvider, server: ExternalServer
) -> None:
    server.pools[GROUP].target = 1
    group = await look(provider)
    assert (group.target, len(group.instances)) == (1, FIRST_SIZE)
    with pytest.raises(ProviderError, match="conflict"):
        await grow(provider)
    with pytest.raises(ProviderError, match="limit"):
        await provider.delete(GROUP, group.instances[:1], timeout_seconds=60)
    assert not server.asked("NodeGroupDeleteNodes")


@pytest.mark.parametrize(
    ("name", "lie", "want"),
    [
        ("NodeGroupTargetSize", pb.NodeGroupTargetSizeResponse(targetSize=-1), "got -1, want >= 0"),
        (
            "NodeGroups",
            pb.NodeGroupsResponse(nodeGroups=[pb.NodeGroup(id="a"), pb.NodeGroup(id="a")]),
            "its id 2 times, want it once",
        ),
        (
            "NodeGroups",
            pb.NodeGroupsResponse(nodeGroups=[pb.NodeGroup(id="a", minSize=2, maxSize=1)]),
            "got sizes 2 to 1, want 0 <=",
        ),
    ],
    ids=["negative target", "one id twice", "sizes"],
)
async def test_what_cannot_be_is_an_error(
    provider: ExternalGrpcProvider,
    server: ExternalServer,
    name: str,
    lie: pb.NodeGroupTargetSizeResponse | pb.NodeGroupsResponse,
    want: str,
) -> None:
    server.lies[name] = lie
    with pytest.raises(ProviderError, match=want) as caught:
        await provider.groups(timeout_seconds=60)
    assert caught.value.kind == "other"


async def test_a_group_without_an_id_is_left_out(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    server.lies["NodeGroups"] = pb.NodeGroupsResponse(nodeGroups=[pb.NodeGroup(maxSize=4), pb.NodeGroup(id=GROUP, maxSize=4)])
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            assert [group.name for group in await provider.groups(timeout_seconds=60)] == [GROUP]
    assert [entry["problem"] for entry in logs] == ["NodeGroups: got a group without an id, which is left out"]


async def test_instances_without_an_id_and_doubles_are_left_out(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    server.lies["NodeGroupNodes"] = pb.NodeGroupNodesResponse(
        instances=[pb.Instance(), pb.Instance(id="x"), pb.Instance(id="x")]
    )
    group = await look(provider)
    assert [(instance.id, instance.state) for instance in group.instances] == [("x", "running")]


async def test_a_machine_that_the_server_does_not_know_is_gone(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    server.fail("NodeGroupForNode", grpc.StatusCode.NOT_FOUND)
    await provider.delete(GROUP, [an_instance("external://never")], timeout_seconds=60)
    assert [request.node.providerID for request in server.asked("NodeGroupForNode")] == ["external://never"]
    assert not server.asked("NodeGroupDeleteNodes")


async def test_no_server_is_an_error_in_time(server: ExternalServer) -> None:
    async with server.serving() as address:
        pass
    async with open_client(address, timeout_seconds=60) as client:
        with pytest.raises(ProviderError, match="Refresh: UNAVAILABLE"):
            await ExternalGrpcProvider(client).groups(timeout_seconds=60)


def test_it_works_on_the_event_loop_that_the_service_runs_on(server: ExternalServer) -> None:
    async def talk() -> None:
        async with provider_of(server) as provider:
            await grow(provider)
            server.silent = True
            with pytest.raises(ProviderError, match="unknown"):
                await provider.groups(timeout_seconds=0.1)

    anyio.run(talk, backend_options={"use_uvloop": True})
    assert server.pools[GROUP].target == FIRST_SIZE + 2


# --- TLS --------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def credentials_of(authority: trustme.CA, name: str, *, asks: trustme.CA | None = None) -> grpc.ServerCredentials:
    cert = authority.issue_cert(name)
    chain = b"".join(part.bytes() for part in cert.cert_chain_pems)
    roots = None if asks is None else asks.cert_pem.bytes()
    pairs = [(cert.private_key_pem.bytes(), chain)]
    return grpc.ssl_server_credentials(pairs, root_certificates=roots, require_client_auth=asks is not None)


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def client_files(authority: trustme.CA, folder: Path) -> tuple[str, str]:
    cert = authority.issue_cert("slackwater")
    cert.cert_chain_pems[0].write_to_path(folder / "client.pem")
    cert.private_key_pem.write_to_path(folder / "client.key")
    return str(folder / "client.pem"), str(folder / "client.key")


async def test_a_server_is_verified_by_its_authority(server: ExternalServer, authority: trustme.CA, ca_file: str) -> None:
    credentials = credentials_of(authority, "127.0.0.1")
    async with provider_of(server, tls=Tls(ca_file=ca_file), credentials=credentials) as provider:
        assert (await look(provider)).target == FIRST_SIZE


async def test_a_server_of_another_authority_is_refused(server: ExternalServer, ca_file: str) -> None:
    credentials = credentials_of(trustme.CA(), "127.0.0.1")
    async with provider_of(server, tls=Tls(ca_file=ca_file), credentials=credentials) as provider:
        with pytest.raises(ProviderError, match="UNAVAILABLE"):
            await provider.groups(timeout_seconds=60)
    assert not server.calls


async def test_a_server_of_another_name_is_refused_unless_that_is_the_name(
    server: ExternalServer, authority: trustme.CA, ca_file: str
) -> None:
    credentials = credentials_of(authority, "provider.example.com")
    async with provider_of(server, tls=Tls(ca_file=ca_file), credentials=credentials) as provider:
        with pytest.raises(ProviderError, match="UNAVAILABLE"):
            await provider.groups(timeout_seconds=60)
    assert not server.calls
    tls = Tls(ca_file=ca_file, server_name="provider.example.com")
    async with provider_of(server, tls=tls, credentials=credentials) as provider:
        assert (await look(provider)).target == FIRST_SIZE


async def test_a_server_may_ask_who_we_are(server: ExternalServer, authority: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    credentials = credentials_of(authority, "127.0.0.1", asks=authority)
    async with provider_of(server, tls=Tls(ca_file=ca_file), credentials=credentials) as provider:
        with pytest.raises(ProviderError, match="UNAVAILABLE"):
            await provider.groups(timeout_seconds=60)
    assert not server.calls
    cert, key = client_files(authority, tmp_path)
    tls = Tls(ca_file=ca_file, cert_file=cert, key_file=key)
    async with provider_of(server, tls=tls, credentials=credentials) as provider:
        assert (await look(provider)).target == FIRST_SIZE


async def test_a_file_that_is_not_there_is_named(ca_file: str) -> None:
    with pytest.raises(OSError, match=r"nowhere\.pem"):
        async with open_client("127.0.0.1:1", timeout_seconds=1, tls=Tls(ca_file="nowhere.pem")):
            pass


# --- prices -----------------------------------------------------------------------------------------------------------------


async def test_a_group_has_the_price_of_its_template_for_an_hour(server: ExternalServer) -> None:
    server.price = 0.0960004
    async with provider_of(server, prices=True) as provider:
        found = await provider.groups(timeout_seconds=60)
    assert [group.price_micros for group in found] == [96_000, 96_000]
    asked = server.asked("PricingNodePrice")
    assert len(asked) == len(found)
    assert (asked[0].startTimestamp.seconds, asked[0].endTimestamp.seconds) == (1_800_000_000, 1_800_003_600)
    # Older servers read these.
    assert (asked[0].startTime, asked[0].endTime) == (asked[0].startTimestamp, asked[0].endTimestamp)
    assert (asked[0].node.name, dict(asked[0].node.labels)) == ("template", {"tier": "batch"})


async def test_a_refused_price_is_logged_once(server: ExternalServer) -> None:
    server.price = 0.5
    refusals = [grpc.StatusCode.UNKNOWN] * 4
    server.fail("PricingNodePrice", *refusals)
    with structlog.testing.capture_logs() as logs:
        async with provider_of(server, prices=True) as provider:
            await provider.groups(timeout_seconds=60)
            await provider.groups(timeout_seconds=60)
            assert [group.price_micros for group in await provider.groups(timeout_seconds=60)] == [500_000, 500_000]
    assert sorted(entry["group"] for entry in logs if entry["event"] == "price left as it was") == sorted(server.pools)


async def test_no_price_is_asked_for_where_none_is_wanted(provider: ExternalGrpcProvider, server: ExternalServer) -> None:
    server.price = 1.0
    assert (await look(provider)).price_micros is None
    assert not server.asked("PricingNodePrice")


async def test_a_server_without_prices_is_not_asked_again(server: ExternalServer) -> None:
    async with provider_of(server, prices=True) as provider:
        assert (await look(provider)).price_micros is None
        before = len(server.asked("PricingNodePrice"))
        assert before
        assert (await look(provider)).price_micros is None
    assert len(server.asked("PricingNodePrice")) == before


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), 1e30])
async def test_a_price_that_is_none_stays_as_it_was(server: ExternalServer, price: float) -> None:
    server.price = 0.5
    async with provider_of(server, prices=True) as provider:
        assert (await look(provider)).price_micros == 500_000
        server.price = price
        assert (await look(provider)).price_micros == 500_000


async def test_a_server_that_answers_no_price_holds_up_nothing_else(
    server: ExternalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.adapters.cloud.externalgrpc.provider._PRICES_SECONDS", 0.1)
    server.price = 0.5
    server.hangs.add("PricingNodePrice")
    async with provider_of(server, prices=True) as provider:
        assert (await look(provider)).target == FIRST_SIZE
        server.hangs.clear()
        monkeypatch.setattr("slackwater.adapters.cloud.externalgrpc.provider._PRICES_SECONDS", 60.0)
        server.fail("PricingNodePrice", grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)
        assert (await look(provider)).price_micros is None
        assert (await look(provider)).price_micros == 500_000


# --- generated code ---------------------------------------------------------------------------------------------------------


def test_the_generated_messages_are_up_to_date(tmp_path: Path) -> None:
    import grpc_tools
    from grpc_tools import protoc

    wire = Path("service/src/slackwater/adapters/cloud/externalgrpc/wire")
    included = Path(grpc_tools.__file__).parent / "_proto"
    protos = [str(path) for path in sorted(wire.glob("*.proto"))]
    arguments = ["protoc", "-Iservice/src", f"-I{included}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *protos]
    assert protoc.main(arguments) == 0
    made = tmp_path / wire.relative_to("service/src")
    for name in ("externalgrpc_pb2.py", "externalgrpc_pb2.pyi", "node_pb2.py", "node_pb2.pyi"):
        # The generator's version stands in it, and differs without meaning.
        got, want = _without_version(wire / name), _without_version(made / name)
        assert got == want, f"{name} is out of date: see `wire/__init__.py`"


def _without_version(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line for line in lines if not line.strip().rstrip(",").isdigit() and "Python Version" not in line]
