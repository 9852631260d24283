"""The questions on the ops listener that others answer: `GET /explain/...`, `GET /history/...` and `POST /simulate/...`.

- `add_explain`: why is a pod, node or other object as it is, and what would help (package `explain`)?
- `add_history`: what happened to a pod, to a node or in the cluster, also before a restart or a hand-over?
- `add_what_if`: what would placement, scale-up or scale-down do on the present state with changes? JSON body ->
  `ports.protocols.Supposed` -> the JSON that `slackwater simulate` prints. `callers` decides who may ask; size and number of
  bodies in memory are bounded.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import anyio
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slackwater.adapters.http.answers import JSON, JSON_LINES, Refused, described, encoded
from slackwater.adapters.http.callers import check_caller
from slackwater.adapters.http.dashboard.explain_page import HEADERS, prefers_html, why_page
from slackwater.explain.findings import Explanation
from slackwater.model.history import PastOfObject
from slackwater.ports.protocols import (
    Explain,
    Explained,
    HistoryQuery,
    NothingThere,
    Question,
    Supposed,
    WhatIf,
    WhatIfRefused,
)
from slackwater.ports.whatif_answers import ConsolidationAnswer, PlacementLine, ScaleDownAnswer, ScaleUpAnswer
from slackwater_protocol.durations import parse_non_negative_duration, seconds

BAD: Final = 400
NOT_FOUND: Final = 404
_TOO_LARGE: Final = 413
NOT_NOW: Final = 503
_NOT_NOW_TEXT: Final = "Not everything was listed once, other questions are being answered, or this one was not in time."


def _check_ready(ready: Callable[[], bool]) -> None:
    if not ready():
        raise HTTPException(NOT_NOW, "the cluster state is not complete yet, see /readyz")


# --- explain ----------------------------------------------------------------------------------------------------------------

_EXPLAIN_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: described(Explanation),
    NOT_FOUND: described(Refused, "There is no such object; `detail` names it."),
    NOT_NOW: described(Refused, _NOT_NOW_TEXT),
}
#: The kinds of objects: part of the path, kind, whether it has a namespace, and the route's summary.
_EXPLAINED: Final[tuple[tuple[str, Explained, bool, str], ...]] = (
    ("pods", "pod", True, "Why is the pod pending, and what would help?"),
    ("nodes", "node", False, "Why is the node still there, and what would let it go?"),
    ("groups", "group", False, "Why does the node group not grow, and what would let it?"),
    ("permits", "permit", True, "Why does the pod's agent not get more?"),
    ("migrations", "migration", True, "Why does the pod migrate, or not?"),
    ("gates", "gate", True, "What does the pod's preemption wait for?"),
)


def add_explain(app: FastAPI, explain: Explain, *, ready: Callable[[], bool], notices: Callable[[], Sequence[str]]) -> None:
    """Adds one route for each kind of object. All of them answer 503 until `ready`. Pages have the `notices` at the top."""

    async def answer(what: Explained, namespace: str, name: str, request: Request) -> Response:
        _check_ready(ready)
        try:
            found = await explain(what, namespace, name)
            if prefers_html(request.headers.get("accept", "")) and request.query_params.get("format") != "json":
                return HTMLResponse(why_page(found, request.url.path, notices()), headers=HEADERS)
            return Response(found, media_type=JSON, headers={"vary": "accept"})
        except NothingThere as missing:
            raise HTTPException(NOT_FOUND, str(missing)) from missing
        except WhatIfRefused as refused:
            raise HTTPException(NOT_NOW, str(refused)) from refused

    def add(part: str, what: Explained, namespaced: bool, summary: str) -> None:
        async def of_namespace(namespace: str, name: str, request: Request) -> Response:
            return await answer(what, namespace, name, request)

        async def of_cluster(name: str, request: Request) -> Response:
            return await answer(what, "", name, request)

        app.add_api_route(
            f"/explain/{part}/{{namespace}}/{{name}}" if namespaced else f"/explain/{part}/{{name}}",
            of_namespace if namespaced else of_cluster,
            name=f"explain_{what}",
            summary=summary,
            response_class=Response,
            responses=_EXPLAIN_ANSWERS,
        )

    for each in _EXPLAINED:
        add(*each)


# --- history ----------------------------------------------------------------------------------------------------------------

_HISTORY_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: described(PastOfObject),
    BAD: described(Refused, "`since` is no duration."),
}
SINCE: Final = Query(description="Not further back than this, as a Kubernetes duration.", examples=["24h"])


def add_history(app: FastAPI, what_happened: HistoryQuery) -> None:
    """Adds the history routes. They answer even before the cluster is listed, since the past does not depend on the present."""

    @app.get(
        "/history",
        summary="Who evicted, preempted, moved or refused which pods, and why were nodes removed?",
        response_class=Response,
        responses=_HISTORY_ANSWERS,
    )
    async def history_of_cluster(since: Annotated[str | None, SINCE] = None) -> Response:
        return encoded(await what_happened("cluster", "", "", seconds_of(since)))

    @app.get(
        "/history/pods/{namespace}/{name}",
        summary="Who evicted, preempted, moved or refused the pod, and why?",
        response_class=Response,
        responses=_HISTORY_ANSWERS,
    )
    async def history_of_pod(namespace: str, name: str, since: Annotated[str | None, SINCE] = None) -> Response:
        return encoded(await what_happened("pod", namespace, name, seconds_of(since)))

    @app.get(
        "/history/nodes/{name}",
        summary="Who was evicted from the node, and why was it removed?",
        response_class=Response,
        responses=_HISTORY_ANSWERS,
    )
    async def history_of_node(name: str, since: Annotated[str | None, SINCE] = None) -> Response:
        return encoded(await what_happened("node", "", name, seconds_of(since)))


def seconds_of(since: str | None) -> float | None:
    """The duration in seconds. Raises `HTTPException` (400) if it is none."""
    if since is None:
        return None
    try:
        return seconds(parse_non_negative_duration(since))
    except ValueError as error:
        raise HTTPException(BAD, f"since: {error}") from error


# --- what-if ----------------------------------------------------------------------------------------------------------------

#: Bytes; enough for ten thousand pods with all their fields.
LARGEST_BODY: Final = 1 << 26
_MOST_BODIES: Final = 4
_MOST_PROBLEMS: Final = 5
_WHAT_IF_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    BAD: {"description": "The body is not what is wanted, or supposes what cannot be; `detail` says where."},
    _TOO_LARGE: {"description": f"The body is larger than {LARGEST_BODY} bytes."},
    NOT_NOW: {"description": _NOT_NOW_TEXT},
}
#: The questions, with the routes' summaries and answers.
_SIMULATED: Final[tuple[tuple[Question, str, dict[str, Any]], ...]] = (
    (
        "placement",
        "Where each pending pod could go, and why not elsewhere: one line of JSON for each",
        described(PlacementLine, "A line of JSON for each pod.", JSON_LINES),
    ),
    ("consolidate", "Which nodes would be replaced by cheaper ones, and why the others stay", described(ConsolidationAnswer)),
    ("scale-down", "Which nodes could go together now, and why the others stay", described(ScaleDownAnswer)),
    ("scale-up", "Which nodes would be added for the pending pods", described(ScaleUpAnswer)),
)


class Named(BaseModel):
    """A reference to an object by kind, namespace and name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[str, Field(description="Node, Pod, DaemonSet, PodDisruptionBudget or CapacityBuffer.")]
    namespace: Annotated[str, Field(description="Of an object that has one; `default` where it is not said.")] = ""
    name: str


class WhatIfBody(BaseModel):
    """Changes to the present cluster state before the simulation. An empty body has none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: Annotated[
        tuple[dict[str, Any], ...],
        Field(description="Manifests: there besides, or in place of what has their name. Kinds as `kubectl get` names them."),
    ] = ()
    remove: Annotated[tuple[Named, ...], Field(description="What is not there. A node takes its pods along.")] = ()
    configuration: Annotated[
        dict[str, Any],
        Field(
            description="Laid over the configuration in force: mappings are merged, lists of named entries by name, null gives "
            "a default back. It may name no file but those of the configuration in force."
        ),
    ] = {}
    accounting: Annotated[
        bool, Field(description="Our own rules count too: missing requests, system amounts, Reserved. As `--accounting`.")
    ] = False
    sequential: Annotated[
        bool, Field(description="Of placement alone: each pod stands on its place before the next is judged.")
    ] = False


def add_what_if(app: FastAPI, ask: WhatIf, *, ready: Callable[[], bool]) -> None:
    """Adds the three routes below `/simulate/`. All of them answer 503 until `ready`."""
    reading = anyio.Semaphore(_MOST_BODIES)

    async def answer(question: Question, request: Request) -> Response:
        check_caller(request)
        _check_ready(ready)
        if not reading.value:
            raise HTTPException(NOT_NOW, f"{_MOST_BODIES} bodies are being read already")
        async with reading:
            body = await _body_of(request)
        try:
            supposed = supposed_of(body)
            if supposed.sequential and question != "placement":
                raise WhatIfRefused(f"sequential: got it for {question}, want it for placement alone")
            return Response(await ask(question, supposed), media_type=JSON_LINES if question == "placement" else JSON)
        except WhatIfRefused as refused:
            raise HTTPException(NOT_NOW if refused.busy else BAD, str(refused)) from refused

    def add(question: Question, summary: str, answered: dict[str, Any]) -> None:
        async def simulate(request: Request) -> Response:
            return await answer(question, request)

        app.add_api_route(
            f"/simulate/{question}",
            simulate,
            methods=["POST"],
            name=question.replace("-", "_"),
            summary=summary,
            response_class=Response,
            responses={**_WHAT_IF_ANSWERS, 200: answered},
            openapi_extra=_body_schema(),
        )

    for each in _SIMULATED:
        add(*each)


def _body_schema() -> dict[str, Any]:
    """Returns the OpenAPI schema of the body, which FastAPI cannot derive: the route reads it with a size limit."""
    schema = WhatIfBody.model_json_schema()
    named = schema.pop("$defs")["Named"]
    schema["properties"]["remove"]["items"] = named
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}


async def _body_of(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise HTTPException(_TOO_LARGE, f"body: got more than {LARGEST_BODY} bytes, want fewer")
    return bytes(body)


def supposed_of(body: bytes) -> Supposed:
    """Decodes a body; an empty one has no changes.

    :raises WhatIfRefused: the body is invalid; the message names the fields.
    """
    try:
        said = WhatIfBody.model_validate_json(body) if body.strip() else WhatIfBody()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_MOST_PROBLEMS]
        problems = (f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in found)
        raise WhatIfRefused("; ".join(problems)) from error
    return Supposed(
        objects=said.objects,
        remove=tuple(named.model_dump() for named in said.remove),
        configuration=said.configuration,
        accounting=said.accounting,
        sequential=said.sequential,
    )
