"""A gRPC client of the provider's server: every call has a deadline, and every failure is a `ProviderError`.

The gRPC status determines the error's kind. After statuses with which the server refuses a call nothing has happened (`gone`,
`out-of-resources`, `other`); after any other the call may have had its effect (`unknown`). There are no retries.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import anyio
import anyio.lowlevel
import grpc
import grpc.aio
from google.protobuf.message import Message

from slackwater.adapters.cloud.externalgrpc.wire import externalgrpc_pb2 as pb
from slackwater.model.nodegroups import GroupName
from slackwater.ports.protocols import ProviderError, ProviderErrorKind

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

SERVICE: Final = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"

_NO: Final[dict[grpc.StatusCode, ProviderErrorKind]] = {
    grpc.StatusCode.NOT_FOUND: "gone",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "out-of-resources",
    **dict.fromkeys(
        (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.ALREADY_EXISTS,
            grpc.StatusCode.PERMISSION_DENIED,
            grpc.StatusCode.UNAUTHENTICATED,
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.ABORTED,
            grpc.StatusCode.OUT_OF_RANGE,
            grpc.StatusCode.UNIMPLEMENTED,
        ),
        "other",
    ),
}
_LARGEST_ANSWER: Final = 64 * 2**20
_LONGEST_DETAIL: Final = 300


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Q, R]):
    """One RPC of the protocol: its name and the types of its messages."""

    name: str
    request: type[Q]
    answer: type[R]


REFRESH: Final = Rpc("Refresh", pb.RefreshRequest, pb.RefreshResponse)
NODE_GROUPS: Final = Rpc("NodeGroups", pb.NodeGroupsRequest, pb.NodeGroupsResponse)
GROUP_FOR_NODE: Final = Rpc("NodeGroupForNode", pb.NodeGroupForNodeRequest, pb.NodeGroupForNodeResponse)
TARGET_SIZE: Final = Rpc("NodeGroupTargetSize", pb.NodeGroupTargetSizeRequest, pb.NodeGroupTargetSizeResponse)
INCREASE_SIZE: Final = Rpc("NodeGroupIncreaseSize", pb.NodeGroupIncreaseSizeRequest, pb.NodeGroupIncreaseSizeResponse)
DECREASE_SIZE: Final = Rpc(
    "NodeGroupDecreaseTargetSize", pb.NodeGroupDecreaseTargetSizeRequest, pb.NodeGroupDecreaseTargetSizeResponse
)
DELETE_NODES: Final = Rpc("NodeGroupDeleteNodes", pb.NodeGroupDeleteNodesRequest, pb.NodeGroupDeleteNodesResponse)
NODES: Final = Rpc("NodeGroupNodes", pb.NodeGroupNodesRequest, pb.NodeGroupNodesResponse)
TEMPLATE: Final = Rpc("NodeGroupTemplateNodeInfo", pb.NodeGroupTemplateNodeInfoRequest, pb.NodeGroupTemplateNodeInfoResponse)
NODE_PRICE: Final = Rpc("PricingNodePrice", pb.PricingNodePriceRequest, pb.PricingNodePriceResponse)
OPTIONS: Final = Rpc("NodeGroupGetOptions", pb.NodeGroupAutoscalingOptionsRequest, pb.NodeGroupAutoscalingOptionsResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS settings of the connection: paths of PEM files, and the server's name.

    Without `ca_file` the default root certificates are trusted. `server_name` is the name that the server's certificate must
    have; None: the host of the address.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


class Client:
    """Makes calls on one channel; create it with `open_client`. `timeout_seconds` limits each call."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_seconds: float) -> None:
        self._channel = channel
        self._timeout_seconds = timeout_seconds

    async def ask(self, rpc: Rpc[Q, R], request: Q, *, group: GroupName | None = None) -> R:
        """Makes one call. `group` is the node group that an error names.

        :raises ProviderError: the call failed.
        """
        answer = await self.ask_unless(rpc, request, (), group=group)
        assert answer is not None
        return answer

    async def ask_unless(
        self, rpc: Rpc[Q, R], request: Q, codes: Collection[grpc.StatusCode], *, group: GroupName | None = None
    ) -> R | None:
        """Makes one call; returns None if the server answers with one of `codes`.

        :raises ProviderError: the call failed with another status.
        """
        call = self._channel.unary_unary(
            f"/{SERVICE}/{rpc.name}",
            request_serializer=rpc.request.SerializeToString,
            response_deserializer=rpc.answer.FromString,
        )
        try:
            # gRPC sends the timeout to the server, so that it can give up too.
            left = anyio.current_effective_deadline() - anyio.current_time()
            answer: R = await call(request, timeout=max(min(self._timeout_seconds, left), 0.0))
        except anyio.get_cancelled_exc_class():
            # gRPC raises its own CancelledError, which anyio's cancelled scope would not recognize. This raises anyio's.
            await anyio.lowlevel.checkpoint_if_cancelled()
            raise
        except grpc.aio.AioRpcError as error:
            code = error.code()
            if code in codes:
                return None
            detail = f"{rpc.name}: {code.name}: {(error.details() or '')[:_LONGEST_DETAIL]}"
            raise ProviderError(_NO.get(code, "unknown"), group, detail) from error
        return answer


@asynccontextmanager
async def open_client(address: str, *, timeout_seconds: float, tls: Tls | None = None) -> AsyncIterator[Client]:
    """Opens a channel to the server at `address` (host:port) and yields a client. The first call connects.

    :raises OSError: a file of `tls` cannot be read.
    """
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", _LARGEST_ANSWER),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]
    if tls is None:
        channel = grpc.aio.insecure_channel(address, options=options)
    else:
        if tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(_read(tls.ca_file), _read(tls.key_file), _read(tls.cert_file))
        channel = grpc.aio.secure_channel(address, credentials, options=options)
    async with channel:
        yield Client(channel, timeout_seconds=timeout_seconds)


def _read(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
