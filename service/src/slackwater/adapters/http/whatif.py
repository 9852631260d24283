"""`POST /simulate/...` on the ops listener: simulates placement, scale-up or scale-down on the present state with changes.

Flow: JSON body -> `ports.protocols.Supposed` -> the JSON that `slackwater simulate` prints. `callers` decides who may ask; a
`ports.protocols.WhatIf` runs the simulation. Size and number of bodies in memory are bounded.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import anyio
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slackwater.adapters.http.answers import JSON, described
from slackwater.adapters.http.callers import check_caller
from slackwater.ports.protocols import Question, Supposed, WhatIf, WhatIfRefused
from slackwater.ports.whatif_answers import PlacementLine, ScaleDownAnswer, ScaleUpAnswer

#: Bytes; enough for ten thousand pods with all their fields.
LARGEST_BODY: Final = 1 << 26
_LINES: Final = "application/x-ndjson"
_BAD: Final = 400
_TOO_LARGE: Final = 413
_NOT_NOW: Final = 503
_MOST_BODIES: Final = 4
_MOST_PROBLEMS: Final = 5


class Named(BaseModel):
    """A reference to an object by kind, namespace and name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Annotated[str, Field(description="Node, Pod, DaemonSet or PodDisruptionBudget.")]
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
            "a default back."
        ),
    ] = {}
    accounting: Annotated[
        bool, Field(description="Our own rules count too: missing requests, system amounts, Reserved. As `--accounting`.")
    ] = False
    sequential: Annotated[
        bool, Field(description="Of placement alone: each pod stands on its place before the next is judged.")
    ] = False


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    _BAD: {"description": "The body is not what is wanted, or supposes what cannot be; `detail` says where."},
    _TOO_LARGE: {"description": f"The body is larger than {LARGEST_BODY} bytes."},
    _NOT_NOW: {
        "description": "Not everything was listed once, other questions are being answered, or this one was not in time."
    },
}


async def not_configured(_question: Question, _supposed: Supposed) -> bytes:
    """Raises `WhatIfRefused` (503); used if no `WhatIf` is configured."""
    raise WhatIfRefused("nobody answers what-if here", busy=True)


def add_what_if(app: FastAPI, ask: WhatIf, *, ready: Callable[[], bool]) -> None:
    """Adds the three routes below `/simulate/`. All of them answer 503 until `ready`."""
    reading = anyio.Semaphore(_MOST_BODIES)

    async def answer(question: Question, request: Request) -> Response:
        check_caller(request)
        if not ready():
            raise HTTPException(_NOT_NOW, "the cluster state is not complete yet, see /readyz")
        if not reading.value:
            raise HTTPException(_NOT_NOW, f"{_MOST_BODIES} bodies are being read already")
        async with reading:
            body = await _body_of(request)
        try:
            supposed = supposed_of(body)
            if supposed.sequential and question != "placement":
                raise WhatIfRefused(f"sequential: got it for {question}, want it for placement alone")
            return Response(await ask(question, supposed), media_type=_LINES if question == "placement" else JSON)
        except WhatIfRefused as refused:
            raise HTTPException(_NOT_NOW if refused.busy else _BAD, str(refused)) from refused

    @app.post(
        "/simulate/placement",
        summary="Where each pending pod could go, and why not elsewhere: one line of JSON for each",
        response_class=Response,
        responses={**_ANSWERS, 200: described(PlacementLine, "A line of JSON for each pod.", _LINES)},
        openapi_extra=_body_schema(),
    )
    async def placement(request: Request) -> Response:
        return await answer("placement", request)

    @app.post(
        "/simulate/scale-down",
        summary="Which nodes could go together now, and why the others stay",
        response_class=Response,
        responses={**_ANSWERS, 200: described(ScaleDownAnswer)},
        openapi_extra=_body_schema(),
    )
    async def scale_down(request: Request) -> Response:
        return await answer("scale-down", request)

    @app.post(
        "/simulate/scale-up",
        summary="Which nodes would be added for the pending pods",
        response_class=Response,
        responses={**_ANSWERS, 200: described(ScaleUpAnswer)},
        openapi_extra=_body_schema(),
    )
    async def scale_up(request: Request) -> Response:
        return await answer("scale-up", request)


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
