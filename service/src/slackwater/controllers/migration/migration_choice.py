"""Migration choice: decides which machine leaves a node under pressure now, and to which node.

- `MigrationBackoff`: the back-off of machines that could not leave.
- `MigrationChoice`: the decision, which each agent's request asks for.

In: machines as their agents report them, node sums, running migrations. Out: one machine with its target node, or nothing.
Invariant: a machine that may never migrate is in no queue, so it blocks no other machine.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.nodes import NO_ROW
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.migration.migration_queue import MigrationQueue
from slackwater.controllers.migration.target_node import Route, choose_target_node, full_targets, room_at_source
from slackwater.controllers.policy import Policy
from slackwater.model.columns import Rows
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger.ledger import too_much_pressure
from slackwater.model.objects import Pod
from slackwater.model.resources import Amounts

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
        #: For each machine in back-off, the nodes to which its migration did not begin. Other nodes are better targets.
        self._avoided: dict[PodKey, set[NodeName]] = {}
        self.queue = MigrationQueue()
        #: The number of machines that wait to leave drained nodes. So many places among the concurrent migrations are kept
        #: free.
        self.places_kept = 0

    def decide(self, pod: Pod, vertical_pod: VerticalPodState, policy: Policy, now: Instant) -> NodeName | None:
        """Decides, at an agent's request, whether the agent's machine migrates now. Returns the target node; None if the
        machine stays. The decision uses the load of the agent's previous request."""
        reservation, vertical = self._reservations.get(pod.uid), pod.vertical
        if reservation is None or vertical is None or not policy.migration.enabled or not self._may_leave(pod, now):
            return None
        forced = vertical.always_migrate and vertical_pod.load is not None
        row = self._nodes.row_of.get(reservation.node)
        if row is None or not (
            forced
            or (
                self._is_head(pod.uid, reservation.node, now)
                and too_much_pressure(self._ledger.numbers(row), weight_ppm=policy.migration.capacity_pressure_weight)
            )
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

    def choose_for_drain(self, pod: Pod, policy: Policy, now: Instant) -> NodeName | None:
        """The target node of a machine that has to leave because its node is drained; None if it cannot leave now.

        Prefers nodes that stay below their watermark. If there is none, takes any node where the machine fits, because the
        drain has to go on whatever the pressure elsewhere.
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
        if vertical is None or not pod.migratable or vertical.migration is not None or pod.deleting:
            return False
        machine = machine_key(pod)
        backoff = self._backoffs.get(machine)
        return machine not in self._busy and (backoff is None or backoff.until <= now)

    def _is_head(self, uid: PodUid, node: NodeName, now: Instant) -> bool:
        """Is the pod the first in its node's queue, if pods that could not leave now do not count?"""
        for other in self.queue.on_node(node):
            if other == uid:
                return True
            pod, vertical_pod = self._pods.get(other), self._vertical_pods.get(other)
            silent = vertical_pod is None or vertical_pod.heard_at is None or vertical_pod.heard_at + _SILENT_SECONDS < now
            if pod is not None and not silent and self._may_leave(pod, now):
                return False
        return False

    def _target_node(
        self, pod: Pod, need: Amounts, source: Row, full: Collection[NodeName], *, above_watermark: bool
    ) -> NodeName | None:
        rows: Rows = np.flatnonzero(self._admitting.of(pod.kind))
        left_out = [source, *(self._nodes.row_of[name] for name in full if name in self._nodes.row_of)]
        open_rows: Rows = rows[~np.isin(rows, left_out)]
        avoided = [self._nodes.row_of.get(name, NO_ROW) for name in self._avoided.get(machine_key(pod), ())]
        row = choose_target_node(
            need, self._ledger.columns, open_rows[~np.isin(open_rows, avoided)], above_watermark=above_watermark
        )
        if row is None and avoided:
            row = choose_target_node(need, self._ledger.columns, open_rows, above_watermark=above_watermark)
        node = None if row is None else self._nodes.by_row[row]
        return None if node is None else node.name

    def back_off(self, machine: PodKey, now: Instant) -> None:
        """Notes that the machine could not leave. It is not tried again during a pause, which doubles each time."""
        before = self._backoffs.get(machine)
        failures = 1 if before is None else before.failures + 1
        self._backoffs[machine] = MigrationBackoff(failures, Instant(now + _BACKOFF.seconds(failures)))

    def avoid(self, machine: PodKey, target_node: NodeName | None) -> None:
        """Prefers other target nodes for the machine, as long as its back-off is remembered."""
        if target_node is not None:
            self._avoided.setdefault(machine, set()).add(target_node)

    def succeeded(self, machine: PodKey) -> None:
        self._backoffs.pop(machine, None)
        self._avoided.pop(machine, None)

    def backoffs(self) -> list[tuple[PodKey, MigrationBackoff]]:
        return list(self._backoffs.items())

    def put_backoff(self, machine: PodKey, backoff: MigrationBackoff) -> None:
        self._backoffs[machine] = backoff

    def expire(self, now: Instant) -> None:
        """Forgets back-offs that are long over."""
        for machine in [m for m, b in self._backoffs.items() if b.until + _BACKOFF.longest_seconds < now]:
            del self._backoffs[machine]
            self._avoided.pop(machine, None)


def machine_key(pod: Pod) -> PodKey:
    """The key of the VirtualMachine that the pod belongs to."""
    assert pod.vertical is not None
    return PodKey(pod.key.namespace, pod.vertical.machine or "")
