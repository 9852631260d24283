"""`GET /explain/...` on the ops listener: explains the state of a pod, node or other object, and lists checked remedies.

Flow: names in the path -> `ports.protocols.Explain` -> JSON. This module has the routes and the documented models of the
answer; package `explain` finds the explanation.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from slackwater.adapters.http.dashboard.explain_page import HEADERS, prefers_html, why_page
from slackwater.adapters.http.history import HistoryEntry
from slackwater.ports.protocols import Explain, Explained, NothingThere, WhatIfRefused

_NOT_FOUND: Final = 404
_NOT_NOW: Final = 503


class Finding(BaseModel):
    """One reason, from a closed list."""

    model_config = ConfigDict(frozen=True)

    code: Annotated[str, Field(description="From docs/reasons.md, docs/evacuation.md or docs/explain.md.")]
    plugin: Annotated[str, Field(description="Whose word it is: a plug-in of kube-scheduler, or Slackwater.")]
    text: str
    detail: Annotated[str, Field(description="Figures. Left out where there are none.")] = ""
    nodes: Annotated[int, Field(description="On how many nodes it holds.")]
    resource: Annotated[str | None, Field(description="What is short.")]
    short: Annotated[
        dict[str, int], Field(description="How much is lacking on the closest of these nodes: milliCPU, bytes or count.")
    ]
    objects: Annotated[list[str], Field(description="What is in the way, as `kind name`.")]
    closest: Annotated[str, Field(description="The node where least is lacking. Left out where none is meant.")] = ""


class Remedy(BaseModel):
    """A change that helps, as the simulator has confirmed."""

    change: str
    checked: Annotated[bool, Field(description="Always true: a change that was not seen to help is not listed.")]
    changes: Annotated[list[str], Field(description="Its parts; all are needed.")]


class MinimalSet(BaseModel):
    """A minimal set of blockers: removing all of them helps, removing fewer does not."""

    where: str
    blockers: list[Finding]
    remedy: Remedy


class GroupVerdict(BaseModel):
    """Whether a node group helps a pending pod, and why not."""

    group: str
    helps: bool
    reasons: list[Finding]


class OtherNode(BaseModel):
    """Another node that would take the pod now."""

    node: str
    score: int
    difference: Annotated[dict[str, int], Field(description="From the score of the pod's node, by plug-in, weighted.")]


class Instead(BaseModel):
    """What could be chosen instead of a placed pod's node."""

    asOf: Annotated[Literal["now"], Field(description="Computed when asked; nothing is kept of when the pod was placed.")]
    score: Annotated[int, Field(description="Of the pod's node.")]
    feasible: Annotated[int, Field(description="Other nodes that would take the pod.")]
    nodes: Annotated[list[OtherNode], Field(description="The best of them, at most five.")]
    reasons: Annotated[list[Finding], Field(description="Why the rest would not.")]


class Explanation(BaseModel):
    """The explanation of an object's state."""

    object: str
    state: str
    reasons: list[Finding]
    remedies: list[Remedy]
    minimal: list[MinimalSet]
    facts: Annotated[dict[str, Any], Field(description="Figures about the object.")]
    groups: Annotated[list[GroupVerdict], Field(description="Of a pending pod. Left out where there are no groups.")] = []
    notes: Annotated[list[str], Field(description="What could not be judged. Left out where everything was.")] = []
    remarks: Annotated[list[str], Field(description="Pauses, and what is not kept of the pod's slack. Left out if empty.")] = []
    instead: Annotated[Instead | None, Field(description="Of a placed pod. Left out otherwise.")] = None
    history: Annotated[list[HistoryEntry], Field(description="What happened last, see /history. Left out if empty.")] = []


class Unexplained(BaseModel):
    """The error if an object cannot be explained."""

    detail: str


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    _NOT_FOUND: {"model": Unexplained, "description": "There is no such object; `detail` names it."},
    _NOT_NOW: {
        "model": Unexplained,
        "description": "Not everything was listed once, other questions are being answered, or this one was not in time.",
    },
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
            return Response(found, media_type="application/json", headers={"vary": "accept"})
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
        response_model=Explanation,
        responses=_ANSWERS,
    )
