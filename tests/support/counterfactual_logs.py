"""Logs of both sides as a shadow writes them: days of a cluster whose demand rises and falls, on virtual time."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import cos, pi
from random import Random
from typing import Final

from slackwater.app.counterfactual.durations import bucket_of
from slackwater.app.counterfactual.lines import (
    SIDES,
    AnyLine,
    Began,
    Decision,
    ModelCheck,
    NodeCame,
    NodeWent,
    Sample,
    Side,
    Waits,
)

#: Noon of a day, in Unix seconds.
START: Final = 1_796_299_200.0
DAY: Final = 86_400
MICROS: Final = 192_000
BEGAN: Final = Began(
    at=START,
    version="0.1.0",
    sides=SIDES,
    currency="USD",
    basis="table",
    capabilities=("scale-up", "scale-down", "consolidation"),
    assumptions=("a new node is ready after 52 s, as seen in group general",),
)
_WHY: Final = {
    ("real", "add"): "computed new nodeclaim(s) to fit pod(s)",
    ("real", "remove"): "disrupting node(s): underutilized",
    ("ours", "add"): "12 pods fit on no node; the cheapest of 3 groups",
    ("ours", "remove"): "its pods fit on other nodes, and it was unneeded for 10 min",
}


@dataclass
class _Side:
    side: Side
    nodes: list[str]
    fresh: int = 0
    evictions: int = 0
    waits: dict[int, Counter[int]] = field(default_factory=dict)

    def sample(self, at: float, pending: int) -> Sample:
        evictions, self.evictions = self.evictions, 0
        return Sample(
            at=at, side=self.side, nodes=len(self.nodes), micros=MICROS * len(self.nodes), pending=pending, evictions=evictions
        )


def days_of_a_cluster(days: int = 1, *, nodes: int = 1_000, pods: int = 30_000, seed: int = 1) -> Iterator[AnyLine]:
    """`nodes`: at the busiest minute of the real side. `pods`: how many get a node in a day."""
    rng = Random(seed)
    sides = [_Side(side, [f"node-{at}" for at in range(nodes * 7 // 10)]) for side in SIDES]
    yield BEGAN
    for side in sides:
        yield from (_came(START, side.side, name, None) for name in side.nodes)
    number = 0
    for minute in range(days * 1_440):
        at = START + 60.0 * minute
        demand = 0.8 - 0.2 * cos(2 * pi * minute / 1_440)
        for side, share in zip(sides, (1.0, 0.9), strict=True):
            want = round(nodes * demand * share * rng.uniform(0.98, 1.02))
            if minute % 5 == 0 and abs(want - len(side.nodes)) > 2:
                number += 1
                yield from _changed(at, side, want, number, rng)
            for _ in range(pods // 1_440):
                waits = side.waits.setdefault(rng.choice([0, 0, 0, 100, 1_000]), Counter())
                waits[bucket_of(rng.expovariate(1 / 20))] += 1
            yield side.sample(at, rng.randrange(40))
        if minute % 60 == 59:
            yield from _hour(at, sides, rng)


def _came(at: float, side: Side, name: str, decision: int | None) -> NodeCame:
    return NodeCame(
        at=at, side=side, node=name, group="general", type="m5.xlarge", zone="eu-1a", micros=MICROS, decision=decision
    )


def _changed(at: float, side: _Side, want: int, number: int, rng: Random) -> Iterator[AnyLine]:
    """A decision and the nodes that come or go by it."""
    grows, count = want > len(side.nodes), abs(want - len(side.nodes))
    action = "add" if grows else "remove"
    yield Decision(
        at=at,
        side=side.side,
        number=number,
        action="add" if grows else "remove",
        by="Karpenter" if side.side == "real" else "",
        group="general",
        nodes=count,
        why=_WHY[side.side, action],
        pods=count * 12,
        example=f"shop/web-{rng.randrange(1_000)}",
    )
    for _ in range(count):
        if grows:
            side.fresh += 1
            name = f"{side.side}-{side.fresh}"
            side.nodes.append(name)
            yield _came(at, side.side, name, number)
        else:
            name = side.nodes.pop(rng.randrange(len(side.nodes)))
            side.evictions += 12
            yield NodeWent(at=at, side=side.side, node=name, decision=number)


def _hour(at: float, sides: list[_Side], rng: Random) -> Iterator[AnyLine]:
    for side in sides:
        yield Waits(at=at, side=side.side, seconds=side.waits)
        side.waits = {}
    real = {bucket_of(rng.expovariate(1 / 20)): 1 for _ in range(40)}
    yield ModelCheck(
        at=at,
        seconds=3_600.0,
        modelled_waits={bucket + rng.randrange(2): count for bucket, count in real.items()},
        real_waits=real,
        modelled_evictions=100 + rng.randrange(15),
        real_evictions=100,
        modelled_empty_nodes=rng.randrange(4),
        real_empty_nodes=2,
    )
