"""The whole service, as `serve` runs it, on the sandbox cluster and over real sockets."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import anyio
import httpx
import msgspec

from slackwater.adapters.api_calls import ApiPort
from slackwater.app.process import serve
from slackwater.app.settings import Settings
from slackwater.app.wiring import Service
from slackwater.ports.clock import unix_time
from slackwater.sandbox.embedded.cluster import Sandbox
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded_demo import EmbeddedApi
from slackwater.sandbox.free_ports import FreePorts
from tests.support.garbage import no_freezing
from tests.support.waiting import until

LISTENERS = ("extender", "agents", "ops")
_SECONDS = 120.0


@dataclass
class Whole:
    """What a test talks to."""

    settings: Settings
    sandbox: ApiServer
    running: Service
    ops: httpx.AsyncClient

    def url(self, listener: str) -> str:
        section = getattr(self.settings.listeners, listener)
        return f"{'http' if section.tls is None else 'https'}://{section.address}"

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """In the sandbox' API server."""
        answer = self.sandbox.request("POST", path, body=msgspec.json.encode(body))
        assert answer.status == 201, answer.body
        return dict(msgspec.json.decode(answer.body))

    async def state(self) -> dict[str, Any]:
        """All of `/dumpstate` but for the count of changes, which ticks move."""
        answer = await self.ops.get("/dumpstate")
        assert answer.status_code == 200, answer.text
        return {key: value for key, value in answer.json().items() if key != "generation"}

    async def until(self, condition: Callable[[], bool]) -> None:
        """TimeoutError if it does not come true."""
        await until(condition, seconds=_SECONDS)


@asynccontextmanager
async def a_whole_service(
    given: Mapping[str, Any] | None = None, *, ops: Mapping[str, Any] | None = None, config: Path | None = None
) -> AsyncIterator[Whole]:
    """`given` are settings without addresses; `ops` are options of the client of the ops listener."""
    rng = Random(7)
    sandbox = Sandbox(rng=rng, wall=unix_time)
    said: dict[str, Any] = dict(given or {})
    ports = FreePorts(SystemRandom())  # other processes look for some at the same time
    said["listeners"] = {
        name: {"address": f"127.0.0.1:{ports.take()}", **said.get("listeners", {}).get(name, {})} for name in LISTENERS
    }
    settings = Settings.model_validate(said)
    ready, running = anyio.Event(), []

    async def present(found: Service) -> None:
        running.append(found)
        ready.set()

    path = None if config is None else str(config)
    with no_freezing():
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.run)
            group.start_soon(
                partial(serve, settings, config_path=path, kubeconfig=None, api=_open(sandbox.api), on_ready=present)
            )
            with anyio.fail_after(_SECONDS):
                await ready.wait()
            scheme = "http" if settings.listeners.ops.tls is None else "https"
            base = f"{scheme}://{settings.listeners.ops.address}"
            async with httpx.AsyncClient(base_url=base, timeout=_SECONDS, **{"verify": False, **(ops or {})}) as client:
                yield Whole(settings, sandbox.api, running[0], client)
            group.cancel_scope.cancel()


@asynccontextmanager
async def _open(server: ApiServer) -> AsyncIterator[ApiPort]:
    yield EmbeddedApi(server)
