"""What a process that starts again may find on record: of one pod, and of a node's pods together.

The annotation that is known is one possibility. Others are what a write of ours that has not ended, or ended without a word,
would leave there. Of all these the worst counts: the least where an agent is to be told something, the most where room is to be
given to somebody else. What a former process has left on its way may be less than is known: until our first write of a pod has
ended, nothing of its record is safe to be told. It may also be more: `contradictions` settles that when it is found.
"""

from collections.abc import Iterator

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.policy import Policy
from slackwater.model.columns import Int64
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.ledger.account import PodResources
from slackwater.model.objects import Pod
from slackwater.model.permit_annotation import Written
from slackwater.model.resources import NOTHING, RESOURCES, Amounts


class PersistedPermits:
    """Read by `PermitLimits`, the only writer. Call `mark` whenever a pod's resources or its persisted permit has changed."""

    def __init__(self, cluster_state: ClusterState, *, policy: Policy) -> None:
        self._ledger = cluster_state.ledger
        self._nodes = cluster_state.nodes
        self._pods = cluster_state.pods
        self._reservations = cluster_state.reservations
        self._vertical_pods = cluster_state.vertical_pods
        self.policy = policy
        #: Pods that a restart may count for more than they count for now, with how much more; and the sums by node. Many only
        #: after a start.
        self._over_reservations: dict[NodeName, dict[PodUid, Amounts]] = {}
        self._sums: dict[NodeName, Amounts] = {}
        #: Pods whose part of these is to be worked out again, when their node is asked about: one request marks its pod often.
        self._stale: dict[NodeName, dict[PodUid, None]] = {}
        #: The sums by row, (resources, rows), of the nodes as they were when names had this version.
        self._by_row: Int64 = np.zeros((len(RESOURCES), 0), np.int64)
        self._rows_are_of = -1

    def restored(self, pod: Pod) -> PodResources:
        """What a restart would count, by the text that is known. The pod is vertical."""
        return self._vertical_pods.after_restart(pod, scheduler_name=self.policy.scheduler_name)

    def safe(self, uid: PodUid, *, late: bool = True) -> Amounts:
        """The most that may be answered at once, beyond what the agent has already: what any restart would reserve.

        What the pod of a machine shows as used is no record: it lags behind what its agent does. Unless `late` is False,
        nothing is safe until what a former process may have sent can do nothing any more: it may have sent a lower permit
        limit.
        """
        pod = self._pods.known(uid)
        if pod is None or pod.vertical is None:
            return NOTHING
        vertical_pod = self._vertical_pods.get(uid)
        if late and vertical_pod is not None and not vertical_pod.fenced and self._vertical_pods.may_write(pod):
            return NOTHING
        behind = vertical_pod is not None and vertical_pod.behind
        safe = self._known(pod, behind=behind)
        for written in () if vertical_pod is None else _on_the_way(vertical_pod):
            safe = safe.at_most(written.permit if behind else written.permit_limit)
        return safe if pod.vertical.resizing is None else safe.at_least(pod.vertical.using)

    def _known(self, pod: Pod, *, behind: bool) -> Amounts:
        own, restored = self._vertical_pods.own(pod), self.restored(pod)
        if behind:
            return restored.reserved.minus(restored.buffer)
        return restored.reserved if own is None else own.permit_limit

    def excess(self, uid: PodUid) -> Amounts:
        """By how much a restart may count more for the pod than it counts for now, beyond its Buffer."""
        reservation, pod, vertical_pod = self._reservations.get(uid), self._pods.known(uid), self._vertical_pods.get(uid)
        if reservation is None or pod is None or pod.vertical is None or vertical_pod is None:
            return NOTHING
        restored = self.restored(pod)
        most = restored.reserved.minus(restored.buffer)
        for written in _on_the_way(vertical_pod):
            most = most.at_least(written.permit)
        return most.minus(reservation.pod_resources.reserved).not_below_zero()

    def mark(self, uid: PodUid) -> None:
        """The pod's account or record has changed."""
        reservation = self._reservations.get(uid)
        if reservation is not None:
            self._stale.setdefault(reservation.node, {})[uid] = None

    def _bring_up_to_date(self, node: NodeName) -> None:
        for uid in self._stale.pop(node, ()):
            self._take_out(uid, node)
            excess = self.excess(uid)
            if excess != NOTHING:
                self._over_reservations.setdefault(node, {})[uid] = excess
                self._sums[node] = self._sums.get(node, NOTHING).plus(excess)
                self._enter_row(node)

    def forget(self, uid: PodUid, node: NodeName) -> None:
        """The pod counts on the node no more."""
        stale = self._stale.get(node, {})
        if stale.pop(uid, "none") is None and not stale:
            del self._stale[node]
        self._take_out(uid, node)

    def _take_out(self, uid: PodUid, node: NodeName) -> None:
        over_reservation = self._over_reservations.get(node, {})
        excess = over_reservation.pop(uid, None)
        if excess is not None:
            self._sums[node] = self._sums[node].minus(excess)
            if not over_reservation:
                del self._over_reservations[node], self._sums[node]
            self._enter_row(node)

    def in_the_way(self, node: NodeName, *, beside: PodUid | None = None) -> list[PodUid]:
        """The pods whose records would take the node over Total, were we to restart now. `beside`: all others than this one."""
        short = self._short(node, beside)
        if not short:
            return []
        return [uid for uid, excess in self._over_reservations[node].items() if uid != beside and any(excess[r] for r in short)]

    def crowded(self, node: NodeName, *, beside: PodUid) -> bool:
        """Is anybody in the way? As `in_the_way`, at a cost that does not grow with the pods there."""
        return bool(self._short(node, beside))

    def _short(self, node: NodeName, beside: PodUid | None) -> list[int]:
        """The resources that the records of others would take over Total."""
        self._bring_up_to_date(node)
        sums, row = self._sums.get(node), self._nodes.row_of.get(node)
        if sums is None or row is None:
            return []
        own = NOTHING if beside is None else self._over_reservations[node].get(beside, NOTHING)
        others, columns = sums.minus(own), self._ledger.columns
        return [
            r for r, more in enumerate(others) if more and columns.reserved.item(r, row) + more > columns.total.item(r, row)
        ]

    def over_reservation(self) -> Int64 | None:
        """By how much a restart may count more on each row than counts now, shape (resources, rows); None where it is nothing
        on all of them. Whoever reads it must not change it."""
        for node in list(self._stale):
            self._bring_up_to_date(node)
        if not self._sums:
            return None
        if self._rows_are_of != self._nodes.names_version:
            self._rows_are_of = self._nodes.names_version
            self._by_row = np.zeros((len(RESOURCES), len(self._nodes.by_row)), np.int64)
            for node in self._sums:
                self._enter_row(node)
        return self._by_row

    def _enter_row(self, node: NodeName) -> None:
        row = self._nodes.row_of.get(node)
        if row is not None and self._rows_are_of == self._nodes.names_version:
            self._by_row[:, row] = self._sums.get(node, NOTHING)

    def over_reserved_on(self, node: NodeName) -> list[PodUid]:
        """The pods that it may count for more."""
        self._bring_up_to_date(node)
        return list(self._over_reservations.get(node, ()))

    def marked(self) -> dict[PodUid, Amounts]:
        """The excesses that count; all other pods have none."""
        for node in list(self._stale):
            self._bring_up_to_date(node)
        return {
            uid: excess for over_reservation in self._over_reservations.values() for uid, excess in over_reservation.items()
        }


def _on_the_way(vertical_pod: VerticalPodState) -> Iterator[Written]:
    """Texts that may stand there by now."""
    if vertical_pod.writing is not None:
        yield vertical_pod.writing
    yield from vertical_pod.doubted
