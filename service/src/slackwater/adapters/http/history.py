"""`GET /history/...` on the ops listener: what happened to a pod or a node, also before a restart or a hand-over.

Flow: names in the path -> `ports.protocols.HistoryQuery` -> JSON.
"""

from typing import Annotated, Any, Final

from fastapi import FastAPI, HTTPException, Query, Response

from slackwater.adapters.http.answers import Refused, described, encoded
from slackwater.model.history import PastOfObject
from slackwater.ports.protocols import HistoryQuery, Remembered
from slackwater_protocol.durations import parse_non_negative_duration, seconds

_BAD: Final = 400


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: described(PastOfObject),
    _BAD: described(Refused, "`since` is no duration."),
}
_SINCE: Final = Query(description="Not further back than this, as a Kubernetes duration.", examples=["24h"])


async def no_history(what: Remembered, namespace: str, name: str, _since: float | None) -> PastOfObject:
    """Answers every question with an empty history; used if no history is kept."""
    named = f"{what} {namespace}/{name}" if namespace else f"{what} {name}"
    return PastOfObject(object=named, entries=(), reaches={"acts": None, "waits": None}, notes=("no history is kept",))


def add_history(app: FastAPI, what_happened: HistoryQuery) -> None:
    """Adds the history routes. They answer even before the cluster is listed, since the past does not depend on the present."""

    @app.get(
        "/history/pods/{namespace}/{name}",
        summary="Who evicted, preempted, moved or refused the pod, and why?",
        response_class=Response,
        responses=_ANSWERS,
    )
    async def history_of_pod(namespace: str, name: str, since: Annotated[str | None, _SINCE] = None) -> Response:
        return encoded(await what_happened("pod", namespace, name, _seconds(since)))

    @app.get(
        "/history/nodes/{name}",
        summary="Who was evicted from the node, and why was it removed?",
        response_class=Response,
        responses=_ANSWERS,
    )
    async def history_of_node(name: str, since: Annotated[str | None, _SINCE] = None) -> Response:
        return encoded(await what_happened("node", "", name, _seconds(since)))


def _seconds(since: str | None) -> float | None:
    if since is None:
        return None
    try:
        return seconds(parse_non_negative_duration(since))
    except ValueError as error:
        raise HTTPException(_BAD, f"since: {error}") from error
