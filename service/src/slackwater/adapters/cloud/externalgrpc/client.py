"""A gRPC channel to the provider's server: each call has a deadline, and each failure is a `ProviderError`.

The status decides the kind of the error. If the server has refused, nothing has happened. If it has not answered, or reports an
internal error, the change may have happened. There are no retries.
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
    """One method of the protocol."""

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
OPTIONS: Final = Rpc("NodeGroupGetOptions", pb.NodeGroupAutoscalingOptionsRequest, pb.NodeGroupAutoscalingOptionsResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of PEM files. Without `ca_file` the system's CAs are used. `server_name` None: the host of the address."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None


class Client:
    """Made by `open_client`. `timeout_seconds` is the limit of every call."""

    def __init__(self, channel: grpc.aio.Channel, *, timeout_seconds: float) -> None:
        self._channel = channel
        self._timeout_seconds = timeout_seconds

    async def ask(self, rpc: Rpc[Q, R], request: Q, *, group: GroupName | None = None) -> R:
        """Calls a method. Raises `ProviderError`."""
        answer = await self.ask_unless(rpc, request, (), group=group)
        assert answer is not None
        return answer

    async def ask_unless(
        self, rpc: Rpc[Q, R], request: Q, codes: Collection[grpc.StatusCode], *, group: GroupName | None = None
    ) -> R | None:
        """Calls a method. None if the server answers with one of `codes`. Raises `ProviderError`."""
        call = self._channel.unary_unary(
            f"/{SERVICE}/{rpc.name}",
            request_serializer=rpc.request.SerializeToString,
            response_deserializer=rpc.answer.FromString,
        )
        try:
            # The deadline is sent, so that the server knows how long the caller waits.
            left = anyio.current_effective_deadline() - anyio.current_time()
            answer: R = await call(request, timeout=max(min(self._timeout_seconds, left), 0.0))
        except anyio.get_cancelled_exc_class():
            # gRPC raises one of its own, in which the scope that was cancelled would not know its own again.
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
    """Opens a client of the server at `address` (host:port), without connecting yet. Raises `OSError` for an
    unreadable file."""
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
