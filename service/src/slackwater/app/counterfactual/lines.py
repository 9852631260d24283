"""The log of both sides: what really happened, and what Slackwater would have done. One JSON value a line, by time.

Times are Unix seconds, money is in millionths of the currency for an hour. The sides are `real`, the cluster as it is, and
`ours`, the counterfactual cluster; a service that serves writes `real` alone. A log that goes on after a restart has another
`Began`: then both sides begin again with the real cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from slackwater.model.prices import Basis

Side = Literal["real", "ours"]
Action = Literal["add", "remove", "replace", "preempt"]
Sides = tuple[Side, ...]
SIDES: Final[Sides] = ("real", "ours")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="line", rename="camel"):
    """A line of the log. `at`: when."""

    at: float


class Began(Line, tag="began", frozen=True, kw_only=True):
    """The log begins, or begins again after a restart. `sides`: those that are written from now on. `basis`: what prices rest
    on; None if there is no node. `capabilities`: what Slackwater would do, such as scale-up. `assumptions`: of the model, for
    people. `goes_on`: a new file of the same log, in which both sides go on; the nodes of both come again with their decisions,
    so that the file can be read without the older ones."""

    version: str
    sides: Sides
    currency: str
    basis: Basis | None = None
    capabilities: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    goes_on: bool = False


class Sample(Line, tag="sample", frozen=True, kw_only=True):
    """The state of a side, once a minute. `micros`: what its nodes cost for an hour. `pending`: pods without a node.
    `evictions`: pods evicted since the last sample."""

    side: Side
    nodes: int
    micros: int
    pending: int
    evictions: int = 0


class NodeCame(Line, tag="came", frozen=True, kw_only=True):
    """A node came. `micros`: its price. `decision`: the number of the decision that bought it; None if nobody decided, such as
    for the nodes that were there when the log began."""

    side: Side
    node: str
    group: str = ""
    type: str = ""
    zone: str = ""
    capacity_type: str = ""
    micros: int
    decision: int | None = None


class NodeWent(Line, tag="went", frozen=True, kw_only=True):
    """A node went. `decision`: the number of the decision that removed it; None if nobody decided: it was lost."""

    side: Side
    node: str
    decision: int | None = None


class Decision(Line, tag="decision", frozen=True, kw_only=True):
    """A decision to add, remove or replace nodes, or to preempt. `number`: unique in the log. `by`: who decided, such as
    Karpenter; "" on our side, and where it does not show. `why`: the reason, for people; for the real side, as far as it shows.
    `pods`: how many pods it was made for, or evicts. `example`: one of them."""

    side: Side
    number: int
    action: Action
    by: str = ""
    group: str = ""
    nodes: int = 0
    why: str = ""
    pods: int = 0
    example: str = ""


class Waits(Line, tag="waits", frozen=True, kw_only=True):
    """How long the pods were pending that got a node since the last such line, once an hour and at the end: counts by priority
    and bucket (`durations`)."""

    side: Side
    seconds: Mapping[int, Mapping[int, int]]


class ModelCheck(Line, tag="check", frozen=True, kw_only=True):
    """What the model said about the real cluster's last `seconds` under the real decisions, beside what happened: the buckets
    of pending times, evictions, and the nodes without pods at the end."""

    seconds: float
    modelled_waits: Mapping[int, int]
    real_waits: Mapping[int, int]
    modelled_evictions: int
    real_evictions: int
    modelled_empty_nodes: int
    real_empty_nodes: int


AnyLine = Began | Sample | NodeCame | NodeWent | Decision | Waits | ModelCheck
_DECODER: Final[msgspec.json.Decoder[AnyLine]] = msgspec.json.Decoder(AnyLine)


class BadLog(ValueError):
    """A line of the log cannot be read; the message says which, and why."""


def written(lines: Iterable[AnyLine]) -> bytes:
    """The lines as they are in the log."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def read(texts: Iterable[bytes], *, since: float = 0.0, skipped: Callable[[BadLog], None] | None = None) -> Iterator[AnyLine]:
    """The lines of a log from `since` on, and those before it that later ones rest on: `Began`, decisions, and nodes that came
    or went. The last line of a log that is being written may be cut off; it is left out. A line that cannot be read is handed
    to `skipped`; without it, raises `BadLog`."""
    for number, text in enumerate(texts, 1):
        if not text.endswith(b"\n"):
            return
        try:
            line = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            bad = BadLog(f"line {number}: {error}")
            if skipped is None:
                raise bad from error
            skipped(bad)
            continue
        if line.at >= since or isinstance(line, Began | NodeCame | NodeWent | Decision):
            yield line
