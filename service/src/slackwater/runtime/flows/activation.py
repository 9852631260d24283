"""Helps refused pods that fit by now: activates unschedulable pods, and nominates nodes for pods with sample misses.

- `UnschedulableActivation`: pods that kube-scheduler has not retried by itself.
- `SampleNominations`: pods whose whole sample of nodes was refused, although another node fits.

In: the cluster state after a change, and time. Out: the effects `Activate` and `Nominate`. Invariant: among equally large pods,
no more are activated than fit.
"""

from collections import Counter, deque
from typing import Final

import numpy as np

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.holds import Hold, HoldKey
from slackwater.controllers.placement.tried_nodes import SampleMiss
from slackwater.controllers.policy import Policy
from slackwater.fit.score_curve import fractions
from slackwater.model.effects import Activate, Effect, Nominate
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, Kind
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.runtime.flows import Controllers
from slackwater.runtime.flows.filter import PlacementFlow

#: How long an activated pod counts as using the room for which it was activated. By then kube-scheduler has tried it.
_AWAITED_SECONDS: Final = 12.0
#: The most cached answers; the cache is valid as long as no room appears.
_MOST_KEPT: Final = 256


class UnschedulableActivation:
    """Activates unschedulable pods for which there is room by now.

    kube-scheduler retries a pod when it sees room appear. If our watch is later than its own, kube-scheduler asks too early, is
    refused from our older state, and does not retry for that event: the pod would wait for the next event or for five minutes.
    So a pod is judged again once its refusal is older than the time that kube-scheduler's retry takes, and activated if it
    fits.
    """

    def __init__(self, cluster_state: ClusterState, placement: PlacementFlow) -> None:
        self._state = cluster_state
        self._placement = placement
        #: The number of activated pods that still count, by their requests; and until when each of them counts.
        self._awaited: Counter[Amounts] = Counter()
        self._awaited_until: deque[tuple[Instant, Amounts]] = deque()
        #: Cache: for how many pods with equal requests and constraints there is room, at `_version`.
        self._kept: dict[tuple[Kind, Amounts, int], int] = {}
        self._version = (0, 0)
        #: The most unreserved room of any node, per resource.
        self._largest = NOTHING

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Judges some of the pods whose refusal is old enough, and activates those that fit."""
        while self._awaited_until and self._awaited_until[0][0] <= now:
            self._awaited -= Counter((self._awaited_until.popleft()[1],))
        effects: list[Effect] = []
        for pod in self._state.unschedulable_pods.overdue(now):
            if self._awaited[pod.need] < self._room_for(pod, policy, now):
                effects += self._state.unschedulable_pods.activate([pod.uid], "room-missed")
                self._awaited[pod.need] += 1
                self._awaited_until.append((Instant(now + _AWAITED_SECONDS), pod.need))
        return effects

    def _room_for(self, pod: Pod, policy: Policy, now: Instant) -> int:
        """For how many pods with this pod's requests and constraints there is room; cached."""
        version = int(self._state.nodes.room_version.sum()), self._state.nodes.rules_version
        if version != self._version or len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
            self._version = version
            columns = self._state.ledger.columns
            self._largest = amounts_of((columns.total - columns.reserved).max(axis=1).tolist())
        if any(want > most for want, most in zip(pod.need, self._largest, strict=True) if want):
            return 0
        if pod.kind.n_rules > MOST_RULES:  # it is not known which nodes accept it, and the cache would keep all its rules
            return 0
        key = pod.kind, pod.need, pod.priority
        if key not in self._kept:
            self._kept[key] = self._counted(pod, policy, now)
        return self._kept[key]

    def _counted(self, pod: Pod, policy: Policy, now: Instant) -> int:
        rows = self._state.nodes.live_rows()
        rows = rows[self._placement.passing_beside_holds(pod, rows, policy, now)]
        if not len(rows):  # the usual case; the constraints of nodes cost more to check
            return 0
        rows = rows[self._state.admitting.of(pod.kind)[rows]]
        free, need = self._state.ledger.columns.free(rows), pod.need.column
        # At least one: the pod is feasible there, perhaps on room of nominees with lower priority.
        fitting = np.where(need > 0, free // np.maximum(need, 1), np.iinfo(np.int64).max).min(axis=0, initial=1 << 20)
        return int(np.maximum(fitting, 1).sum())


#: The most pods nominated in one tick; the others follow in the next ticks.
_MAX_PER_TICK: Final = 16


class SampleNominations:
    """Nominates a node for each pod with a sample miss, holds room there, and counts the pods that were then bound to it."""

    def __init__(self, controllers: Controllers, placement: PlacementFlow) -> None:
        self._controllers = controllers
        self._state = controllers.state
        self._placement = placement

    def due(self, policy: Policy, now: Instant) -> list[Effect]:
        """Nominates a node for each pod with a sample miss whose failed scheduling cycle is over. Forgets the sample miss if
        the pod fits nowhere or nomination is paused."""
        self._controllers.sample_misses.expire(now)
        effects: list[Effect] = []
        for uid, sample_miss in self._controllers.sample_misses.due(now)[:_MAX_PER_TICK]:
            pod = self._state.pods.known(uid)
            waiting = pod is not None and pod.node is None and self._state.reservations.get(uid) is None
            wanted = waiting and not policy.nominations_paused
            node = self._choose(pod, sample_miss, policy, now) if pod is not None and wanted else None
            if pod is None or node is None:
                self._controllers.sample_misses.forget(uid)
                continue
            until, row = Instant(now + policy.hold_timeout), Row(self._state.nodes.row_of[node])
            hold = Hold(key=pod.key, row=row, amounts=pod.need, deadline=until, nominee=pod.priority)
            self._state.holds.put(HoldKey(uid), hold)
            self._controllers.sample_misses.nominated(uid, node)
            self._state.event_counts.nominations += 1
            self._state.event_counts.holds += 1
            effects += [Nominate(uid, pod.key, node), Activate(uid, pod.key, "nominated")]
        return effects

    def _choose(self, pod: Pod, sample_miss: SampleMiss, policy: Policy, now: Instant) -> NodeName | None:
        tried = [row for name in sample_miss.tried if (row := self._state.nodes.row_of.get(name)) is not None]
        with self._state.holds.beside(pod):
            rows = self._placement.fitting_elsewhere(pod, np.array(tried, np.intp), now)
        scores = fractions(pod.need, self._state.ledger.columns, rows, policy.score)
        # The best first. Equal scores are ordered by row, so that the choice is deterministic.
        for row in rows[np.lexsort((rows, -scores))]:
            node = self._state.nodes.by_row[int(row)]
            if node is not None:
                return node.name
        return None

    def ended(self, uid: PodUid, node: NodeName | None) -> None:
        """Ends the pod's sample miss, because the pod was bound to `node`, or is gone (None). Counts whether that was the
        nominated node."""
        sample_miss = self._controllers.sample_misses.forget(uid)
        if sample_miss is not None and node is not None and sample_miss.nominated == node:
            self._state.event_counts.nominations_met += 1
