"""The ops listener's ASGI application: health, metrics, status, state dump, explanations, history, dashboard, what-if, drains,
report log.

Everything but `POST /drains/{node}/cancel` only reads the state, and a shadow refuses that. `callers` decides who may ask, and
how often.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import anyio
import anyio.to_thread
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse
from msgspec import Meta, to_builtins
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from slackwater.adapters.http.answers import AnsweringApp, Refused, described, encoded
from slackwater.adapters.http.callers import FORBIDDEN_ANSWER, OpsThrottle, OwnNames, check_caller
from slackwater.adapters.http.certificates import Certificates
from slackwater.adapters.http.dashboard.routes import OpenStreams, Story, add_pages, add_series, add_stream
from slackwater.adapters.http.dashboard.update_frames import Frames
from slackwater.adapters.http.questions import add_explain, add_history, add_what_if
from slackwater.adapters.http.report_log import add_report
from slackwater.adapters.http.state_metrics import node_metrics
from slackwater.adapters.http.status import EventSourceStatus, SettingsView, Status, StatusOf, add_status
from slackwater.controllers.leadership.metrics import LeaderStatus
from slackwater.explain.findings import Explanation
from slackwater.model.authority import SHADOW
from slackwater.model.history import PastOfObject
from slackwater.model.ids import Instant, NodeName
from slackwater.model.json_answer import JsonAnswer, written
from slackwater.model.pauses import pause_text
from slackwater.ports.protocols import Explain, HistoryQuery, Readiness, ReportLog, WhatIf
from slackwater.ports.whatif_answers import ConsolidationAnswer, PlacementLine, ScaleDownAnswer, ScaleUpAnswer
from slackwater.runtime import dump
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.dashboard.series import SeriesAnswer
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.dump_answer import State
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol import __version__

#: The result of cancelling a drain. cancelled: the drain is being rolled back. too-late: the provider was already asked to
#: delete the node. none: the node is not being drained.
CancelResult = Literal["cancelled", "too-late", "none"]

#: Of the status, what the dashboard does not show.
_NOT_SHOWN: Final = frozenset({"settings", "generation", "uptimeSeconds"})
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class Cancelled(JsonAnswer, frozen=True, kw_only=True):
    """The answer to a cancelled drain."""

    node: Annotated[str, Meta(description="The node's name.")]
    answer: Annotated[Literal["cancelled"], Meta(description="Its removal is being rolled back.")] = written("cancelled")


def add_drains(app: FastAPI, cancel: Callable[[NodeName], CancelResult], *, shadow: bool = False) -> None:
    """Adds the route that cancels the drain of a node."""

    @app.post(
        "/drains/{node}/cancel",
        summary="Stop the removal of a node and roll it back",
        response_class=Response,
        responses={
            200: described(Cancelled),
            _NOT_FOUND: {"description": "The node is not being removed."},
            _CONFLICT: {"description": "Too late: its provider was asked to delete it. Or the service is a shadow."},
        },
    )
    async def cancel_drain(node: str, request: Request) -> Response:
        check_caller(request)
        if shadow:
            raise HTTPException(_CONFLICT, SHADOW)
        answer = cancel(NodeName(node))
        if answer == "none":
            raise HTTPException(_NOT_FOUND, f"node {node}: is not being removed")
        if answer == "too-late":
            raise HTTPException(_CONFLICT, f"node {node}: too late, its provider was asked to delete it")
        return encoded(Cancelled(node=node))


_ANSWERS: Final = (
    Refused,
    Cancelled,
    Status,
    State,
    SeriesAnswer,
    Story,
    Explanation,
    PastOfObject,
    PlacementLine,
    ConsolidationAnswer,
    ScaleDownAnswer,
    ScaleUpAnswer,
)


def ops_app(
    *,
    state_machine: StateMachine,
    readiness: Readiness,
    registry: CollectorRegistry,
    settings: SettingsView,
    clock: Callable[[], Instant],
    wall: Callable[[], float],
    autoscaler: Callable[[], dict[str, Any] | None],
    event_sources: Callable[[], Mapping[str, EventSourceStatus]],
    leader: Callable[[], LeaderStatus],
    decision_log: DecisionLog,
    listeners: OpenStreams,
    cancel_drain: Callable[[NodeName], CancelResult],
    what_if: WhatIf,
    explain: Explain,
    what_happened: HistoryQuery,
    report_log: ReportLog | None,
    node_use: Callable[[], NodeUse | None],
    certificates: Mapping[str, Certificates],
    shadow: bool = False,
    assumed: str = "",
) -> FastAPI:
    """Creates the ASGI application.

    `autoscaler` returns the last loop as JSON values, None if it does not run. The caller closes `listeners`, the open streams
    of dashboards, at shutdown, and runs the dashboard's observer, its `state.observer`. `certificates`: by listener with TLS.
    `node_use`: what nodes use, None if not known. `shadow`: nothing is written. `assumed`: what every page says is assumed.
    """
    titles = {"title": "Slackwater ops", "version": __version__, "docs_url": None, "redoc_url": None}
    app = AnsweringApp(_ANSWERS, openapi_url="/openapi.json", responses=FORBIDDEN_ANSWER, **titles)
    app.add_middleware(OwnNames)
    _add_health(app, readiness, "ok\n" if not shadow else f"ok\n{SHADOW}\n")
    status = StatusOf(
        state_machine=state_machine,
        readiness=readiness,
        settings=settings,
        clock=clock,
        began=clock(),
        autoscaler=autoscaler,
        event_sources=event_sources,
        leader=leader,
        certificates=certificates,
        shadow=shadow,
    )
    _add_dump(app, status)
    add_status(app, status)
    always = (*(("Shadow: nothing is written",) if shadow else ()), *((f"Assumed: {assumed}",) if assumed else ()))
    add_pages(app, always)
    _add_dashboard(app, status, decision_log, listeners, node_use=node_use, wall=wall)
    add_drains(app, cancel_drain, shadow=shadow)
    add_explain(app, explain, ready=lambda: readiness.ready, notices=lambda: (pause_text(state_machine.pauses), *always))
    add_history(app, what_happened)
    add_report(app, report_log)
    add_what_if(app, what_if, ready=lambda: readiness.ready)
    _add_metrics(app, state_machine, registry)
    app.add_middleware(OpsThrottle)
    return app


def _add_dashboard(
    app: FastAPI,
    status: StatusOf,
    decision_log: DecisionLog,
    listeners: OpenStreams,
    *,
    node_use: Callable[[], NodeUse | None],
    wall: Callable[[], float],
) -> None:
    state_machine, clock, about = status.state_machine, status.clock, partial(_about, status)
    observer = DashboardObserver(state_machine, decision_log, about, node_use=node_use, clock=clock, wall=wall)
    add_series(app, observer)
    frames = Frames(state_machine, observer, about=about, clock=clock, wall=wall)
    add_stream(app, frames, listeners, ready=lambda: status.readiness.ready)
    app.state.observer = observer


def _add_metrics(app: FastAPI, state_machine: StateMachine, registry: CollectorRegistry) -> None:
    @app.get("/metrics", response_class=PlainTextResponse, summary="Prometheus metrics")
    async def metrics() -> Response:
        # On the event loop, not in a thread: the collectors read the state machine, which changes on the event loop.
        body = generate_latest(registry) + await node_metrics(state_machine)
        return Response(body, media_type=CONTENT_TYPE_LATEST)


def _add_health(app: FastAPI, readiness: Readiness, well: str) -> None:
    @app.get("/livez", response_class=PlainTextResponse, summary="200 while the event loop answers")
    async def livez() -> str:
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse, summary="200 once everything was listed, 503 before")
    @app.get("/healthz", response_class=PlainTextResponse, summary="As /readyz")
    async def readyz(response: Response) -> str:
        if readiness.ready:
            return well
        response.status_code = 503
        return f"waiting for the first list of: {', '.join(readiness.unlisted)}\n"


def _add_dump(app: FastAPI, of: StatusOf) -> None:
    # One dump at a time: that of a large cluster takes a second of one thread, and as much memory as the state.
    one_dump = anyio.CapacityLimiter(1)

    @app.get(
        "/dumpstate",
        summary="The whole state, sorted, integers only (milliCPU, bytes)",
        response_class=Response,
        responses={200: described(State)},
    )
    async def dumpstate() -> Response:
        async with one_dump:
            taken = dump.Dump(of.state_machine, of.clock())
            answer = partial(dump.state_of, taken, autoscaler=of.autoscaler(), configuration=of.settings.in_force)
            return await anyio.to_thread.run_sync(lambda: encoded(answer()))


def _about(status: StatusOf) -> dict[str, Any]:
    """Returns the sections of the dashboard that do not come from the state machine.

    The fields of the status that the dashboard does not show are left out.
    """
    return {
        "status": {key: value for key, value in to_builtins(status()).items() if key not in _NOT_SHOWN},
        "autoscaler": status.autoscaler(),
    }
