"""The agents' listener over a desk of the tests, in the same process."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from slackwater.edge.web.agent_metrics import AgentMetrics
from slackwater.edge.web.agents import AgentLimits, Agents, Gatekeeper
from slackwater.run.ports import PermitDesk
from tests.support.desk import FormulaDesk, amounts


@dataclass
class Ready:
    unlisted: Sequence[str] = ()

    @property
    def ready(self) -> bool:
        return not self.unlisted


@dataclass
class AgentService:
    """What a test talks to: node `n` has 10 CPUs and 40 GiB, VM `default/vm` on it holds 1 CPU and 4 GiB."""

    app: Agents
    desk: FormulaDesk
    http: httpx.AsyncClient
    registry: CollectorRegistry
    readiness: Ready

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


def a_full_desk() -> FormulaDesk:
    desk = FormulaDesk()
    desk.has_node("n", milli_cpu=10_000, memory=40 << 30)
    desk.has_pod("vm", on="n", reserved=amounts(1000, 4 << 30))
    return desk


@asynccontextmanager
async def an_agent_service(
    *, desk: PermitDesk | None = None, limits: AgentLimits | None = None, gatekeeper: Gatekeeper | None = None
) -> AsyncIterator[AgentService]:
    registry, readiness, own = CollectorRegistry(), Ready(), a_full_desk()
    app = Agents(
        desk=desk or own,
        readiness=readiness,
        metrics=AgentMetrics(registry),
        gatekeeper=gatekeeper,
        limits=limits or AgentLimits(),
    )
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agents") as http:
        yield AgentService(app, own, http, registry, readiness)
