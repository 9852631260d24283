"""The answer of `slackwater report`, as values. docs/report.md describes it for people."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from slackwater.app.counterfactual.lines import Side
from slackwater.model.json_answer import JsonAnswer, written
from slackwater.model.prices import Basis

Metric = Literal["nodes", "money", "pending", "evictions"]
#: Unix seconds; the mean, the least and the largest value from then on.
Point = tuple[int, float, float, float]


class PendingTimes(JsonAnswer, frozen=True, kw_only=True):
    """How long pods were pending until they got a node, in seconds, within 5 %."""

    priority: Annotated[int | None, Meta(description="null: pods of all priorities.")]
    pods: int
    p50: float
    p95: float
    p99: float


class SideFigures(JsonAnswer, frozen=True, kw_only=True):
    """The figures of a side in the time that counts."""

    side: Annotated[Side, Meta(description="real: the cluster as it is; ours: what Slackwater would have done.")]
    node_hours: float
    money: Annotated[str, Meta(description="A decimal number in the answer's currency.")]
    per_hour: Annotated[str, Meta(description="Money for an hour.")]
    evictions: int
    pending_pod_hours: Annotated[float, Meta(description="The time that pods were pending, added up.")]
    pending: Annotated[list[PendingTimes], Meta(description="Of all pods, then by priority, the highest first.")]


class Saved(JsonAnswer, frozen=True, kw_only=True):
    """What Slackwater would have saved: the real side's figure less ours."""

    node_hours: float
    money: str
    per_hour: str
    per_month: Annotated[str, Meta(description="In 720 hours like these.")]
    evictions: int


class ActionCount(JsonAnswer, frozen=True, kw_only=True):
    """Decisions of one action."""

    side: Side
    by: Annotated[str, Meta(description='Who decided; "" on our side, and where it does not show.')]
    action: str
    decisions: int
    nodes: int
    pods: int


class DecisionAnswer(JsonAnswer, frozen=True, kw_only=True):
    """A decision that made the sides differ."""

    number: int
    at: str
    side: Side
    by: str
    action: Annotated[str, Meta(description='"" if the log does not have the decision any more.')]
    group: str
    nodes: int
    pods: int
    why: str
    example: str
    money: Annotated[
        str,
        Meta(description="What it costs its side, compared with the other one, until both agree again; below 0: it saves."),
    ]
    ask: Annotated[str, Meta(description='The command that explains more; "" if there is none.')]


class DecisionsAnswer(JsonAnswer, frozen=True, kw_only=True):
    """The money of nodes that exist on one side only, by decision. What the real decisions cost less what ours cost, what
    nobody decided, and the rest add up to the money saved."""

    listed: Annotated[list[DecisionAnswer], Meta(description="The ones with most money, by time.")]
    left_out: Annotated[int, Meta(description="Decisions with less money that are not listed.")]
    left_out_money: Annotated[Mapping[Side, str], Meta(description="What these cost, by side.")]
    nobody: Annotated[Mapping[Side, str], Meta(description="Nodes that came or went on one side and nobody decided that.")]
    rest: Annotated[
        str | None,
        Meta(description="Money saved that no node explains: samples are a minute apart. null if there is one side only."),
    ] = written(None)


class ModelError(JsonAnswer, frozen=True, kw_only=True):
    """How far the model was from what happened, under the real decisions. An error is relative to what happened, or to 1 where
    that is less."""

    of: Literal["pendingP95", "evictions", "emptyNodes"]
    checks: int
    median: float
    worst: float
    worst_at: str
    worst_modelled: float
    worst_real: float


class ReportAnswer(JsonAnswer, frozen=True, kw_only=True):
    """What `slackwater report -o json` prints."""

    version: Annotated[str, Meta(description="Of the service that wrote the log.")]
    begins: str
    ends: str
    counted_seconds: Annotated[float, Meta(description="The time between that counts.")]
    currency: str
    basis: Annotated[Basis | None, Meta(description="Where the prices come from; null without a node.")] = written(None)
    sides: list[SideFigures]
    saved: Annotated[Saved | None, Meta(description="null if there is one side only.")] = written(None)
    actions: list[ActionCount]
    decisions: DecisionsAnswer
    model: list[ModelError]
    series: Annotated[
        Mapping[Metric, Mapping[Side, Sequence[Sequence[Point]]]],
        Meta(
            description="Pieces of [Unix seconds, mean, least, largest value]; money for an hour, evictions added up. At most "
            "250 of each line."
        ),
    ]
    capabilities: Annotated[tuple[str, ...], Meta(description="What Slackwater would do.")]
    assumptions: tuple[str, ...]
    notes: Annotated[tuple[str, ...], Meta(description="What does not count, and why. Left out where empty.")] = ()
