"""Evacuation: whether all pods of a node fit on other nodes, on which, and in what order; for several nodes, one after another.

    with snapshot.fork() as trial:
        facts = RuleFacts(now=now, disruptions=Disruptions(budgets))
        evacuations = Evacuations(snapshot, RunningPods(snapshot, pods), facts=facts)
        for row in candidates:
            found = evacuations.evacuate(row, rows=order)       # Evacuated, NotEvacuated, or None: cut off
        evacuations.destinations                                # the final row of each moved pod

First the rules (`fit.drainability`) judge every pod of the node. Then, in a trial, the node is tainted and emptied, and the
pods that have to move are placed on the other rows: by priority, then by size. Each is tried at its hint, at the row where the
last pod of its equivalence group went, and at the other rows in the given order. If all fit somewhere, the node is closed, and
later pods do not go there. If a pod came from a node that was evacuated before, it moves on with the others and uses up no
second disruption of its budgets.

Meanwhile the tainted node still counts as a value of topology spread, as it does while a real node is drained. The snapshot
keeps only evacuations that succeeded, until the trial around them is dropped. Deliberately absent: which nodes, in what order,
and when (`controllers`), and everything that waits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from slackwater.fit.assumed_claims import release_devices
from slackwater.fit.binpacking import NOWHERE, Hints, Placements, place_pods
from slackwater.fit.drainability import DrainabilityOutcome, RuleFacts, judge
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.model.columns import Mask, Rows
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.objects import Pod, Taint
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import Reason, UnremovableReason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import PodsByRow, RunningPod
from slackwater_protocol.names import TO_BE_DELETED_TAINT

_NO_NODE: Final = NodeName("")
_LEAVING: Final = Taint(TO_BE_DELETED_TAINT, "", "NoSchedule")


class Destination(NamedTuple):
    """A pod, and the row that it would move to."""

    pod: Pod
    to: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuated:
    """The result for a node whose pods all fit elsewhere. `moves` are in the order in which the pods were placed.

    `moves` include pods that an earlier evacuation brought to this node. `daemons` go with the node. The node has to wait until
    the `awaited` have completed. `risky`: some budget allows fewer disruptions now than it has pods on the node.
    """

    row: Row
    moves: tuple[Destination, ...]
    daemons: tuple[Pod, ...]
    awaited: tuple[Pod, ...]
    risky: bool

    @property
    def empty(self) -> bool:
        return not self.moves and not self.awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEvacuated:
    """The result for a node that has to stay because of `pod`.

    If the pod fits nowhere, `reasons` are (verdict, number of rows) pairs for the rows that were tried, most rows first.
    """

    row: Row
    pod: Pod
    unremovable_reason: UnremovableReason
    reasons: tuple[tuple[Reason, int], ...] = ()


class Evacuations:
    """Finds other nodes for the pods of one node after another. Each evacuation that succeeds uses up `facts.disruptions`."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        running_pods: PodsByRow,
        *,
        facts: RuleFacts,
        hints: Mapping[PodUid, NodeName] | None = None,
        leaving: Iterable[Row] = (),
    ) -> None:
        """Prepares the search. `running_pods` must have every pod of the snapshot.

        `hints` are the nodes where pods went in an earlier plan; each evacuation reads them. No pod goes to rows that are
        `leaving`.
        """
        #: The final row of each moved pod.
        self.destinations: dict[PodUid, Row] = {}
        self._snapshot = snapshot
        self._running_pods = running_pods
        self._facts = facts
        self._hints = {} if hints is None else hints
        self._evacuated: set[Row] = set()
        #: Marks rows that take no pods any more; rows added later are missing until `_open_rows` appends them.
        self._shut: Mask = np.zeros(snapshot.n_rows, np.bool_)
        self._shut[list(leaving)] = True
        self._rescheduled_pods: dict[Row, list[RunningPod]] = {}
        #: The pods that an evacuated row had got before, for `undo`.
        self._moved_before: dict[Row, list[RunningPod]] = {}
        self._last_of_kind: dict[KindId, int] = {}

    def evacuate(
        self, row: Row, *, rows: Rows, begun: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> Evacuated | NotEvacuated | None:
        """Tries to move a row's pods to other rows, in the order of `rows`. None if `stop` cut the attempt off.

        With `begun` the node's removal is already under way, so no rule blocks any more: pods that would block need another
        node like the others. Pods that are being deleted need none: their replacements are pending, or the caller accounts for
        them. Raises ValueError for a row that was evacuated before.
        """
        if row in self._evacuated:
            raise ValueError(f"row {row}: is evacuated already")
        running_pods, rescheduled_pods = self._running_pods.on(row), self._rescheduled_pods.get(row, [])
        judged = [(running_pod, judge(running_pod.pod, self._facts)) for running_pod in running_pods]
        for running_pod, verdict in judged:
            if verdict.unremovable_reason is not None and not begun:
                return NotEvacuated(row=row, pod=running_pod.pod, unremovable_reason=verdict.unremovable_reason)
        own = [
            running_pod
            for running_pod, verdict in judged
            if verdict.outcome in (DrainabilityOutcome.MOVE, DrainabilityOutcome.BLOCK)
            and not (begun and running_pod.pod.deleting)
        ]
        movers = self._in_order(row, [*map(self._renewed, own), *rescheduled_pods])
        with self._snapshot.fork() as trial:
            clear_row(self._snapshot, row, [*running_pods, *rescheduled_pods])
            placements = self._place(row, movers, rows, stop)
            if placements.cut:
                return None
            if placements.left:
                return _kept(row, movers, placements)
            self._snapshot.close(row)
            trial.commit()
        pods = [running_pod.pod for running_pod in own if not is_placeholder(running_pod.pod)]
        moved = [(movers[at], Row(int(placements.rows[at]))) for at in placements.order.tolist()]
        evacuated = Evacuated(
            row=row,
            moves=tuple(Destination(running_pod.pod, to) for running_pod, to in moved),
            daemons=tuple(running_pod.pod for running_pod, verdict in judged if verdict.outcome is DrainabilityOutcome.DAEMON),
            awaited=tuple(running_pod.pod for running_pod, verdict in judged if verdict.outcome is DrainabilityOutcome.WAIT),
            risky=self._facts.disruptions is not None and not self._facts.disruptions.allow_all(pods),
        )
        self._settle(row, pods, moved)
        return evacuated

    def undo(self, found: Evacuated) -> None:
        """Forgets the last evacuation, whose changes the caller has dropped from the snapshot; the ones before it can be
        undone after it."""
        self._evacuated.discard(found.row)
        self._shut[found.row] = False
        moved, before = found.moves, self._moved_before.pop(found.row)
        for pod, to in reversed(moved):
            self._rescheduled_pods[to].pop()
            self.destinations.pop(pod.uid)
        self.destinations.update((running_pod.pod.uid, found.row) for running_pod in before)
        if before:
            self._rescheduled_pods[found.row] = before
        if self._facts.disruptions is not None:
            back = {running_pod.pod.uid for running_pod in before}
            own = (pod for pod, _ in moved if pod.uid not in back and not is_placeholder(pod))
            self._facts.disruptions.give_back(own)

    def has_rescheduled_pods(self, row: Row) -> bool:
        """Whether pods of an evacuated row would move to this row."""
        return bool(self._rescheduled_pods.get(row))

    def _renewed(self, running_pod: RunningPod) -> RunningPod:
        """The pod with the equivalence group in which its controller makes it again."""
        pod = running_pod.pod
        if not pod.deleting and pod.successor is None and pod.renewed_labels is pod.labels:
            return running_pod
        return RunningPod(pod, self._snapshot.kind_id(pod.renewed_kind, pod.renewed_labels))

    def _in_order(self, row: Row, running_pods: Sequence[RunningPod]) -> list[RunningPod]:
        """The pods in the order in which they are placed: higher priority first, then larger share of the node, then the
        equivalence group that occurs first on the node (so that pods of one group come together), then name (arbitrary, but the
        same on every run)."""
        cpu, memory = self._snapshot.facts.allocatable[[CPU, MEMORY], row].tolist()
        requests = self._snapshot.kinds.requests
        kinds = dict.fromkeys(running_pod.kind for running_pod in running_pods)
        rank = {
            kind: (-int(requests[CPU, kind]) * memory - int(requests[MEMORY, kind]) * cpu, index)
            for index, kind in enumerate(kinds)
        }
        return sorted(
            running_pods, key=lambda running_pod: (-running_pod.pod.priority, rank[running_pod.kind], running_pod.pod.key)
        )

    def _place(self, row: Row, movers: Sequence[RunningPod], rows: Rows, stop: Callable[[], bool]) -> Placements:
        hinted = None
        if self._hints:
            row_of, hints = self._snapshot.facts.row_of, self._hints
            hinted = np.array([row_of.get(hints.get(t.pod.uid, _NO_NODE), NOWHERE) for t in movers], np.intp)
        return place_pods(
            self._snapshot,
            np.array([running_pod.kind for running_pod in movers], np.intp),
            rows=self._open_rows(rows, row),
            hints=Hints(pods=hinted, kinds=self._last_of_kind),
            stop=stop,
        )

    def _open_rows(self, rows: Rows, but: Row) -> Rows:
        n_new = self._snapshot.n_rows - len(self._shut)
        if n_new > 0:
            self._shut = np.append(self._shut, np.zeros(n_new, np.bool_))
        open_rows: Rows = rows[~self._shut[rows] & (rows != but)]
        return open_rows

    def _settle(self, row: Row, pods: Sequence[Pod], moved: Sequence[tuple[RunningPod, Row]]) -> None:
        """Notes what later evacuations need: the closed row, the used-up disruptions and the new rows of the pods."""
        self._evacuated.add(row)
        self._shut[row] = True
        self._moved_before[row] = self._rescheduled_pods.pop(row, [])
        if self._facts.disruptions is not None:
            self._facts.disruptions.spend(pods)
        for running_pod, to in moved:
            self._rescheduled_pods.setdefault(to, []).append(running_pod)
            self._last_of_kind[running_pod.kind] = to
            self.destinations[running_pod.pod.uid] = to


def clear_row(snapshot: ClusterSnapshot, row: Row, there: Sequence[RunningPod]) -> None:
    """Taints the row's node and removes all its pods."""
    node = snapshot.facts.nodes[row]
    snapshot.put_node(row, structs.replace(node, taints=(*node.taints, _LEAVING)))
    for kind, copies in Counter([running_pod.kind for running_pod in there]).items():
        snapshot.remove(kind, row, copies)
        if needs_devices(snapshot, snapshot.of(kind)):
            leaving = [running_pod.pod.uid for running_pod in there if running_pod.kind == kind]
            release_devices(snapshot, kind, row, leaving)


def _kept(row: Row, movers: Sequence[RunningPod], placements: Placements) -> NotEvacuated:
    """The result for a node that stays because of its first pod that fits nowhere."""
    left = min(placements.left, key=lambda left: left.pods[0])
    pod = movers[left.pods[0]].pod
    unremovable_reason = UnremovableReason.SLACK_NEEDED if is_placeholder(pod) else UnremovableReason.NO_PLACE
    return NotEvacuated(row=row, pod=pod, unremovable_reason=unremovable_reason, reasons=left.reasons)
