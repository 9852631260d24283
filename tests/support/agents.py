"""The agents' listener over a permit service of the tests, in the same process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx
import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.server import ServerState

from slackwater.adapters.http.agents import AgentLimits, AgentsApp, CallerAuthenticator
from slackwater.adapters.http.application import ConnectionLimiter
from slackwater.adapters.http.http_server import DirectProtocol
from slackwater.controllers.permits.metrics import AgentMetrics
from slackwater.ports.protocols import PermitServing
from tests.support.permitservice import FormulaPermitService, amounts


@dataclass
class Ready:
    unlisted: Sequence[str] = ()

    @property
    def ready(self) -> bool:
        return not self.unlisted


@dataclass
class AgentService:
    """What a test talks to: node `n` has 10 CPUs and 40 GiB, VM `default/vm` on it holds 1 CPU and 4 GiB."""

    app: AgentsApp
    permit_service: FormulaPermitService
    http: httpx.AsyncClient
    registry: CollectorRegistry
    readiness: Ready
    url: str

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        """`body`: bytes as they are, anything else as JSON."""
        if isinstance(body, bytes):
            return await self.http.post("/", content=body, headers=headers)
        return await self.http.post("/", json=body, headers=headers)

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def a_request(*, version: int = 7, cpu: Any = 1, mem: Any = "4Gi", name: str = "vm", **more: Any) -> dict[str, Any]:
    """A request of that version; `more` replaces or adds top-level keys, None removes one."""
    body: dict[str, Any] = {
        "protoVersion": version,
        "pod": {"namespace": "default", "name": name},
        "computeUnit": {"vCPUs": "250m", "mem": "1Gi" if version > 5 else 1},
        "resources": {"vCPUs": cpu, "mem": mem},
        "lastPermit": None,
        "metrics": None,
    }
    return {key: value for key, value in {**body, **more}.items() if key not in more or value is not None}


def a_full_permit_service() -> FormulaPermitService:
    permit_service = FormulaPermitService()
    permit_service.has_node("n", milli_cpu=10_000, memory=40 << 30)
    permit_service.has_pod("vm", on="n", reserved=amounts(1000, 4 << 30))
    return permit_service


#: Of a machine that stands still for a while nothing is thought to be late.
PATIENT = AgentLimits(body_seconds=60.0, answer_seconds=60.0)


@asynccontextmanager
async def an_agent_service(
    *,
    permit_service: PermitServing | None = None,
    limits: AgentLimits | None = None,
    authenticator: CallerAuthenticator | None = None,
) -> AsyncIterator[AgentService]:
    registry, readiness, own = CollectorRegistry(), Ready(), a_full_permit_service()
    app = AgentsApp(
        permit_service=permit_service or own,
        readiness=readiness,
        metrics=AgentMetrics(registry, lambda: own.totals),
        authenticator=authenticator,
        limits=limits or PATIENT,
    )
    async with _listening(app) as url, httpx.AsyncClient(base_url=url, verify=False, trust_env=False, timeout=60) as http:
        yield AgentService(app, own, http, registry, readiness, url)


@asynccontextmanager
async def _listening(app: AgentsApp) -> AsyncIterator[str]:
    """The listener's own protocol on a socket. Without the server around it, that a test need not wait for its end."""
    config, state = uvicorn.Config(cast("Any", app), log_config=None, timeout_keep_alive=600), ServerState()
    connection_limiter = ConnectionLimiter(10_000)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: DirectProtocol(config, state, {}, enter=connection_limiter.enter), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.shutdown()
        with anyio.CancelScope(shield=True), anyio.fail_after(60):
            while state.connections:
                await anyio.lowlevel.checkpoint()
