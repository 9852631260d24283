"""Persisted permits: what a restarted process may find in the permit annotations of a pod and of a node's pods together.

- `PersistedPermits`: what a restart would count, from the known annotations and the writes under way.
- `doubt_conflicting_permits`: finds persisted permits that cannot all be true.

In: annotations as the watch shows them, and writes as they begin and end. Out: the bounds within which permits may be answered
and room given away. Invariant: the worst case is assumed, that is, the minimum for answers and the maximum for capacity.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.vertical_pods import VerticalPodState
from slackwater.controllers.policy import Policy
from slackwater.model.columns import Int64
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.permits import PersistedPermit
from slackwater.model.pod_resources import PodResources
from slackwater.model.resources import NOTHING, RESOURCES, Amounts


class PersistedPermits:
    """The persisted permits as a restart would count them. Only `PermitLimits` writes them.

    A restart may find the annotation that the watch has shown, or the permit of one of our writes that have not ended or ended
    without an answer. The worst case is assumed: the minimum for what an agent is answered, the maximum for capacity that is
    given to other pods. A write that a former process left under way may contain a lower permit than the annotation. So until
    our first write for a pod has ended, nothing persisted for the pod is safe to answer. It may also contain a higher permit;
    `doubt_conflicting_permits` finds that. Call `mark` whenever a pod's resources or annotation have changed.
    """

    def __init__(self, cluster_state: ClusterState, *, policy: Policy) -> None:
        self._state = cluster_state
        self.policy = policy
        #: The over-reservations that are not zero: by how much more a restart may count for a pod than the pod counts for now;
        #: and their sums by node. There are many only after a start.
        self._over_reservations: dict[NodeName, dict[PodUid, Amounts]] = {}
        self._sums: dict[NodeName, Amounts] = {}
        #: Pods whose over-reservation must be computed again. This waits until their node's over-reservations are read, because
        #: one request marks its pod several times.
        self._stale: dict[NodeName, dict[PodUid, None]] = {}
        #: `_sums` by row, shape (resources, rows), while the nodes' `names_version` is `_rows_are_of`.
        self._by_row: Int64 = np.zeros((len(RESOURCES), 0), np.int64)
        self._rows_are_of = -1

    def restored(self, pod: Pod) -> PodResources:
        """What a restart would count for a vertical pod, by the annotation that the watch has shown."""
        return self._state.vertical_pods.after_restart(pod, scheduler_name=self.policy.scheduler_name)

    def safe(self, uid: PodUid, *, late: bool = True) -> Amounts:
        """The most that an agent may be answered without a write, unless it has more already: what any restart would reserve.

        The use that a machine's pod shows does not count as persisted, because it lags behind what the agent does. `late`: take
        into account that a former process may have sent a lower permit limit; then nothing is safe until no write of that
        process can have an effect any more.
        """
        pod = self._state.pods.known(uid)
        if pod is None or pod.vertical is None:
            return NOTHING
        vertical_pod = self._state.vertical_pods.get(uid)
        if late and vertical_pod is not None and not vertical_pod.fenced and self._state.vertical_pods.may_write(pod):
            return NOTHING
        lagging = vertical_pod is not None and vertical_pod.lagging
        safe = self._known(pod, lagging=lagging)
        for written in () if vertical_pod is None else _on_the_way(vertical_pod):
            safe = safe.at_most(written.permit if lagging else written.permit_limit)
        return safe if pod.vertical.resizing is None else safe.at_least(pod.vertical.using)

    def _known(self, pod: Pod, *, lagging: bool) -> Amounts:
        own, restored = self._state.vertical_pods.own(pod), self.restored(pod)
        if lagging:
            return restored.reserved.minus(restored.buffer)
        return restored.reserved if own is None else own.permit_limit

    def over_reservation_of(self, uid: PodUid) -> Amounts:
        """The pod's over-reservation: by how much what a restart may count for the pod, without Buffer, exceeds what the pod
        counts for now."""
        state = self._state
        reservation, pod, vertical_pod = state.reservations.get(uid), state.pods.known(uid), state.vertical_pods.get(uid)
        if reservation is None or pod is None or pod.vertical is None or vertical_pod is None:
            return NOTHING
        restored = self.restored(pod)
        most = restored.reserved.minus(restored.buffer)
        for written in _on_the_way(vertical_pod):
            most = most.at_least(written.permit)
        return most.minus(reservation.pod_resources.reserved).not_below_zero()

    def mark(self, uid: PodUid) -> None:
        """Notes that the pod's resources or annotation have changed."""
        reservation = self._state.reservations.get(uid)
        if reservation is not None:
            self._stale.setdefault(reservation.node, {})[uid] = None

    def _bring_up_to_date(self, node: NodeName) -> None:
        for uid in self._stale.pop(node, ()):
            self._take_out(uid, node)
            over_reservation_of = self.over_reservation_of(uid)
            if over_reservation_of != NOTHING:
                self._over_reservations.setdefault(node, {})[uid] = over_reservation_of
                self._sums[node] = self._sums.get(node, NOTHING).plus(over_reservation_of)
                self._enter_row(node)

    def forget(self, uid: PodUid, node: NodeName) -> None:
        """Removes a pod that no longer counts on the node."""
        stale = self._stale.get(node, {})
        if stale.pop(uid, "none") is None and not stale:
            del self._stale[node]
        self._take_out(uid, node)

    def _take_out(self, uid: PodUid, node: NodeName) -> None:
        over_reservation = self._over_reservations.get(node, {})
        over_reservation_of = over_reservation.pop(uid, None)
        if over_reservation_of is not None:
            self._sums[node] = self._sums[node].minus(over_reservation_of)
            if not over_reservation:
                del self._over_reservations[node], self._sums[node]
            self._enter_row(node)

    def blocking_pods(self, node: NodeName, *, beside: PodUid | None = None) -> list[PodUid]:
        """The pods other than `beside` whose persisted permits would take the node over Total if this process restarted now."""
        short = self._short(node, beside)
        if not short:
            return []
        return [
            uid
            for uid, over_reservation_of in self._over_reservations[node].items()
            if uid != beside and any(over_reservation_of[r] for r in short)
        ]

    def is_blocked(self, node: NodeName, *, beside: PodUid) -> bool:
        """Is `blocking_pods` not empty? The cost does not grow with the pods on the node."""
        return bool(self._short(node, beside))

    def _short(self, node: NodeName, beside: PodUid | None) -> list[int]:
        """The indices of the resources of which Reserved and the over-reservations of all pods but `beside` exceed Total."""
        self._bring_up_to_date(node)
        sums, row = self._sums.get(node), self._state.nodes.row_of.get(node)
        if sums is None or row is None:
            return []
        own = NOTHING if beside is None else self._over_reservations[node].get(beside, NOTHING)
        others, columns = sums.minus(own), self._state.ledger.columns
        return [
            r for r, more in enumerate(others) if more and columns.reserved.item(r, row) + more > columns.total.item(r, row)
        ]

    def over_reservation(self) -> Int64 | None:
        """By how much what a restart may count on each row exceeds what counts now, shape (resources, rows); None if on no row.
        The caller must not change the array."""
        for node in list(self._stale):
            self._bring_up_to_date(node)
        if not self._sums:
            return None
        if self._rows_are_of != self._state.nodes.names_version:
            self._rows_are_of = self._state.nodes.names_version
            self._by_row = np.zeros((len(RESOURCES), len(self._state.nodes.by_row)), np.int64)
            for node in self._sums:
                self._enter_row(node)
        return self._by_row

    def _enter_row(self, node: NodeName) -> None:
        row = self._state.nodes.row_of.get(node)
        if row is not None and self._rows_are_of == self._state.nodes.names_version:
            self._by_row[:, row] = self._sums.get(node, NOTHING)

    def over_reserved_on(self, node: NodeName) -> list[PodUid]:
        """The pods on the node whose over-reservation is not zero."""
        self._bring_up_to_date(node)
        return list(self._over_reservations.get(node, ()))

    def marked(self) -> dict[PodUid, Amounts]:
        """All over-reservations that are not zero, by pod."""
        for node in list(self._stale):
            self._bring_up_to_date(node)
        return {
            uid: over_reservation_of
            for over_reservation in self._over_reservations.values()
            for uid, over_reservation_of in over_reservation.items()
        }


def _on_the_way(vertical_pod: VerticalPodState) -> Iterator[PersistedPermit]:
    """The permits in our writes that may have reached the pod's annotation by now."""
    if vertical_pod.writing is not None:
        yield vertical_pod.writing
    yield from vertical_pod.unconfirmed


def doubt_conflicting_permits(state: ClusterState) -> None:
    """Finds persisted permits that cannot all be true, and puts permits in doubt until what is certain fits on each node, or no
    permit is left that could be doubted. Runs once, when everything has been listed.

    No process knowingly lets the persisted permits of a node exceed its Total (`permit_limits`). But a write of a dead process
    may arrive after its successor has listed and has given the room to another pod. An agent is answered only when its write is
    known to have arrived, so no agent was ever answered by such a write. Each process writes permits with an epoch that is
    higher than all that it found. Where the persisted permits of a node and the pods bound there exceed its Total, the permits
    of the oldest epochs are in doubt: they stay Reserved, as Buffer, until their agents have asked again (docs/adr/0011). The
    search looks at every node, and at single pods only on nodes over Total.
    """
    for row, node in state.nodes:
        if _fits(state, row):
            continue
        epochs = ((state.vertical_pods.epoch_of(uid), uid) for uid in state.reservations.on_node(node.name))
        for _, group in groupby(sorted((epoch, uid) for epoch, uid in epochs if epoch is not None), key=itemgetter(0)):
            if _fits(state, row):
                break
            for _, uid in group:
                vertical_pod, reservation = state.vertical_pods.get(uid), state.reservations.get(uid)
                assert vertical_pod is not None
                assert reservation is not None
                vertical_pod.doubtful = True
                state.reservations.recount(uid, replace(reservation.pod_resources, buffer=reservation.pod_resources.reserved))


def _fits(state: ClusterState, row: Row) -> bool:
    numbers = state.ledger.numbers(row)
    return numbers.reserved.minus(numbers.buffer).within(numbers.total)
