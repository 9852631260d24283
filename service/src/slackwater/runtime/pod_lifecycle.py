"""Updates the cluster state and the controllers when a pod is bound, changes or ends.

Invariant: a bound pod has a reservation on its node, and no hold; a pod that has ended has no reservation either, and nobody
keeps anything for it. A new table or controller that keeps something for a pod breaks this unless `bound` and `release` call
it; tests/laws/test_what_outlives_its_object.py finds what is forgotten. Not here: pending pods, and our own binds before the
watch shows them (`controllers.placement.binding`).
"""

from collections.abc import Iterable

from slackwater.cluster.reservations import Reservation
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Activate, Effect
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.runtime.flows import Controllers
from slackwater.runtime.flows.activation import SampleNominations
from slackwater.runtime.flows.scheduling_gates import SchedulingGates


class PodLifecycle:
    """Updates the reservations, holds, counts and controllers when a pod is bound or ends, and when a node is deleted."""

    def __init__(
        self, controllers: Controllers, *, scheduling_gates: SchedulingGates, sample_nominations: SampleNominations
    ) -> None:
        self._controllers = controllers
        self._state = controllers.state
        self._scheduling_gates = scheduling_gates
        self._sample_nominations = sample_nominations

    def bound(self, pod: Pod, node: NodeName, policy: Policy, now: Instant, *, synced: bool) -> list[Effect]:
        """Makes a reservation for a pod that the watch shows bound to `node`, or updates its reservation there. Ends the pod's
        holds. Returns the effects. `synced`: the initial lists are complete."""
        reservation = self._state.reservations.get(pod.uid)
        if len(self._state.holds.destinations) and (reservation is None or reservation.state != "seen"):
            self._state.holds.destinations.bound(pod, node)
        if reservation is None or reservation.node != node:
            # Pods of the first list were bound before this process started. Later ones were bound by kube-scheduler on our
            # answer (expected), or by another scheduler.
            admitted = self._admit(pod.uid, node)
            expected = reservation is None and not policy.bind and admitted
            self._state.event_counts.confirmed += expected
            self._state.event_counts.adopted += synced and not expected
            self._count(pod, node, policy, admitted=admitted)
        else:
            self.recount(pod, reservation, policy)
            if reservation.state != "seen":
                self._state.event_counts.confirmed += 1
                self._state.reservations.settle(pod.uid, "seen", None)
        self._sample_nominations.ended(pod.uid, node)
        self._controllers.chosen_nodes.ended(pod.uid, node)
        self._forget(pod.uid)
        effects = self._holds_ended(pod.uid, node)
        if pod.vertical is None:
            return effects
        self._controllers.migrating.pod_seen(pod, now)
        return effects + self._controllers.permit_limits.ensure(pod.uid, now)

    def _holds_ended(self, uid: PodUid, node: NodeName | None) -> list[Effect]:
        """Ends the pod's holds, because it is bound to `node` or has ended (None). Activates pods that were refused because of
        holds, if the pod held room on another node."""
        row = self._state.nodes.row_of.get(node) if node else None
        unused = self._state.holds.rows_of(uid) - {row}
        self._state.holds.drop_all(uid, row)
        return self._state.unschedulable_pods.activate_held() if unused else []

    def recount(self, pod: Pod, reservation: Reservation, policy: Policy) -> None:
        """Updates the pod's reservation to the resources that the watch shows now."""
        pod_resources = self._state.vertical_pods.seen(pod, reservation.pod_resources, scheduler_name=policy.scheduler_name)
        if pod_resources != reservation.pod_resources:
            self._state.reservations.recount(pod.uid, pod_resources)
            self._count_over_total(reservation.node)
            self._controllers.disagreements.resized(reservation.node)

    def _count(self, pod: Pod, node: NodeName, policy: Policy, *, admitted: bool) -> None:
        self._state.reservations.drop(pod.uid)
        vertical_pods = self._state.vertical_pods
        pod_resources = (
            vertical_pods.placed(pod) if admitted else vertical_pods.found(pod, scheduler_name=policy.scheduler_name)
        )
        self._state.reservations.put(pod.uid, Reservation.of(pod, node, pod_resources, "seen", None))
        self._count_over_total(node)

    def adopt_growing(self, policy: Policy, now: Instant) -> None:
        """Computes the reservations of all vertical pods from their API objects again, as a starting process does."""
        cluster_state, migrating = self._state, self._controllers.migrating
        found = [
            (pod, pod.node)
            for uid, _ in cluster_state.vertical_pods.items()
            if (pod := cluster_state.pods.get(uid)) is not None
        ]
        for pod, node in found:
            if node is not None:
                self._count(pod, node, policy, admitted=self._admit(pod.uid, node))
        migrating.found_again()
        for pod, _ in found:
            migrating.pod_seen(pod, now)

    def node_seen(self, node: Node, policy: Policy, now: Instant) -> list[Effect]:
        """Adds or updates the node as the watch shows it. Activates refused pods if room appeared."""
        cluster_state = self._state
        row = cluster_state.nodes.row_of.get(node.name)
        before = None if row is None else cluster_state.nodes.by_row[row]
        room_appeared = cluster_state.nodes.put(node)
        if row is None:
            cluster_state.reservations.node_opened(node.name, cluster_state.nodes.row_of[node.name])
            cluster_state.quarantine.node_opened(node.name)
            cluster_state.planned_nodes.node_opened(node, cluster_state.nodes.row_of[node.name], now)
        if node.ready and (before is None or not before.ready):
            cluster_state.planned_nodes.node_ready(cluster_state.nodes.row_of[node.name], now)
        if before is None or before.allocatable != node.allocatable:
            # Permits found in annotations count no more than the node has.
            for uid in cluster_state.reservations.on_node(node.name):
                pod, reservation = cluster_state.pods.get(uid), cluster_state.reservations.get(uid)
                if pod is not None and pod.vertical is not None and reservation is not None:
                    self.recount(pod, reservation, policy)
                    self._controllers.permit_limits.persisted_permits.mark(uid)
        room_appeared = cluster_state.quarantine.readable(node.uid) or room_appeared
        return cluster_state.unschedulable_pods.activate_recent(now) if room_appeared else []

    def node_gone(self, name: NodeName) -> None:
        """Removes the deleted node. Its pods keep their reservations until the watch shows that they have ended."""
        cluster_state = self._state
        row = cluster_state.nodes.row_of.get(name)
        self._controllers.preemptions.node_gone(name)
        self._controllers.disagreements.node_gone(name)
        cluster_state.event_counts.over_total_on.pop(name, None)
        if row is not None:
            cluster_state.quarantine.node_closing(name)
            cluster_state.reservations.node_closing(name)
            cluster_state.holds.node_closing(row)
            cluster_state.nodes.drop(name)

    def _admit(self, uid: PodUid, node: NodeName) -> bool:
        """Did filter answer that the node is feasible for the pod? If so, kube-scheduler may have bound the pod there."""
        row = self._state.nodes.row_of.get(node)
        return row is not None and row in self._state.holds.rows_of(uid)

    def _count_over_total(self, node: NodeName) -> None:
        row = self._state.nodes.row_of.get(node)
        if row is not None and self._state.ledger.is_over(row):
            self._state.event_counts.over_total += 1
            self._state.event_counts.over_total_on[node] = self._state.event_counts.over_total_on.get(node, 0) + 1

    def release(self, uid: PodUid, now: Instant) -> list[Effect]:
        """Drops everything that is kept for the pod, because the pod has ended. Activates refused pods if room appeared."""
        self._sample_nominations.ended(uid, None)
        self._controllers.chosen_nodes.ended(uid, None)
        self._forget(uid)
        self._controllers.disagreements.ended(uid)
        reservation = self._state.reservations.drop(uid)
        opened = self._state.quarantine.readable(uid)
        effects = self._holds_ended(uid, None)
        return effects + (self._state.unschedulable_pods.activate_recent(now) if reservation is not None or opened else [])

    def activate_all_of(self, uids: Iterable[PodUid], why: str) -> list[Effect]:
        """Returns the effects that make kube-scheduler try these pods again (`Activate`), but none for pods that have a node by
        now. `why`: the reason, which is written to the pod's annotation."""
        waiting = ((uid, self._state.pods.get(uid)) for uid in uids)
        return [Activate(uid, pod.key, why) for uid, pod in waiting if pod is not None and pod.node is None]

    def _forget(self, uid: PodUid) -> None:
        """Drops everything that was kept for the pod because it was pending."""
        self._state.bind_backoff.forget(uid)
        self._state.unschedulable_pods.forget(uid)
        self._controllers.preemptions.accepted.forget(uid)
        self._controllers.preemptions.preemptor_gone(uid)
        self._controllers.preemptors.forget(uid)
        self._scheduling_gates.forget(uid)
        self._controllers.conditions.forget(uid)
        self._controllers.disagreements.forget(uid)
