"""Migration choice: decides which machine leaves a node under pressure now, and to which node.

- `choose_target_node`, `room_at_source`, `full_targets`: the target, and the limits on concurrent migrations.
- `MigrationQueue`: which machines may leave each node, in the order in which they should leave.
- `MigrationBackoff`: the back-off of machines that could not leave.
- `MigrationChoice`: the decision, which each agent's request asks for.

In: machines as their agents report them, node sums, running migrations. Out: one machine with its target node, or nothing.
Invariant: a machine that may never migrate is in no queue, so it blocks no other machine.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.nodes import NO_ROW
from slackwater.cluster.reservations import Reservation
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.policy import MigrationPolicy, Policy
from slackwater.fit.plugins.node_accounting import judge_ledger
from slackwater.model.columns import Mask, NodeColumns, Rows
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger import too_much_pressure
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts

#: Source node and target node of a migration; each is None if not known.
Route = tuple[NodeName | None, NodeName | None]


def room_at_source(running: Iterable[Route], source: NodeName, policy: MigrationPolicy) -> bool:
    """Do the limits on running migrations allow one more that leaves the node `source`?"""
    sources = [route[0] for route in running]
    return len(sources) < policy.max_concurrent and sources.count(source) < policy.max_per_source


def full_targets(running: Iterable[Route], policy: MigrationPolicy) -> set[NodeName]:
    """The nodes at which so many migrations arrive that no other may."""
    arriving = Counter(target for _, target in running if target is not None)
    return {node for node, count in arriving.items() if count >= policy.max_per_target}


def choose_target_node(need: Amounts, columns: NodeColumns, rows: Rows, *, above_watermark: bool = False) -> Row | None:
    """The target row for a machine that needs `need`: the row that would be least full with it; None if it fits on none.

    `rows`: the rows that the other rules allow. Unless `above_watermark` is set, rows that the machine would take above their
    watermark are left out, since pressure there would soon move the machine again. Set it for machines that migrate whatever
    the pressure is.
    """
    fitting = rows[judge_ledger(need, columns, rows) == Reason.OK]
    after = columns.reserved[:, fitting] + columns.held[:, fitting] + need.column
    if not above_watermark:
        below: Mask = np.asarray((after <= columns.watermark[:, fitting]).all(axis=0))
        fitting, after = fitting[below], after[:, below]
    if not len(fitting):
        return None
    fullness = (after / np.maximum(columns.total[:, fitting], 1)).max(axis=0)
    return Row(int(fitting[np.lexsort((fitting, fullness))[0]]))


class Rank(NamedTuple):
    """The rank of a machine in its node's migration queue; the machine of the lowest rank leaves first.

    Ranks compare by: 1. machines with a known load before those without;  2. lower one-minute load (in millionths), since that
    disturbs least;  3. lower join number. Join numbers differ, so machines of equal load never change places.
    """

    without_load: bool
    load1_micro: int
    joined: int


def rank(load1_micro: int | None, joined: int) -> Rank:
    return Rank(load1_micro is None, load1_micro or 0, joined)


class MigrationQueue:
    """The migration queues of all nodes; a pod is in at most one queue.

    A machine joins its node's queue with its agent's first request, and stays there until it may no longer migrate.
    """

    def __init__(self) -> None:
        self._queues: dict[NodeName, list[tuple[Rank, PodUid]]] = {}
        self._places: dict[PodUid, tuple[NodeName, Rank]] = {}
        self._joined = 0

    def put(self, uid: PodUid, node: NodeName, load1_micro: int | None) -> None:
        """Adds the pod to the node's queue. A pod that is in the queue keeps its join number, and gets the rank of this
        load."""
        place = self._places.get(uid)
        joined = place[1].joined if place is not None and place[0] == node else self._joined
        self.enter(uid, node, load1_micro, joined)

    def enter(self, uid: PodUid, node: NodeName, load1_micro: int | None, joined: int) -> None:
        """Adds the pod to the node's queue with this join number."""
        self.drop(uid)
        self._joined = max(self._joined, joined + 1)
        ranked = rank(load1_micro, joined)
        self._places[uid] = (node, ranked)
        insort(self._queues.setdefault(node, []), (ranked, uid))

    def drop(self, uid: PodUid) -> None:
        place = self._places.pop(uid, None)
        if place is None:
            return
        queue = self._queues[place[0]]
        del queue[bisect_left(queue, (place[1], uid))]
        if not queue:
            del self._queues[place[0]]

    def __contains__(self, uid: PodUid) -> bool:
        return uid in self._places

    def on_node(self, node: NodeName) -> Iterator[PodUid]:
        """The pods of the node's queue in order. Do not change the queue while iterating."""
        return (uid for _, uid in self._queues.get(node, ()))

    def entries(self) -> list[tuple[NodeName, PodUid, int | None, int]]:
        """All entries as (node, pod, load, join number), sorted by node and rank. The load is in millionths; None if
        unknown."""
        return [
            (node, uid, None if ranked.without_load else ranked.load1_micro, ranked.joined)
            for node in sorted(self._queues)
            for ranked, uid in self._queues[node]
        ]

    def __len__(self) -> int:
        return len(self._places)


#: The pause after a machine's migration failed or could not begin. It doubles each time, up to the longest.
_BACKOFF: Final = ExponentialBackoff(first_seconds=5.0, longest_seconds=300.0)
#: A machine whose agent has been silent for longer does not delay the machines behind it in the queue.
_SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class MigrationBackoff:
    """The back-off of a machine that could not leave: how often in a row, and until when other machines come first."""

    failures: int
    until: Instant


class MigrationChoice:
    """Decides migrations; keeps the queues and the back-offs. `busy`: the machines that migrate already, kept up to date by the
    caller. `routes` returns the nodes of each running migration."""

    def __init__(self, cluster_state: ClusterState, *, busy: Collection[PodKey], routes: Callable[[], Sequence[Route]]) -> None:
        self._state = cluster_state
        self._busy = busy
        self._routes = routes
        self.backoffs: dict[PodKey, MigrationBackoff] = {}
        #: For each machine in back-off, the nodes to which its migration did not begin. Other nodes are better targets.
        self._avoided: dict[PodKey, set[NodeName]] = {}
        self.queue = MigrationQueue()
        #: The number of machines that wait to leave drained nodes. So many places among the concurrent migrations are kept
        #: free.
        self.places_kept = 0

    def decide(self, pod: Pod, vertical_pod: VerticalPodState, policy: Policy, now: Instant) -> NodeName | None:
        """Decides, at an agent's request, whether the agent's machine migrates now. Returns the target node; None if the
        machine stays. The decision uses the load of the agent's previous request."""
        reservation, vertical = self._state.reservations.get(pod.uid), pod.vertical
        if reservation is None or vertical is None or not policy.migration.enabled or not self._may_leave(pod, now):
            return None
        forced = vertical.always_migrate and vertical_pod.load is not None
        row = self._state.nodes.row_of.get(reservation.node)
        if row is None or not (
            forced
            or (
                self._is_head(pod.uid, reservation.node, now)
                and too_much_pressure(self._state.ledger.numbers(row), weight_ppm=policy.migration.capacity_pressure_weight)
            )
        ):
            return None
        if self.places_kept and len(self._routes()) + self.places_kept >= policy.migration.max_concurrent:
            return None
        return self._target_node(pod, reservation, policy.migration, now, above_watermark=(forced,))

    def choose_for_drain(self, pod: Pod, policy: Policy, now: Instant) -> NodeName | None:
        """The target node of a machine that has to leave because its node is drained; None if it cannot leave now.

        Prefers nodes that stay below their watermark. If there is none, takes any node where the machine fits, because the
        drain has to go on whatever the pressure elsewhere.
        """
        reservation = self._state.reservations.get(pod.uid)
        row = None if reservation is None else self._state.nodes.row_of.get(reservation.node)
        if reservation is None or row is None or not policy.migration.enabled or not self._may_leave(pod, now):
            return None
        return self._target_node(pod, reservation, policy.migration, now, above_watermark=(False, True))

    def _may_leave(self, pod: Pod, now: Instant) -> bool:
        vertical = pod.vertical
        if vertical is None or not pod.migratable or vertical.migration is not None or pod.deleting:
            return False
        machine = machine_key(pod)
        backoff = self.backoffs.get(machine)
        return machine not in self._busy and (backoff is None or backoff.until <= now)

    def _is_head(self, uid: PodUid, node: NodeName, now: Instant) -> bool:
        """Is the pod the first in its node's queue, if pods that could not leave now do not count?"""
        for other in self.queue.on_node(node):
            if other == uid:
                return True
            pod, vertical_pod = self._state.pods.get(other), self._state.vertical_pods.get(other)
            silent = vertical_pod is None or vertical_pod.heard_at is None or vertical_pod.heard_at + _SILENT_SECONDS < now
            if pod is not None and not silent and self._may_leave(pod, now):
                return False
        return False

    def _target_node(
        self, pod: Pod, reservation: Reservation, policy: MigrationPolicy, now: Instant, *, above_watermark: Sequence[bool]
    ) -> NodeName | None:
        """The target node, if the limits allow a migration from the source now. `above_watermark`: whether the target node may
        be taken above its watermark, as tried in this order. A machine that finds no node backs off."""
        routes = self._routes()
        if not room_at_source(routes, reservation.node, policy):
            return None
        need = reservation.pod_resources.reserved.minus(reservation.pod_resources.buffer)
        rows: Rows = np.flatnonzero(self._state.admitting.of(pod.kind))
        full, row_of = {reservation.node, *full_targets(routes, policy)}, self._state.nodes.row_of
        open_rows: Rows = rows[~np.isin(rows, [row_of[name] for name in full if name in row_of])]
        avoided = [row_of.get(name, NO_ROW) for name in self._avoided.get(machine_key(pod), ())]
        for above in above_watermark:
            for tried in (open_rows[~np.isin(open_rows, avoided)], open_rows) if avoided else (open_rows,):
                row = choose_target_node(need, self._state.ledger.columns, tried, above_watermark=above)
                node = None if row is None else self._state.nodes.by_row[row]
                if node is not None:
                    return node.name
        self._state.event_counts.migrations_without_target_node += 1
        self.back_off(machine_key(pod), now)
        return None

    def back_off(self, machine: PodKey, now: Instant) -> None:
        """Notes that the machine could not leave. It is not tried again during a pause, which doubles each time."""
        before = self.backoffs.get(machine)
        failures = 1 if before is None else before.failures + 1
        self.backoffs[machine] = MigrationBackoff(failures, Instant(now + _BACKOFF.seconds(failures)))

    def avoid(self, machine: PodKey, target_node: NodeName | None) -> None:
        """Prefers other target nodes for the machine, as long as its back-off is remembered."""
        if target_node is not None:
            self._avoided.setdefault(machine, set()).add(target_node)

    def succeeded(self, machine: PodKey) -> None:
        self.backoffs.pop(machine, None)
        self._avoided.pop(machine, None)

    def expire(self, now: Instant) -> None:
        """Forgets back-offs that are long over."""
        for machine in [m for m, b in self.backoffs.items() if b.until + _BACKOFF.longest_seconds < now]:
            del self.backoffs[machine]
            self._avoided.pop(machine, None)


def machine_key(pod: Pod) -> PodKey:
    """The key of the VirtualMachine that the pod belongs to."""
    assert pod.vertical is not None
    return PodKey(pod.key.namespace, pod.vertical.machine or "")
