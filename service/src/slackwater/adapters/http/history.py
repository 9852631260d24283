"""`GET /history/...` on the ops listener: what happened to a pod or a node, also before a restart or a hand-over.

Flow: names in the path -> `ports.protocols.HistoryQuery` -> JSON.
"""

from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field

from slackwater.model.history import HistoryAction
from slackwater.ports.protocols import HistoryQuery, Remembered
from slackwater_protocol.durations import parse_non_negative_duration, seconds

_BAD: Final = 400


class HistoryEntry(BaseModel):
    """One entry of the history: something that happened to a pod or a node."""

    model_config = ConfigDict(frozen=True)

    at: Annotated[str, Field(description="When, in UTC (RFC 3339). What follows from the watch may be a few seconds late.")]
    action: HistoryAction
    by: Annotated[str, Field(description="Who did it.")]
    pod: Annotated[str, Field(description="namespace/name; empty in what concerns a node alone.")]
    uid: Annotated[str, Field(description="The beginning of the pod's UID, to tell pods of one name apart.")]
    node: Annotated[str, Field(description="Where the pod was or came to be, or the node itself. Empty where there is none.")]
    target: Annotated[str, Field(description="The node to which a pod migrated.")]
    other: Annotated[str, Field(description="The preemptor of a victim, or the pod that a migrated machine runs in now.")]
    why: str
    text: Annotated[str, Field(description="All of it as a sentence for people, without time and pod.")]


class History(BaseModel):
    """What happened to the object, the oldest first."""

    object: str
    entries: list[HistoryEntry]
    reaches: Annotated[
        dict[Literal["acts", "waits"], str | None],
        Field(
            description="From when on everything is kept: acts are evictions, preemptions, migrations and removals of nodes, "
            "waits are refusals, scale-ups and placements. null: from the beginning."
        ),
    ]
    notes: Annotated[list[str], Field(description="What is missing now, and why.")]


class InvalidSince(BaseModel):
    """The error if `since` is no duration."""

    detail: str


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {_BAD: {"model": InvalidSince, "description": "`since` is no duration."}}
_SINCE: Final = Query(description="Not further back than this, as a Kubernetes duration.", examples=["24h"])


async def no_history(what: Remembered, namespace: str, name: str, _since: float | None) -> dict[str, Any]:
    """Answers every question with an empty history; used if no history is kept."""
    named = f"{what} {namespace}/{name}" if namespace else f"{what} {name}"
    return {"object": named, "entries": [], "reaches": {"acts": None, "waits": None}, "notes": ["no history is kept"]}


def add_history(app: FastAPI, what_happened: HistoryQuery) -> None:
    """Adds the history routes. They answer even before the cluster is listed, since the past does not depend on the present."""

    @app.get(
        "/history/pods/{namespace}/{name}",
        summary="Who evicted, preempted, moved or refused the pod, and why?",
        responses=_ANSWERS,
    )
    async def history_of_pod(namespace: str, name: str, since: Annotated[str | None, _SINCE] = None) -> History:
        return History.model_validate(await what_happened("pod", namespace, name, _seconds(since)))

    @app.get("/history/nodes/{name}", summary="Who was evicted from the node, and why was it removed?", responses=_ANSWERS)
    async def history_of_node(name: str, since: Annotated[str | None, _SINCE] = None) -> History:
        return History.model_validate(await what_happened("node", "", name, _seconds(since)))


def _seconds(since: str | None) -> float | None:
    if since is None:
        return None
    try:
        return seconds(parse_non_negative_duration(since))
    except ValueError as error:
        raise HTTPException(_BAD, f"since: {error}") from error
