"""What `slackwater simulate` and `POST /simulate/...` answer."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from msgspec import UNSET, Meta, UnsetType

from slackwater.model.json_answer import JsonAnswer
from slackwater.model.nodegroups import GroupName
from slackwater.model.prices import HourlyPrice

#: Pods that the file lacks and that were added or would not be admitted, and what asks for slack and gets less; a text for each
#: controller or buffer.
Remarks = Annotated[
    tuple[str, ...],
    Meta(description="Pods that were added or refused, and what asks for slack and gets less. Left out where empty."),
]


class Rejection(JsonAnswer, frozen=True, kw_only=True):
    """Why a node, or a new node of a group, rejects a pod; in kube-scheduler's words."""

    plugin: str
    reasons: list[str]
    code: Annotated[str, Meta(description="Unschedulable or UnschedulableAndUnresolvable.")]

    @classmethod
    def of(cls, plugin: str, reasons: list[str], *, resolvable: bool) -> Self:
        code = "Unschedulable" if resolvable else "UnschedulableAndUnresolvable"
        return cls(plugin=plugin, reasons=reasons, code=code)


class GroupScaleUp(JsonAnswer, frozen=True, kw_only=True):
    """One group's part of a scale-up plan."""

    name: str
    new_nodes: Annotated[int, Meta(description="Before any cap on nodes in creation.")]
    pods: Annotated[list[str], Meta(description="As ns/name.")]
    variants: Annotated[
        Mapping[str, int] | None, Meta(description="New nodes by variant. Left out where the group's nodes do not differ.")
    ] = None
    price: Annotated[HourlyPrice | None, Meta(description="Of one new node. Left out without prices.")] = None
    cost: Annotated[HourlyPrice | None, Meta(description="Of the new nodes. Left out without prices, or new nodes.")] = None


class Placed(JsonAnswer, frozen=True, kw_only=True):
    """A pod that fits an existing or upcoming node."""

    pod: str
    node: str


class UnhelpablePod(JsonAnswer, frozen=True, kw_only=True):
    """A pod that no group's new node would take."""

    pod: str
    groups: Mapping[GroupName, Rejection]
    same_as: Annotated[
        str | None, Meta(description="The pod whose `groups` hold for this one too; only in answers that would be too long.")
    ] = None


class NotCounted(JsonAnswer, frozen=True, kw_only=True):
    """A pod for which no node is added now."""

    pod: str
    reason: str


class FailedPart(JsonAnswer, frozen=True, kw_only=True):
    """Pods, a node group or slack, left out of the plan because planning raised an error."""

    about: str
    error: str


class PackingAnswer(JsonAnswer, frozen=True, kw_only=True):
    """How near the nodes that the expander `price` packed are to the least possible cost."""

    cost: Annotated[str, Meta(description="What the packed nodes cost an hour: a decimal number.")]
    bound: Annotated[str | None, Meta(description="No plan for the same pods costs less; null if no bound is known.")]
    gap_percent: Annotated[float | None, Meta(description="By how many percent of the bound the cost exceeds it.")]
    steps: Annotated[int, Meta(description="Linear programs that were solved.")]
    cut: Annotated[bool, Meta(description="The limit on steps, or on time, ended the search for a cheaper plan.")]
    solver: Annotated[bool, Meta(description="False without the extra `solver`: packed greedily.")]


class PlanningAnswer(JsonAnswer, frozen=True, kw_only=True):
    """The work of a plan, and which limit ended it."""

    steps: Annotated[int, Meta(description="About a quarter of a millisecond each; the same at any load of the machine.")]
    cut_by: Annotated[
        Literal["steps", "maxPlanningTime", "simulationTimeout"] | None, Meta(description="null: no limit ended a part of it.")
    ]


class ScaleUpAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What `slackwater simulate scale-up -o json` prints."""

    groups: list[GroupScaleUp]
    schedulable: list[Placed]
    unhelpable: list[UnhelpablePod]
    not_counted: Annotated[tuple[NotCounted, ...], Meta(description="Left out where empty.")] = ()
    not_looked_at: Annotated[tuple[str, ...], Meta(description="Beyond `scaleUp.maxPods`. Left out where empty.")] = ()
    failures: Annotated[tuple[FailedPart, ...], Meta(description="What the plan was made without. Left out where empty.")] = ()
    skipped: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where empty.")] = ()
    remarks: Remarks = ()
    cost: Annotated[HourlyPrice | None, Meta(description="Of all new nodes. Left out without prices, or new nodes.")] = None
    packing: Annotated[PackingAnswer | None, Meta(description="Left out unless the expander `price` packed nodes.")] = None
    planning: Annotated[PlanningAnswer | None, Meta(description="Left out by older versions.")] = None
    seconds: Annotated[float, Meta(description="From the copy of the snapshot to the plan.")]


class PlacedDevice(JsonAnswer, frozen=True, kw_only=True):
    """A device that a placed pod gets."""

    claim: str
    request: str
    device: str


class PlacementLine(JsonAnswer, frozen=True, kw_only=True):
    """The result for one pending pod: feasible and rejected nodes, or with `sequential` the chosen node."""

    pod: str
    feasible: Annotated[list[str] | UnsetType, Meta(description="Nodes that take it. Not there with `sequential`.")] = UNSET
    rejected: Annotated[Mapping[str, Rejection] | UnsetType, Meta(description="By node. Not there with `sequential`.")] = UNSET
    node: Annotated[
        str | UnsetType | None, Meta(description="With `sequential`: where it went, null where it fits nowhere.")
    ] = UNSET
    untried: Annotated[str, Meta(description="With `sequential`: why no scheduler tries it. Left out where one does.")] = ""
    devices: Annotated[
        tuple[PlacedDevice, ...] | UnsetType,
        Meta(description="With `sequential`: in the order of its claims. Not there without."),
    ] = UNSET
    failed: Annotated[str, Meta(description="The search for devices was given up. Left out where it was not.")] = ""
    skipped: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where empty.")] = ()
    remarks: Remarks = ()


class RemovableNode(JsonAnswer, frozen=True, kw_only=True):
    """A node that can be removed, together with all other removable nodes of the answer."""

    node: str
    empty: Annotated[bool, Meta(description="No pod has to move.")]
    destinations: Annotated[Mapping[str, str], Meta(description="Where each of its pods would live, by ns/name.")]
    removal_score: Annotated[str, Meta(description="What is won, in words.")]


class Kept(JsonAnswer, frozen=True, kw_only=True):
    """A node that cannot be removed."""

    node: str
    reason: Annotated[str, Meta(description="One of the closed list of docs/evacuation.md.")]
    detail: str
    blocked_by: Annotated[str | None, Meta(description="The pod in the way, as ns/name.")]


class ScaleDownAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What `slackwater simulate scale-down -o json` prints."""

    removable: list[RemovableNode]
    kept: list[Kept]
    skipped: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where empty.")] = ()
    remarks: Remarks = ()
    planning: Annotated[PlanningAnswer | None, Meta(description="Left out by older versions.")] = None
    seconds: Annotated[float, Meta(description="From the copy of the snapshot to the plan.")]


class NodeMoveAnswer(JsonAnswer, frozen=True, kw_only=True):
    """A move of a consolidation: nodes go, and perhaps others come before the first of them goes."""

    leaving: Annotated[list[str], Meta(description="The nodes that go, in this order.")]
    coming: Annotated[Mapping[GroupName, int], Meta(description="How many nodes come, by group or variant.")]
    destinations: Annotated[
        Mapping[str, str],
        Meta(description="Where each of their pods would live, by ns/name; `new:group:number` is a new node."),
    ]
    after: Annotated[list[int], Meta(description="Positions of the moves, from 0, whose new nodes this one uses.")]
    reason: Annotated[
        Literal["Empty", "Underutilized", "Drifted", "Expired"],
        Meta(description="As in disruption budgets. A move for Drifted or Expired need not save money."),
    ]
    saved: Annotated[str, Meta(description="An hour: a decimal number in the currency of `cost`.")]
    evictions: int
    ratio: Annotated[float, Meta(description="Its share of all money, divided by its share of all disruption.")]
    risky: Annotated[bool, Meta(description="A budget allows fewer disruptions now than it has pods on one of the nodes.")]


class ConsolidationAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What `slackwater simulate consolidate -o json` prints."""

    moves: Annotated[list[NodeMoveAnswer], Meta(description="In order; a plan that stops after any of them is valid.")]
    kept: list[Kept]
    cost: Annotated[HourlyPrice | None, Meta(description="Of the nodes of all groups now; null if there are none.")]
    cost_after: HourlyPrice | None
    bound: Annotated[str | None, Meta(description="No new nodes of the groups hold the pods for less; null if not known.")]
    evictions: int
    skipped: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where empty.")] = ()
    remarks: Remarks = ()
    planning: PlanningAnswer
    seconds: Annotated[float, Meta(description="From the copy of the snapshot to the plan.")]
