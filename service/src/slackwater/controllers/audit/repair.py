"""Repair of a node's sums: computes them again from the node, its pods and its holds.

Deliberately absent: the comparison of the node's pods with the API server, which the audit does before.
"""

from collections.abc import Callable

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.audit.differences import orphans_on, sums_on, wanted_held, wrong_held, wrong_on
from slackwater.model.effects import Announce, Effect
from slackwater.model.events import AuditEvent, NodeAudited, NodeDoubted, ObjectUnreadable, PodAudited
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod


class AuditRepair:
    """Repairs the cluster state after an audit, and puts nodes into quarantine or ends it. `seen` handles a pod that was read
    as if the watch had shown it; `release` ends all that counts for a pod. Both return effects."""

    def __init__(
        self,
        cluster_state: ClusterState,
        *,
        seen: Callable[[Pod, Instant], list[Effect]],
        release: Callable[[PodUid, Instant], list[Effect]],
    ) -> None:
        self._state = cluster_state
        self._seen = seen
        self._release = release

    def apply(self, event: AuditEvent, now: Instant) -> list[Effect]:
        """Repairs what an audit found. Returns the effects to carry out."""
        match event:
            case PodAudited(pod):
                return self._pod_audited(pod, now)
            case NodeDoubted(name, why):  # an impossible state, so no new pod is placed there
                self._state.quarantine.put(name, why, now)
                return []
            case NodeAudited(name):
                effects = [effect for uid in orphans_on(self._state, name) for effect in self._release(uid, now)]
                repaired = self._repair_sums(name, now)
                return effects + (self._state.unschedulable_pods.activate_recent(now) if repaired else [])
            case ObjectUnreadable():
                return self._unreadable(event, now)

    def _pod_audited(self, pod: Pod, now: Instant) -> list[Effect]:
        cluster_state = self._state
        known, reservation = cluster_state.pods.get(pod.uid), cluster_state.reservations.get(pod.uid)
        if cluster_state.pods.is_gone(pod.uid) or (known is not None and known.resource_version > pod.resource_version):
            return []
        effects: list[Effect] = []
        if pod.node is None and reservation is not None and reservation.state == "seen":  # no pod loses its node
            cluster_state.reservations.drop(pod.uid)
            effects = cluster_state.unschedulable_pods.activate_recent(now)
        return effects + self._seen(pod, now)

    def _unreadable(self, event: ObjectUnreadable, now: Instant) -> list[Effect]:
        """Quarantines the node where an unreadable object counts, since what the object requests is not known; ends the
        quarantine if the object counts nowhere any more. If the cluster state has it as a pod, an Event on the pod says so
        once."""
        uid = PodUid(event.uid)
        reservation, pod = self._state.reservations.get(uid), self._state.pods.get(uid)
        if event.node is None and (reservation is None or reservation.state == "seen"):  # else its bind is in progress
            if pod is not None and pod.node is None:  # pending
                return []
            if pod is not None:  # no pod loses its node, so it has ended
                self._state.pods.drop(uid, pod.key, now)
            return self._release(uid, now)
        node = event.node if reservation is None else reservation.node
        assert node is not None
        first = not self._state.quarantine.has_object(event.uid)
        self._state.quarantine.close_for(event.uid, node, f"{event.name} cannot be read: {event.why}", now)
        if pod is None or not first:
            return []
        return [Announce(pod.uid, pod.key, "Warning", "Unreadable", f"Node {node} takes no pods meanwhile: {event.why}")]

    def _repair_sums(self, name: NodeName, now: Instant) -> bool:
        """Repairs the node's sums, and ends its quarantine. True if room may have appeared. False if the node is gone, or if a
        sum is still wrong: the node is then quarantined."""
        cluster_state = self._state
        row = cluster_state.nodes.row_of.get(name)
        if row is None:
            return False
        cluster_state.reservations.recompute_row(name, row)
        sums = sums_on(cluster_state, name)
        cluster_state.ledger.restate(
            row,
            reserved=sums.reserved,
            buffer=sums.buffer,
            capacity_pressure=sums.capacity_pressure,
            pressure_accounted_for=sums.pressure_accounted_for,
            held=wanted_held(cluster_state)[:, row],
        )
        cluster_state.reservations.priority_shares.restate(row, sums.by_priority)
        cluster_state.nodes.recompute_capacity(name)
        still = [
            *wrong_on(cluster_state, name),
            *(found for found in wrong_held(cluster_state) if found.object == f"node {name}"),
        ]
        if still:
            self._state.quarantine.put(name, "; ".join(map(str, still)), now)
            return False
        self._state.quarantine.lift(name)
        cluster_state.nodes.room_appeared(row)
        return True
