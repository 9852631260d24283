"""`GET /series`: the overview's figures of the last hour and day. `GET /dashboard/story/...`: what happened to one object."""

from typing import Annotated, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel, Field

from slackwater.runtime.dashboard.observer import DashboardObserver

#: The most decisions of a story.
_MOST_STEPS: Final = 200


class Points(BaseModel):
    """Figures of equally long steps, the newest last."""

    stepSeconds: int
    end: Annotated[int, Field(description="Unix time at which the last step ended.")]
    points: Annotated[
        dict[str, list[int | None]],
        Field(
            description="By figure. cpuPermille and memoryPermille: the reserved share of the nodes' Total, mean of the step; "
            "pending and oldestPendingSeconds: the largest; nodes: the last; nodesAdded, nodesRemoved, failures, binds and "
            "decisions.<kind>: how many within the step. Null: the service did not run."
        ),
    ]


class SeriesAnswer(BaseModel):
    """The figures of the last hour and the last day, kept in memory since the start."""

    hour: Points
    day: Points


class Step(BaseModel):
    """One decision, or something seen, that concerns the object."""

    at: Annotated[float, Field(description="Unix time.")]
    kind: str
    about: str
    name: str
    text: str
    verdict: str
    instead: Annotated[str, Field(description="What else was considered.")]


class Story(BaseModel):
    """What happened to one object since the service started, oldest first. Only the newest decisions of each kind are kept."""

    steps: list[Step]


def add_series(app: FastAPI, observer: DashboardObserver) -> None:
    @app.get("/series", summary="Figures of the last hour and day")
    async def series() -> SeriesAnswer:
        return SeriesAnswer.model_validate(observer.series.document())

    def story_of(kind: str, name: str) -> Story:
        steps = observer.decision_log.story(kind, name, _MOST_STEPS)
        return Story(steps=[Step.model_validate(step, from_attributes=True) for step in steps])

    @app.get("/dashboard/story/pods/{namespace}/{name}", summary="What happened to a pod")
    async def story_of_pod(namespace: str, name: str) -> Story:
        return story_of("pods", f"{namespace}/{name}")

    @app.get("/dashboard/story/{kind}/{name}", summary="What happened to a node or node group")
    async def story(kind: Literal["nodes", "groups"], name: str) -> Story:
        return story_of(kind, name)
