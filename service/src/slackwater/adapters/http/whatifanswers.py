"""What `POST /simulate/...` answers, for its description: the JSON of `slackwater simulate -o json`.

Keys that are said to be left out where empty have a default here.
"""

from typing import Annotated

from pydantic import BaseModel, Field


class Refusal(BaseModel):
    """Why a group takes a pod on no new node, in kube-scheduler's words."""

    plugin: str
    reasons: list[str]
    code: Annotated[str, Field(description="Unschedulable or UnschedulableAndUnresolvable.")]


class GroupScaleUp(BaseModel):
    """One group of the plan."""

    name: str
    newNodes: Annotated[int, Field(description="Before any cap on nodes in creation.")]
    pods: Annotated[list[str], Field(description="As ns/name.")]


class Placed(BaseModel):
    """A pod that fits a node which is there, or on its way."""

    pod: str
    node: str


class Unhelpable(BaseModel):
    """A pod that no group helps."""

    pod: str
    groups: dict[str, Refusal]


class NotCounted(BaseModel):
    """A pod that gets no node now."""

    pod: str
    reason: str


class ScaleUpAnswer(BaseModel):
    """What `slackwater simulate scale-up -o json` prints."""

    groups: list[GroupScaleUp]
    schedulable: list[Placed]
    unhelpable: list[Unhelpable]
    notCounted: Annotated[list[NotCounted], Field(description="Left out where empty.")] = []
    notLookedAt: Annotated[list[str], Field(description="Beyond `scaleUp.maxPods`. Left out where empty.")] = []
    skipped: Annotated[list[str], Field(description="What could not be judged. Left out where empty.")] = []
    seconds: Annotated[float, Field(description="From the copy of the snapshot to the plan.")]


class PlacementLine(BaseModel):
    """Of one pending pod: where it may go and why not elsewhere, or where it went."""

    pod: str
    feasible: Annotated[list[str], Field(description="Nodes that take it. Not there with `sequential`.")] = []
    rejected: Annotated[dict[str, Refusal], Field(description="By node. Not there with `sequential`.")] = {}
    node: Annotated[str | None, Field(description="With `sequential`: where it went, null where it fits nowhere.")] = None
    skipped: Annotated[list[str], Field(description="What could not be judged. Left out where empty.")] = []


class Removable(BaseModel):
    """A node that can go, together with all others of the answer."""

    node: str
    empty: Annotated[bool, Field(description="No pod has to move.")]
    destinations: Annotated[dict[str, str], Field(description="Where each of its pods would live, by ns/name.")]
    removalScore: Annotated[str, Field(description="What is won, in words.")]


class Kept(BaseModel):
    """A node that stays."""

    node: str
    reason: Annotated[str, Field(description="One of the closed list of docs/scaledown.md.")]
    detail: str
    blockedBy: Annotated[str | None, Field(description="The pod in the way, as ns/name.")]


class ScaleDownAnswer(BaseModel):
    """What `slackwater simulate scale-down -o json` prints."""

    removable: list[Removable]
    kept: list[Kept]
    skipped: Annotated[list[str], Field(description="What could not be judged. Left out where empty.")] = []
    seconds: Annotated[float, Field(description="From the copy of the snapshot to the plan.")]
