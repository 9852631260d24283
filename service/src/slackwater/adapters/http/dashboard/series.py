"""`GET /series`: the overview's figures of the last hour and day. `GET /dashboard/story/...`: what happened to one object."""

from typing import Annotated, Final, Literal

from fastapi import FastAPI, Response
from msgspec import Meta, convert

from slackwater.adapters.http.answers import described, encoded
from slackwater.model.json_answer import JsonAnswer
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.dashboard.series import SeriesAnswer

#: The most decisions of a story.
_MOST_STEPS: Final = 200


class Step(JsonAnswer, frozen=True, kw_only=True):
    """One decision, or something seen, that concerns the object."""

    at: Annotated[float, Meta(description="Unix time.")]
    kind: str
    about: str
    name: str
    text: str
    verdict: str
    instead: Annotated[str, Meta(description="What else was considered.")]


class Story(JsonAnswer, frozen=True, kw_only=True):
    """What happened to one object since the service started, oldest first. Only the newest decisions of each kind are kept."""

    steps: list[Step]


def add_series(app: FastAPI, observer: DashboardObserver) -> None:
    @app.get(
        "/series", summary="Figures of the last hour and day", response_class=Response, responses={200: described(SeriesAnswer)}
    )
    async def series() -> Response:
        return encoded(observer.series.answer())

    def story_of(kind: str, name: str) -> Response:
        steps = observer.decision_log.story(kind, name, _MOST_STEPS)
        return encoded(Story(steps=convert(steps, tuple[Step, ...], from_attributes=True)))

    @app.get(
        "/dashboard/story/pods/{namespace}/{name}",
        summary="What happened to a pod",
        response_class=Response,
        responses={200: described(Story)},
    )
    async def story_of_pod(namespace: str, name: str) -> Response:
        return story_of("pods", f"{namespace}/{name}")

    @app.get(
        "/dashboard/story/{kind}/{name}",
        summary="What happened to a node or node group",
        response_class=Response,
        responses={200: described(Story)},
    )
    async def story(kind: Literal["nodes", "groups"], name: str) -> Response:
        return story_of(kind, name)
