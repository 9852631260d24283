"""A wire to the API server that can be made slow: answers and watch events arrive late, in their order and unharmed."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import yaml
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

#: How soon a shorter delay holds for what is on its way.
_LOOK_EVERY_SECONDS = 0.05
_ENDED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class SlowWire:
    """`delay_seconds` holds for every chunk from the API server that is on its way, from now on; `kubeconfig` leads over this
    wire."""

    def __init__(self, kubeconfig: Path, api_port: int) -> None:
        self.kubeconfig = kubeconfig
        self.delay_seconds = 0.0
        self._api_port = api_port

    async def carry(self, client: anyio.abc.ByteStream) -> None:
        """One connection, until either side ends it."""
        server = await anyio.connect_tcp("127.0.0.1", self._api_port)
        late, arriving = anyio.create_memory_object_stream[tuple[float, bytes]](math.inf)
        async with client, server, late, arriving, anyio.create_task_group() as group:
            group.start_soon(self._forward, client, server)
            group.start_soon(self._collect, server, late)
            await self._deliver(arriving, client)
            group.cancel_scope.cancel()

    async def _forward(self, source: anyio.abc.ByteStream, target: anyio.abc.ByteStream) -> None:
        with suppress(*_ENDED):
            while True:
                await target.send(await source.receive(1 << 20))

    async def _collect(self, server: anyio.abc.ByteStream, late: MemoryObjectSendStream[tuple[float, bytes]]) -> None:
        """Each chunk with the time at which it came: one is not later for those that came just before it."""
        with late, suppress(*_ENDED):
            while True:
                chunk = await server.receive(1 << 20)
                late.send_nowait((anyio.current_time(), chunk))

    async def _deliver(self, arriving: MemoryObjectReceiveStream[tuple[float, bytes]], client: anyio.abc.ByteStream) -> None:
        with suppress(*_ENDED):
            async for came_at, chunk in arriving:
                while (left := came_at + self.delay_seconds - anyio.current_time()) > 0:  # noqa: ASYNC110  # the delay may change
                    await anyio.sleep(min(left, _LOOK_EVERY_SECONDS))
                await client.send(chunk)


@asynccontextmanager
async def slow_wire(kubeconfig: Path, folder: Path) -> AsyncIterator[SlowWire]:
    """A wire to the server of `kubeconfig`, as quick as none at first. Raw TCP: certificates are checked as ever."""
    document: dict[str, Any] = yaml.safe_load(await anyio.Path(kubeconfig).read_text())
    cluster = document["clusters"][0]["cluster"]
    api_port = int(cluster["server"].rpartition(":")[2])
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        cluster["server"] = f"https://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        slow = anyio.Path(folder / "slow.kubeconfig")
        await slow.write_text(yaml.safe_dump(document))
        wire = SlowWire(Path(slow), api_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, wire.carry)
            yield wire
            group.cancel_scope.cancel()
