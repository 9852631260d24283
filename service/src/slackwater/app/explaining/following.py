"""A mirror of the world for explanations: made at the first question, brought up to date at each, given up when nobody asks.

What flows through: what changed in the world, collected on the event loop a slice at a time, into `simulate.mirror`, which a
worker thread owns. It costs nothing while nobody asks; the first question pays for the whole cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio.lowlevel
import numpy as np

from slackwater.app.whatif.live import FleetView
from slackwater.model.auxiliary import Surroundings
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.columns import SCHEMA, NodeColumns
from slackwater.model.ids import Instant, NodeName, Row
from slackwater.runtime.changes import ChangeCollector
from slackwater.runtime.state_machine import World
from slackwater.snapshot.replica import Mirror

#: Objects collected before other tasks get a turn: about 2 ms of work.
_SLICE: Final = 500
#: So long after the last question the mirror is given up.
IDLE_SECONDS: Final = 300.0
_NOWHERE: Final = Row(-1)


@dataclass(slots=True)
class _Followed:
    """`around` is what the mirror was last told of storage and namespaces: telling it again makes it build anew."""

    collector: ChangeCollector
    mirror: Mirror
    around: Surroundings


class Following:
    """One for the service. One question at a time: the caller sees to that."""

    def __init__(self, world: World, fleet: Callable[[], FleetView | None]) -> None:
        self._world = world
        self._fleet = fleet
        self._followed: _Followed | None = None
        self._asked_at = Instant(0.0)

    async def changes(self, now: Instant) -> tuple[Mirror, Changes, FleetView | None]:
        """The mirror, and what it has to take in before it is looked at."""
        self._asked_at = now
        if self._followed is None:
            self._followed = _Followed(ChangeCollector(self._world, quarantined_too=True), Mirror(), Surroundings())
        followed, nodes, pods = self._followed, list[NodeChange](), list[PodChange]()
        while len(followed.collector) > _SLICE:
            some = followed.collector.some(_SLICE)
            nodes += some[0]
            pods += some[1]
            await anyio.lowlevel.checkpoint()
        fleet = self._fleet()
        around = Surroundings() if fleet is None else _news(followed.around, fleet.around)
        if fleet is not None:
            followed.around = fleet.around
        return followed.mirror, followed.collector.rest((nodes, pods), around), fleet

    def give_up(self) -> None:
        """The next question begins anew: a change may not have been taken in, or nobody asks."""
        if self._followed is not None:
            self._followed.collector.stop()
            self._followed = None

    def idle(self, now: Instant) -> bool:
        return self._followed is not None and now - self._asked_at > IDLE_SECONDS


def _news(before: Surroundings, now: Surroundings) -> Surroundings:
    return Surroundings(
        namespaces=None if now.namespaces == before.namespaces else now.namespaces,
        storage=None if now.storage == before.storage else now.storage,
    )


def ledger_for(mirror: Mirror, columns: NodeColumns, row_of: dict[NodeName, Row]) -> NodeColumns:
    """The world's columns by the mirror's rows; rows of nodes that are gone have nothing."""
    facts = mirror.picture.facts
    ours = NodeColumns(facts.n_rows)
    rows = np.fromiter((row_of.get(node.name, _NOWHERE) for node in facts.nodes), np.intp, facts.n_rows)
    to = np.flatnonzero((rows != _NOWHERE) & facts.live[: facts.n_rows])
    of = rows[to]
    for column in SCHEMA:
        getattr(ours, column.name)[:, to] = getattr(columns, column.name)[:, of]
    return ours
