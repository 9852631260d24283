"""The ops listener: health, metrics, state, explanations and the dashboard, all read-only; what a person may stop (`drains`),
and what-if."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any

import anyio
import anyio.to_thread
import msgspec
from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from slackwater import __version__
from slackwater.edge.web.drains import Answer, add_drains
from slackwater.edge.web.explain import add_explain
from slackwater.edge.web.explain import nobody as nobody_explains
from slackwater.edge.web.extender import Readiness
from slackwater.edge.web.node_metrics import node_metrics
from slackwater.edge.web.whatif import add_what_if, nobody
from slackwater.model.ids import Instant, NodeName
from slackwater.run.ports import Explain, WhatIf
from slackwater.world import dump
from slackwater.world.world import World

_encode = msgspec.json.Encoder().encode
#: The page loads nothing from anywhere and runs only its own script.
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Status(BaseModel):
    """What `/statusz` answers."""

    model_config = ConfigDict(frozen=True)

    version: Annotated[str, Field(description="Version of the service.")]
    ready: Annotated[bool, Field(description="Everything was listed once.")]
    waitingFor: Annotated[list[str], Field(description="Resource types not listed yet.")]
    generation: Annotated[int, Field(description="Counts the changes of the picture.")]
    nodes: int
    pods: int
    claims: Annotated[int, Field(description="Pods that count on a node.")]
    unconfirmed: Annotated[int, Field(description="Reservations that the watch has not shown yet.")]
    holds: int
    denials: int
    schedulingAttempts: int
    schedulingFailures: int
    adopted: Annotated[int, Field(description="Pods found bound that this service did not bind.")]
    settings: Annotated[dict[str, Any], Field(description="The configuration in force.")]
    settingsProblem: Annotated[str | None, Field(description="Why a changed configuration file was refused.")]


class SettingsView:
    """The configuration as the ops listener shows it; the wiring keeps it true."""

    def __init__(self, in_force: dict[str, Any]) -> None:
        self.in_force = in_force
        self.problem: str | None = None


def ops_app(
    *,
    world: World,
    readiness: Readiness,
    registry: CollectorRegistry,
    settings: SettingsView,
    clock: Callable[[], Instant],
    autoscaler: Callable[[], dict[str, Any] | None] = lambda: None,
    cancel_drain: Callable[[NodeName], Answer] = lambda _: "none",
    what_if: WhatIf = nobody,
    explain: Explain = nobody_explains,
    certified: bool = False,
) -> FastAPI:
    """The ASGI application. `autoscaler` gives its last loop as JSON values, None where it does not run. `certified`: callers
    have shown a client certificate."""
    app = FastAPI(title="Slackwater ops", version=__version__, docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    _add_health(app, readiness)
    _add_state(app, world, readiness, _Told(settings=settings, autoscaler=autoscaler), clock)
    _add_dashboard(app)
    add_drains(app, cancel_drain, certified=certified)
    add_explain(app, explain, ready=lambda: readiness.ready)
    add_what_if(app, what_if, ready=lambda: readiness.ready, certified=certified)

    @app.get("/metrics", response_class=PlainTextResponse, summary="Prometheus metrics")
    async def metrics() -> Response:
        # On the loop: the collectors read the world, which changes nowhere else.
        body = generate_latest(registry) + await node_metrics(world)
        return Response(body, media_type=CONTENT_TYPE_LATEST)

    return app


def _add_health(app: FastAPI, readiness: Readiness) -> None:
    @app.get("/livez", response_class=PlainTextResponse, summary="200 while the event loop answers")
    async def livez() -> str:
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, summary="200 once everything was listed, 503 before")
    @app.get("/healthz", response_class=PlainTextResponse, summary="As /readyz")
    async def readyz(response: Response) -> str:
        if readiness.ready:
            return "ok\n"
        response.status_code = 503
        return f"waiting for the first list of: {', '.join(readiness.unlisted)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What the state tells of beside the world."""

    settings: SettingsView
    autoscaler: Callable[[], dict[str, Any] | None]


def _add_state(app: FastAPI, world: World, readiness: Readiness, told: _Told, clock: Callable[[], Instant]) -> None:
    # One at a time: a dump of a large cluster takes a second of one thread, and as much memory again as the state.
    one_dump = anyio.CapacityLimiter(1)

    @app.get("/dumpstate", summary="The whole state, sorted, integers only (milliCPU, bytes)")
    async def dumpstate() -> Response:
        async with one_dump:
            taken = dump.take(world, clock())
            more = {"autoscaler": told.autoscaler(), "configuration": told.settings.in_force}

            def encoded() -> bytes:
                return _encode({**dump.document(taken), **more})

            return Response(await anyio.to_thread.run_sync(encoded), media_type="application/json")

    @app.get("/statusz", summary="A short state of the service")
    async def statusz() -> Status:
        return Status(
            version=__version__,
            ready=readiness.ready,
            waitingFor=list(readiness.unlisted),
            generation=world.generation,
            nodes=len(world.nodes),
            pods=len(world.pods),
            claims=len(world.claims),
            unconfirmed=world.claims.unconfirmed(),
            holds=len(world.holds),
            denials=len(world.denials),
            schedulingAttempts=world.tally.attempts,
            schedulingFailures=world.tally.failures,
            adopted=world.tally.adopted,
            settings=told.settings.in_force,
            settingsProblem=told.settings.problem,
        )


def _add_dashboard(app: FastAPI) -> None:
    page = resources.files("slackwater.edge.web").joinpath("dashboard.html").read_text("utf-8")
    script = resources.files("slackwater.edge.web").joinpath("dashboard.js").read_text("utf-8")

    @app.get("/", response_class=HTMLResponse, summary="The dashboard")
    async def dashboard() -> HTMLResponse:
        return HTMLResponse(page, headers=_PAGE_HEADERS)

    @app.get("/dashboard.js", summary="The dashboard's script")
    async def dashboard_script() -> Response:
        return Response(script, media_type="text/javascript; charset=utf-8", headers=_PAGE_HEADERS)
