"""`GET /explain/...` on the ops listener: explains the state of a pod, node or other object, and lists checked remedies.

Flow: names in the path -> `ports.protocols.Explain` -> JSON. Package `explain` finds the explanation.
"""

from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from slackwater.adapters.http.answers import JSON, Refused, described
from slackwater.adapters.http.dashboard.explain_page import HEADERS, prefers_html, why_page
from slackwater.explain.findings import Explanation
from slackwater.ports.protocols import Explain, Explained, NothingThere, WhatIfRefused

_NOT_FOUND: Final = 404
_NOT_NOW: Final = 503


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: described(Explanation),
    _NOT_FOUND: described(Refused, "There is no such object; `detail` names it."),
    _NOT_NOW: described(
        Refused, "Not everything was listed once, other questions are being answered, or this one was not in time."
    ),
}

#: The kinds of objects: part of the path, kind, whether it has a namespace, and the route's summary.
_ASKED: Final[tuple[tuple[str, Explained, bool, str], ...]] = (
    ("pods", "pod", True, "Why is the pod pending, and what would help?"),
    ("nodes", "node", False, "Why is the node still there, and what would let it go?"),
    ("groups", "group", False, "Why does the node group not grow, and what would let it?"),
    ("permits", "permit", True, "Why does the pod's agent not get more?"),
    ("migrations", "migration", True, "Why does the pod migrate, or not?"),
    ("gates", "gate", True, "What does the pod's preemption wait for?"),
)


async def not_configured(_what: Explained, _namespace: str, _name: str) -> bytes:
    """Raises `WhatIfRefused` (503); used if no `Explain` is configured."""
    raise WhatIfRefused("nobody explains anything here", busy=True)


def add_explain(app: FastAPI, explain: Explain, *, ready: Callable[[], bool]) -> None:
    """Adds one route for each kind of object. All of them answer 503 until `ready`."""

    async def answer(what: Explained, namespace: str, name: str, request: Request) -> Response:
        if not ready():
            raise HTTPException(_NOT_NOW, "the cluster state is not complete yet, see /readyz")
        try:
            found = await explain(what, namespace, name)
            if prefers_html(request.headers.get("accept", "")) and request.query_params.get("format") != "json":
                return HTMLResponse(why_page(found, request.url.path), headers=HEADERS)
            return Response(found, media_type=JSON, headers={"vary": "accept"})
        except NothingThere as missing:
            raise HTTPException(_NOT_FOUND, str(missing)) from missing
        except WhatIfRefused as refused:
            raise HTTPException(_NOT_NOW, str(refused)) from refused

    for part, what, namespaced, summary in _ASKED:
        _add(app, part, what, namespaced=namespaced, summary=summary, answer=answer)


def _add(app: FastAPI, part: str, what: Explained, *, namespaced: bool, summary: str, answer: Any) -> None:
    async def of_namespace(namespace: str, name: str, request: Request) -> Response:
        found: Response = await answer(what, namespace, name, request)
        return found

    async def of_cluster(name: str, request: Request) -> Response:
        found: Response = await answer(what, "", name, request)
        return found

    app.add_api_route(
        f"/explain/{part}/{{namespace}}/{{name}}" if namespaced else f"/explain/{part}/{{name}}",
        of_namespace if namespaced else of_cluster,
        methods=["GET"],
        name=f"explain_{what}",
        summary=summary,
        response_class=Response,
        responses=_ANSWERS,
    )
