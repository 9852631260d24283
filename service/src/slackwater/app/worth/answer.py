"""The answer of `slackwater worth`, as values. docs/worth.md describes it for people."""

from collections.abc import Mapping
from typing import Annotated, Self

from msgspec import Meta

from slackwater.model.json_answer import JsonAnswer, written
from slackwater.model.prices import Basis
from slackwater_protocol.money import rounded, signed_text

_HOUR = 3600


class Money(JsonAnswer, frozen=True, kw_only=True):
    """An amount for an hour, and for the whole horizon; decimal numbers in the answer's currency."""

    per_hour: str
    in_horizon: str

    @classmethod
    def of(cls, micros: int, horizon_seconds: int) -> Self:
        return cls(per_hour=signed_text(micros), in_horizon=signed_text(rounded(micros * horizon_seconds, _HOUR)))


class NodeTotals(JsonAnswer, frozen=True, kw_only=True):
    """Nodes, what they have allocatable, and what they cost."""

    nodes: int
    cpu_cores: float
    memory_gib: float
    cost: Money


class TotalsChange(JsonAnswer, frozen=True, kw_only=True):
    """Nodes now and at the end; `name`: of the group, type, zone or capacity type, "" if the nodes have none."""

    name: str
    now: NodeTotals
    end: NodeTotals


class ShareAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What the pods of a namespace, or with a value of a label, cost by their requests, now and at the end."""

    name: Annotated[str, Meta(description='"" for pods without the label.')]
    now: Money
    end: Money


class SharesAnswer(JsonAnswer, frozen=True, kw_only=True):
    """All money by what it is for: the shares and what is idle add up to what the nodes cost."""

    of: Annotated[str, Meta(description="namespace, or the label's key.")]
    shares: list[ShareAnswer]
    idle_now: Money
    idle_end: Money


class StayAnswer(JsonAnswer, frozen=True, kw_only=True):
    """Nodes that stay for one reason and one cause. `cost`: theirs, so freeing them saves no more."""

    reason: str
    text: str
    nodes: int
    cost: Money
    cause: Annotated[str, Meta(description="A workload, a budget or a group.")]
    example: Annotated[str, Meta(description="One of the nodes, and the details about it.")]
    remedies: Annotated[
        tuple[str, ...], Meta(description="What would let the node of the example go, each tried. Left out where nothing was.")
    ] = ()


class RoundsAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What is done on the way."""

    removed: int
    added: int
    evictions: int
    failed_removals: int
    seconds: Annotated[float, Meta(description="Until the last change, with the budgets and the parallelism set.")]
    plans: int
    over: Annotated[bool, Meta(description="False if the horizon ended before nothing changed any more.")]
    pending_now: Annotated[int, Meta(description="Pods without a node.")]
    pending_end: int


class UseShare(JsonAnswer, frozen=True, kw_only=True):
    """What the pods on nodes now request and use. `measured`: of how many of them the use is known; the others use nothing
    here."""

    name: str
    pods: int
    measured: int
    cpu_cores_requested: float
    cpu_cores_used: float
    memory_gib_requested: float
    memory_gib_used: float


class UseAnswer(JsonAnswer, frozen=True, kw_only=True):
    """Requests, and use beside them. No other figure of the report contains use."""

    of: Annotated[str, Meta(description="namespace, or the label's key.")]
    source: Annotated[str, Meta(description="Of what time the use is, and who measured it. Amounts of pods are added up.")]
    rows: list[UseShare]


class WorthAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What `slackwater worth -o json` prints."""

    currency: str
    basis: Annotated[Basis | None, Meta(description="Where the prices come from; null without a node.")] = written(None)
    horizon_seconds: int
    total: TotalsChange
    saved: Annotated[Money, Meta(description="What all nodes cost now, less what they cost at the end without `growth`.")]
    growth: Annotated[
        Money,
        Meta(description="What those of the nodes at the end cost that came for pods that waited, for minima or for slack."),
    ]
    bound: Annotated[
        Money | None, Meta(description="No nodes of the groups that hold the same pods cost less; null if it is not known.")
    ] = written(None)
    by: Annotated[Mapping[str, list[TotalsChange]], Meta(description="By group, type, zone and capacityType.")]
    rounds: RoundsAnswer
    stays: list[StayAnswer]
    namespaces: SharesAnswer
    label: Annotated[SharesAnswer | None, Meta(description="Left out without --by-label.")] = None
    use: Annotated[tuple[UseAnswer, ...], Meta(description="By namespace and label. Left out where use is not known.")] = ()
    assumptions: tuple[str, ...]
    remarks: Annotated[tuple[str, ...], Meta(description="Pods that were added or refused. Left out where empty.")] = ()
    skipped: Annotated[tuple[str, ...], Meta(description="What could not be judged. Left out where everything was.")] = ()
