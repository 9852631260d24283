"""Migration choice: which machine leaves a crowded node now, and to which node. Each agent's request asks this.

The rules are in the other modules of `controllers/migration`; this one has the input to them and the back-offs of machines that
could not leave.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.policy import MigrationPolicy
from slackwater.controllers.migration.queue import MigrationQueue
from slackwater.controllers.policy import Policy
from slackwater.fit.filter.ledger_fit import judge_ledger
from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.columns import Mask, NodeColumns, Rows, vertical
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger.pressure import too_much_pressure
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import NOTHING, Amounts

#: Source and target of a migration; each is None if not known.
Route = tuple[NodeName | None, NodeName | None]


def room_at_source(running: Iterable[Route], source: NodeName, policy: MigrationPolicy) -> bool:
    """May one more migration leave `source`?"""
    sources = [route[0] for route in running]
    return len(sources) < policy.max_concurrent and sources.count(source) < policy.max_per_source


def full_targets(running: Iterable[Route], policy: MigrationPolicy) -> set[NodeName]:
    """The nodes where no more migrations may arrive."""
    arriving = Counter(target for _, target in running if target is not None)
    return {node for node, count in arriving.items() if count >= policy.max_per_target}


def choose_target_node(need: Amounts, columns: NodeColumns, rows: Rows, *, above_watermark: bool = False) -> Row | None:
    """The row that is least full once the machine is there; None if it fits on none.

    `rows` are those that the other rules allow. A target above its watermark would only move the pressure, and then the machine
    again. It is allowed for machines that migrate whatever the pressure is (`above_watermark`).
    """
    fitting = rows[judge_ledger(need, columns, rows) == Reason.OK]
    after = columns.reserved[:, fitting] + columns.held[:, fitting] + vertical(need)
    if not above_watermark:
        below: Mask = np.asarray((after <= columns.watermark[:, fitting]).all(axis=0))
        fitting, after = fitting[below], after[:, below]
    if not len(fitting):
        return None
    fullness = (after / np.maximum(columns.total[:, fitting], 1)).max(axis=0)
    return Row(int(fitting[np.lexsort((fitting, fullness))[0]]))


#: Before a machine whose migration failed, or could not begin, is tried again; doubled each time, up to the longest.
_BACKOFF: Final = ExponentialBackoff(first_seconds=5.0, longest_seconds=300.0)
#: A machine whose agent has been silent for longer does not hold the others up.
_SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class MigrationBackoff:
    """How often in a row a machine could not leave, and until when others come first."""

    failures: int
    until: Instant


class MigrationChoice:
    """Decides migrations; keeps the queues and the back-offs. `busy` are the machines that migrate already."""

    def __init__(self, cluster_state: ClusterState, *, busy: Collection[PodKey], routes: Callable[[], Sequence[Route]]) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods
        self._admitting = cluster_state.admitting
        self._event_counts = cluster_state.event_counts
        self._busy = busy
        self._routes = routes
        self._backoffs: dict[PodKey, MigrationBackoff] = {}
        self.queue = MigrationQueue()
        #: The number of machines that wait to leave drained nodes; so many of the concurrent migrations are kept for them.
        self.places_kept = 0

    def decide(self, pod: Pod, vertical_pod: VerticalPodState, policy: Policy, now: Instant) -> NodeName | None:
        """Decides, for an agent's request, whether its machine leaves now; the target node, or None. The load it reads is that
        of the agent's previous request."""
        reservation, vertical = self._reservations.get(pod.uid), pod.vertical
        if reservation is None or vertical is None or not policy.migration.enabled or not self._may_leave(pod, now):
            return None
        forced = vertical.always_migrate and vertical_pod.load is not None
        row = self._nodes.row_of.get(reservation.node)
        if row is None or not (
            forced or (self._is_head(pod.uid, reservation.node, now) and self._too_much(reservation.node, row, policy, now))
        ):
            return None
        routes = self._routes()
        if len(routes) + self.places_kept >= policy.migration.max_concurrent and self.places_kept:
            return None
        if not room_at_source(routes, reservation.node, policy.migration):
            return None
        need = reservation.pod_resources.reserved.minus(reservation.pod_resources.buffer)
        target_node = self._target_node(pod, need, row, full_targets(routes, policy.migration), above_watermark=forced)
        if target_node is None:
            self._event_counts.migrations_without_target_node += 1
            self.back_off(machine_key(pod), now)
        return target_node

    def leave(self, pod: Pod, policy: Policy, now: Instant) -> NodeName | None:
        """The target node of a machine that has to leave because its node is drained; None if it cannot leave now.

        A node below its watermark if there is one, else any that fits: the drain goes on whatever the pressure elsewhere.
        """
        reservation = self._reservations.get(pod.uid)
        row = None if reservation is None else self._nodes.row_of.get(reservation.node)
        if reservation is None or row is None or not policy.migration.enabled or not self._may_leave(pod, now):
            return None
        routes = self._routes()
        if not room_at_source(routes, reservation.node, policy.migration):
            return None
        need, full = (
            reservation.pod_resources.reserved.minus(reservation.pod_resources.buffer),
            full_targets(routes, policy.migration),
        )
        target_node = self._target_node(pod, need, row, full, above_watermark=False)
        target_node = target_node or self._target_node(pod, need, row, full, above_watermark=True)
        if target_node is None:
            self._event_counts.migrations_without_target_node += 1
            self.back_off(machine_key(pod), now)
        return target_node

    def _may_leave(self, pod: Pod, now: Instant) -> bool:
        vertical = pod.vertical
        if vertical is None or not vertical.migratable or vertical.migration is not None or pod.deleting:
            return False
        machine = machine_key(pod)
        backoff = self._backoffs.get(machine)
        return machine not in self._busy and (backoff is None or backoff.until <= now)

    def _is_head(self, uid: PodUid, node: NodeName, now: Instant) -> bool:
        """Is the pod the first in its node's queue among those that could leave now? The others do not delay it."""
        for other in self.queue.on_node(node):
            if other == uid:
                return True
            pod, vertical_pod = self._pods.get(other), self._vertical_pods.get(other)
            silent = vertical_pod is None or vertical_pod.heard_at is None or vertical_pod.heard_at + _SILENT_SECONDS < now
            if pod is not None and not silent and self._may_leave(pod, now):
                return False
        return False

    def _too_much(self, node: NodeName, row: Row, policy: Policy, now: Instant) -> bool:
        numbers = self._ledger.numbers(row)
        if policy.migration.sustained_seconds:
            numbers = numbers._replace(capacity_pressure=self._sustained(node, policy, now))
        return too_much_pressure(numbers, weight_ppm=policy.migration.weight_ppm)

    def _sustained(self, node: NodeName, policy: Policy, now: Instant) -> Amounts:
        """The node's CapacityPressure from pods that have been denied growth for long enough."""
        since, amounts = now - policy.migration.sustained_seconds, NOTHING
        for uid in self._reservations.on_node(node):
            vertical_pod, reservation = self._vertical_pods.get(uid), self._reservations.get(uid)
            if (
                vertical_pod is not None
                and reservation is not None
                and vertical_pod.denied_since is not None
                and vertical_pod.denied_since <= since
            ):
                amounts = amounts.plus(reservation.pod_resources.capacity_pressure)
        return amounts

    def _target_node(
        self, pod: Pod, need: Amounts, source: Row, full: Collection[NodeName], *, above_watermark: bool
    ) -> NodeName | None:
        rows: Rows = np.flatnonzero(self._admitting.of(pod.kind))
        left_out = [source, *(self._nodes.row_of[name] for name in full if name in self._nodes.row_of)]
        row = choose_target_node(need, self._ledger.columns, rows[~np.isin(rows, left_out)], above_watermark=above_watermark)
        node = None if row is None else self._nodes.by_row[row]
        return None if node is None else node.name

    def back_off(self, machine: PodKey, now: Instant) -> None:
        """Notes that the machine could not leave. It is passed over for a pause, which doubles each time."""
        before = self._backoffs.get(machine)
        failures = 1 if before is None else before.failures + 1
        self._backoffs[machine] = MigrationBackoff(failures, Instant(now + _BACKOFF.seconds(failures)))

    def succeeded(self, machine: PodKey) -> None:
        self._backoffs.pop(machine, None)

    def backoffs(self) -> list[tuple[PodKey, MigrationBackoff]]:
        return list(self._backoffs.items())

    def put_backoff(self, machine: PodKey, backoff: MigrationBackoff) -> None:
        self._backoffs[machine] = backoff

    def expire(self, now: Instant) -> None:
        """Forgets back-offs that are long over."""
        for machine in [m for m, b in self._backoffs.items() if b.until + _BACKOFF.longest_seconds < now]:
            del self._backoffs[machine]


def machine_key(pod: Pod) -> PodKey:
    """The key of the VirtualMachine that the pod belongs to."""
    assert pod.vertical is not None
    return PodKey(pod.key.namespace, pod.vertical.machine or "")
