"""Forwards a port of loopback to a port of a Pod, through the API server's subresource `portforward`, as kubectl does.

Each connection to the local port is one WebSocket of the protocol `v4.channel.k8s.io`: the first byte of a message names the
channel, 0 for data and 1 for errors, and the first message of a channel is the port. The kubelet connects inside the Pod's
network, so listeners on the Pod's loopback are reached, and NetworkPolicies do not apply.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import aiohttp
import anyio
from anyio.abc import SocketAttribute, SocketStream

from slackwater.adapters.kube.client import KubeClient
from slackwater.adapters.kube.errors import KubeError, StatusError
from slackwater.adapters.kube.resource_type import PODS_PATH, object_path
from slackwater.model.ids import PodKey

_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = b"\0"
_ERRORS: Final = 1
_PORT_BYTES: Final = 2


class ForwardedPort:
    """A local port that leads to a port of a Pod. `problem` is why the last connection failed; "" if it did not. `forbidden`:
    the account may not forward ports."""

    def __init__(self, client: KubeClient, pod: PodKey, port: int) -> None:
        self._client = client
        self._path = f"{object_path(PODS_PATH, pod)}/portforward"
        self._remote = port
        self.port = 0
        self.problem = ""
        self.forbidden = False

    async def carry(self, local: SocketStream) -> None:
        """Carries one connection until either side closes it. Never raises; a failure is noted in `problem`."""
        params = {"ports": str(self._remote)}
        try:
            async with (
                local,
                self._client.websocket(self._path, params=params, protocol=_PROTOCOL) as remote,
                anyio.create_task_group() as both,
            ):
                both.start_soon(_send, local, remote, both.cancel_scope)
                self.problem = await _receive(local, remote)
                both.cancel_scope.cancel()
        except KubeError as error:
            self.problem = str(error)
            self.forbidden = isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN


async def _receive(local: SocketStream, remote: aiohttp.ClientWebSocketResponse) -> str:
    """Hands on what the Pod sends, until either side closes. Returns the kubelet's error, "" if there is none."""
    begun = set()
    async for message in remote:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            return f"got a message of type {message.type.name}, want binary ones"
        channel, data = message.data[0], message.data[1:]
        if channel not in begun:  # the first two bytes are the port
            begun.add(channel)
            data = data[_PORT_BYTES:]
        if channel == _ERRORS and data:
            return str(data.decode(errors="replace").strip())
        if data:
            try:
                await local.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                break  # the local side has closed the connection
    return ""


async def _send(local: SocketStream, remote: aiohttp.ClientWebSocketResponse, scope: anyio.CancelScope) -> None:
    try:
        async for data in local:
            await remote.send_bytes(_DATA + data)
    except (anyio.BrokenResourceError, aiohttp.ClientError):
        pass
    scope.cancel()


@asynccontextmanager
async def forward_port(client: KubeClient, pod: PodKey, port: int) -> AsyncIterator[ForwardedPort]:
    """Opens a port of loopback that leads to `port` of the Pod while the context lasts."""
    forwarded = ForwardedPort(client, pod, port)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as root:
        forwarded.port = listener.extra(SocketAttribute.local_port)
        root.start_soon(listener.serve, forwarded.carry)
        try:
            yield forwarded
        finally:
            root.cancel_scope.cancel()
