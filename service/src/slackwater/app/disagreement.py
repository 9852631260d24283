"""The question about waiting pods and binds that the planning process judges, for `controllers.disagreement`.

A waiting pod is judged by kube-scheduler's rules and by our accounting, as filter does; a bind by kube-scheduler's rules alone,
with the pod taken off its node. All changes of the replica that this makes are undone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from slackwater.app.explain.question import ledger_for
from slackwater.app.offline.cluster import skipped_rules
from slackwater.app.whatif.question import unknown
from slackwater.controllers.disagreement.loop import Judge
from slackwater.controllers.disagreement.state import MOST_NODES, Judged, Looks
from slackwater.fit.assumed_claims import take_off
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.plugins.node_accounting import LEDGER
from slackwater.model.columns import Int64, NodeColumns, Rows
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.reasons import Reason
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.snapshot_replica import SnapshotReplica

if TYPE_CHECKING:  # the planning process imports this module, but not these
    from slackwater.runtime.planner.process import Questions
    from slackwater.runtime.state_machine import StateMachine

_ROOM: Final = frozenset({Reason.RESOURCES_SHORT, Reason.RESOURCES_ABOVE_NODE})


def judge_of(state_machine: "StateMachine", questions: "Questions", *, watched: Callable[[], bool]) -> Judge:
    """Judges by a question to the planning process. `watched`: are the objects watched that only the autoscaler reads?"""

    async def judged(next_looks: Callable[[], Looks]) -> Judged:
        def question() -> DisagreementQuestion:
            state = state_machine.state
            return DisagreementQuestion(
                looks=next_looks(),
                columns=state.ledger.columns.copy(),
                row_of=dict(state.nodes.row_of),
                versions=state.nodes.room_version.copy(),
                watched=watched(),
            )

        return msgspec.json.decode(await questions.ask(question), type=Judged)

    return judged


@dataclass(frozen=True, slots=True, kw_only=True)
class DisagreementQuestion:
    """Asks where the pods of `looks.refused` fit, and whether the nodes of `looks.binds` accept their pods.

    `columns`: our accounting of all nodes, `row_of`: the row of each node there, `versions`: when each row changed last.
    """

    looks: Looks
    columns: NodeColumns
    row_of: Mapping[NodeName, Row]
    versions: Int64
    watched: bool

    def answer(self, replica: SnapshotReplica) -> bytes:
        """Returns the `Judged` as JSON."""
        binds = {
            uid: int(reason)
            for uid, node, stricter in self.looks.binds
            if (reason := self._on_its_node(replica, uid, node)) is not None and not (stricter and reason in _ROOM)
        }
        replica.snapshot.judge_by(ledger_for(replica, self.columns, self.row_of))
        try:
            refused = dict(self._waiting(replica))
        finally:
            replica.snapshot.judge_by(None)
        return msgspec.json.encode(Judged(refused, binds))

    def _is_judged(self, replica: SnapshotReplica, kind: KindId) -> bool:
        return not skipped_rules(replica.snapshot.of(kind), unknown(watched=self.watched), str)

    def _on_its_node(self, replica: SnapshotReplica, uid: PodUid, node: NodeName) -> Reason | None:
        """The verdict on the pod's node without the pod; None if the pod is not there, or cannot be judged."""
        snapshot = replica.snapshot
        row = snapshot.facts.live_row(node)
        running = None if row is None else next((each for each in replica.on(row) if each.pod.uid == uid), None)
        if row is None or running is None or not self._is_judged(replica, running.kind):
            return None
        with snapshot.fork():
            take_off(snapshot, running.kind, row, uid)
            return Reason(int(feasible(snapshot, running.kind).codes[row]))

    def _waiting(self, replica: SnapshotReplica) -> Iterator[tuple[PodUid, tuple[tuple[NodeName, ...], bool]]]:
        """For each waiting pod that can be judged, nodes that fit, and whether one of all that fit is unchanged."""
        snapshot, facts = replica.snapshot, replica.snapshot.facts
        nominated = {pod.nominated_node for pod in replica.pending.values()} - {None}
        closed = [row for name in nominated if name is not None and (row := facts.live_row(name)) is not None]
        ours = [self.row_of.get(node.name) for node in facts.nodes]
        versions = np.array([np.iinfo(np.int64).max if row is None else self.versions[row] for row in ours], np.int64)
        for uid, version, held_on in self.looks.refused:
            pod = replica.pending.get(uid)
            if pod is None:
                continue
            kind = snapshot.kind_id(pod.kind, pod.labels)
            if not self._is_judged(replica, kind):
                continue
            fits = feasible(snapshot, kind).feasible
            held = None if held_on is None else facts.live_row(held_on)
            if held is not None:  # our accounting has room there, which is held
                fits[held] = feasible(snapshot, kind, without=(LEDGER,)).feasible[held]
            rows: Rows = np.flatnonzero(fits)
            rows = rows[~np.isin(rows, closed)]
            names = tuple(facts.nodes[row].name for row in rows[:MOST_NODES].tolist())
            yield uid, (names, bool((versions[rows] <= version).any()))
