"""`POST /drains/{node}/cancel` on the ops listener: a person stops the removal of a node, and it is rolled back.

Who may: see `callers`.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field

from slackwater.adapters.http.callers import check_caller
from slackwater.model.ids import NodeName

#: cancelled: it is being rolled back. too-late: the provider was asked already. none: the node is not being removed.
Answer = Literal["cancelled", "too-late", "none"]

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class Cancelled(BaseModel):
    """What was done."""

    model_config = ConfigDict(frozen=True)

    node: Annotated[str, Field(description="The node's name.")]
    answer: Annotated[Literal["cancelled"], Field(description="Its removal is being rolled back.")] = "cancelled"


def add_drains(app: FastAPI, cancel: Callable[[NodeName], Answer]) -> None:
    @app.post(
        "/drains/{node}/cancel",
        summary="Stop the removal of a node and roll it back",
        responses={
            _NOT_FOUND: {"description": "The node is not being removed."},
            _CONFLICT: {"description": "Too late: its provider was asked to delete it."},
        },
    )
    async def cancel_drain(node: str, request: Request) -> Cancelled:
        check_caller(request)
        answer = cancel(NodeName(node))
        if answer == "none":
            raise HTTPException(_NOT_FOUND, f"node {node}: is not being removed")
        if answer == "too-late":
            raise HTTPException(_CONFLICT, f"node {node}: too late, its provider was asked to delete it")
        return Cancelled(node=node)
