"""A replica of the state machine for explanations: made at the first question, brought up to date at each, given up when nobody
asks.

What flows through: what changed in the state machine, collected on the event loop a slice at a time, into `snapshot.replica`,
which a worker thread owns. It costs nothing while nobody asks; the first question pays for the whole cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio.lowlevel
import numpy as np

from slackwater.app.whatif.live import GroupRegistryView
from slackwater.model.auxiliary import AuxiliaryObjects
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.columns import SCHEMA, NodeColumns
from slackwater.model.ids import Instant, NodeName, Row
from slackwater.runtime.changes import ChangeCollector
from slackwater.runtime.state_machine import StateMachine
from slackwater.snapshot.replica import SnapshotReplica

#: Objects collected before other tasks get a turn: about 2 ms of work.
_SLICE: Final = 500
#: So long after the last question the replica is given up.
IDLE_SECONDS: Final = 300.0
_NOWHERE: Final = Row(-1)


@dataclass(slots=True)
class _Followed:
    """`around` is what the replica was last told of storage and namespaces: telling it again makes it build again."""

    collector: ChangeCollector
    replica: SnapshotReplica
    around: AuxiliaryObjects


class ExplainReplica:
    """One for the service. One question at a time: the caller sees to that."""

    def __init__(self, state_machine: StateMachine, group_registry: Callable[[], GroupRegistryView | None]) -> None:
        self._state_machine = state_machine
        self._group_registry = group_registry
        self._followed: _Followed | None = None
        self._asked_at = Instant(0.0)

    async def changes(self, now: Instant) -> tuple[SnapshotReplica, Changes, GroupRegistryView | None]:
        """The replica, and what it has to take in before it is looked at."""
        self._asked_at = now
        if self._followed is None:
            self._followed = _Followed(
                ChangeCollector(self._state_machine, quarantined_too=True), SnapshotReplica(), AuxiliaryObjects()
            )
        followed, nodes, pods = self._followed, list[NodeChange](), list[PodChange]()
        while len(followed.collector) > _SLICE:
            some = followed.collector.some(_SLICE)
            nodes += some[0]
            pods += some[1]
            await anyio.lowlevel.checkpoint()
        group_registry = self._group_registry()
        around = AuxiliaryObjects() if group_registry is None else _news(followed.around, group_registry.around)
        if group_registry is not None:
            followed.around = group_registry.around
        return followed.replica, followed.collector.rest((nodes, pods), around), group_registry

    def give_up(self) -> None:
        """The next question begins again: a change may not have been taken in, or nobody asks."""
        if self._followed is not None:
            self._followed.collector.stop()
            self._followed = None

    def idle(self, now: Instant) -> bool:
        return self._followed is not None and now - self._asked_at > IDLE_SECONDS


def _news(before: AuxiliaryObjects, now: AuxiliaryObjects) -> AuxiliaryObjects:
    return AuxiliaryObjects(
        namespaces=None if now.namespaces == before.namespaces else now.namespaces,
        storage=None if now.storage == before.storage else now.storage,
    )


def ledger_for(replica: SnapshotReplica, columns: NodeColumns, row_of: dict[NodeName, Row]) -> NodeColumns:
    """The state machine's columns by the replica's rows; rows of nodes that are gone have nothing."""
    facts = replica.snapshot.facts
    ours = NodeColumns(facts.n_rows)
    rows = np.fromiter((row_of.get(node.name, _NOWHERE) for node in facts.nodes), np.intp, facts.n_rows)
    to = np.flatnonzero((rows != _NOWHERE) & facts.live[: facts.n_rows])
    of = rows[to]
    for column in SCHEMA:
        getattr(ours, column.name)[:, to] = getattr(columns, column.name)[:, of]
    return ours
