"""Answers filter and prioritize from the cluster state.

Who binds decides what filter's answer means (`Policy.bind`):

    kube-scheduler   filter names one node and holds room there; the hold is the reservation until the watch shows the bind
    we               filter names every feasible node and holds nothing; bind reserves, or refuses. Where kube-scheduler counts
                     less than we do, prioritize holds room on the node that it scores best until bind: a guess, to which no
                     bind has to yield (docs/adr/0259)

`filter`, `take` (filter for one chosen row) and `prioritize` change state: they hold room, and note whether a pod was refused.
"""

from collections.abc import Sequence

import numpy as np

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.cluster.nodes import NO_ROW
from slackwater.controllers.placement.filter_facts import FilterFacts
from slackwater.controllers.policy import Policy
from slackwater.fit.plugins.node_accounting import fits_on, judge_ledger
from slackwater.fit.score_curve import extender_scores, fractions_of, randomized
from slackwater.model.columns import OK, Codes, Int64, Mask, NodeColumns, Rows
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.flows import Controllers

#: The holds of the pod's earlier tries, with their keys.
_Earlier = Sequence[tuple[HoldKey, Hold]]


class PlacementFlow:
    """Answers filter and prioritize for one pod and many nodes."""

    def __init__(self, controllers: Controllers, *, seed: int) -> None:
        self._controllers = controllers
        self._state = controllers.state
        self._rng = np.random.default_rng(seed)

    # --- filter: judge, choose, hold ------------------------------------------------------------------------------------------

    def filter(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        """A reason for each row, shape (len(rows),). Where kube-scheduler binds, one row at most is OK, and room is held there;
        all feasible rows for a pod that is left to kube-scheduler (`_filtered`).

        `rows` are distinct, except that unknown nodes are all `NO_ROW`.
        """
        self._state.event_counts.attempts += 1
        self._state.pods.note_from_filter(pod, now)
        earlier = self._state.holds.suspend(pod.uid)
        if self._controllers.preemptions.gated(pod.uid):
            self._state.event_counts.failures += 1
            codes = np.full(len(rows), Reason.GATED, np.uint8)
        else:
            self._controllers.preemptions.preemptor_asked(pod.uid)
            with self._state.holds.beside(pod, self._controllers.preemptions.number_of(pod.uid)):
                codes = self._filtered(pod, rows, earlier, policy, now)
        if policy.bind and any(hold.nominee is not None and hold.row in rows[codes == OK] for _, hold in earlier):
            self._state.holds.restore(earlier)  # the room of its nomination, which bind will use
        else:
            self._retry(pod.uid, earlier, policy, now)
        return codes

    def _filtered(self, pod: Pod, rows: Rows, earlier: _Earlier, policy: Policy, now: Instant) -> Codes:
        """Judges the rows, and where kube-scheduler binds, names one of several feasible ones.

        The choice is left to kube-scheduler if we do not know the pod's profile, unless kube-scheduler could overcommit a node:
        nobody checks its choice then.
        """
        codes = self._judge_with_target_node(pod, rows, policy, now)
        feasible = rows[codes == OK]
        if len(feasible) > 1 and not policy.bind:
            counts_more = pod.vertical is not None or self._state.counts_more_than_scheduler()
            name = pod.kind.scheduler_name
            if counts_more or name == policy.scheduler_name or name in policy.profiles:
                chosen = self._choice(pod, feasible, earlier, policy)
                feasible = np.array([chosen], np.intp)
                codes[(codes == OK) & (rows != chosen)] = Reason.NODE_NOT_CHOSEN
        self._state.event_counts.verdicts += np.bincount(codes, minlength=len(Reason))
        if not len(feasible):
            self._controllers.preemptions.judged(pod.uid, None, held=False)
            gated = self._refused(pod, rows, codes, policy, now)
            return np.full(len(rows), Reason.GATED, np.uint8) if gated else codes
        held = not policy.bind and len(feasible) == 1
        self._controllers.preemptions.judged(pod.uid, lambda name: self._state.nodes.row_of.get(name) in feasible, held=held)
        self._passed(pod, feasible, policy, now)
        return codes

    def _judge_with_target_node(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        """Judges the rows. A migration's target pod has room on its target node already, so only that row is feasible as long
        as the node admits the pod."""
        move = self._controllers.migrating.target_node_of(pod, now)
        if move is None:
            return self._judge(pod, rows, policy, now)
        target_node = self._controllers.migrating.drop_target_hold(move)
        codes = self._judge(pod, rows, policy, now)
        there = rows == target_node
        if (
            target_node is not None
            and fits_on(pod.need, self._state.ledger.columns, target_node)
            and self._state.admitting.of(pod.kind)[target_node]
        ):
            codes[~there] = Reason.TARGET_NODE_ELSEWHERE  # even if a row is full, so that no preemption begins for the pod
        if policy.bind or not (codes[there] == OK).any():
            self._controllers.migrating.restore_target_hold(move)
        return codes

    def _judge(self, pod: Pod, rows: Rows, policy: Policy, now: Instant, *, asked: bool = True) -> Codes:
        """A reason for each row. `asked`: kube-scheduler asks now, so lower permits are requested where persisted permits block
        the room, and bind back-offs that are over are forgotten."""
        about_pod = self.about_the_pod(pod, policy)
        if about_pod is not Reason.OK:
            return np.full(len(rows), about_pod, np.uint8)
        reservation = self._state.reservations.get(pod.uid)
        if reservation is not None:
            # A bind with an unknown outcome: only its node is feasible, where the pod is counted already.
            row = self._state.nodes.row_of.get(reservation.node, NO_ROW)
            return np.where((rows == row) & (rows != NO_ROW), Reason.OK, Reason.POD_BOUND_ELSEWHERE).astype(np.uint8)
        codes = judge_ledger(pod.need, self._state.ledger.columns, rows)
        if not policy.bind:
            self._refuse_for_persisted_permits(pod, rows, codes, now, wanting=asked)
        for name in self._state.bind_backoff.nodes_denied(pod.uid, now, forget=asked):
            codes[(rows == self._state.nodes.row_of[name]) & (codes == OK)] = Reason.BIND_DENIED
        if len(self._state.quarantine):
            codes[np.isin(rows, self._state.quarantine.rows)] = Reason.NODE_QUARANTINED
        if (len(rows) > 1 and rows.min() < 0) or (len(rows) == 1 and rows[0] == NO_ROW):
            codes[rows == NO_ROW] = Reason.NODE_UNKNOWN
        return codes

    def about_the_pod(self, pod: Pod, policy: Policy) -> Reason:
        """The reason to refuse the pod on every node, regardless of room; OK if there is none."""
        known = self._state.pods.get(pod.uid)
        if self._state.pods.is_gone(pod.uid) or (known is not None and known.ended):
            return Reason.POD_FINISHED
        if known is not None and known.node is not None:
            return Reason.POD_BOUND_ELSEWHERE
        if pod.vertical_problem is not None:
            return Reason.VERTICAL_UNREADABLE
        if pod.kind.missing_request is not None and policy.missing_requests == "reject":
            return Reason.MISSING_REQUEST
        return Reason.OK

    def _refuse_for_persisted_permits(self, pod: Pod, rows: Rows, codes: Codes, now: Instant, *, wanting: bool) -> None:
        """Refuses rows without enough room beside the persisted permits, which still reserve room that vertical pods have given
        back. With `wanting`, requests the writes that lower these permits.

        This is needed only if kube-scheduler binds. If we bind, the bind waits for the writes.
        """
        over_reservation = self._controllers.permit_limits.persisted_permits.over_reservation()
        if over_reservation is None:
            return
        more, free, want = over_reservation[:, rows], self._state.ledger.columns.free(rows), pod.need.column
        short = ((more > 0) & (want > 0) & (want + more > free)).any(axis=0) & (codes == OK) & (rows != NO_ROW)
        codes[short] = Reason.HELD_FOR_OTHERS
        if wanting:
            for row in rows[short].tolist():
                if (node := self._state.nodes.by_row[row]) is not None:
                    self._controllers.permit_limits.room_wanted(node.name, now)

    def _choice(self, pod: Pod, rows: Rows, earlier: _Earlier, policy: Policy) -> Row:
        """The row to choose for the pod, by the first rule that applies:

        - One where a plan has room for it (`planned_rows`).
        - If earlier answers still allow binds to two rows or more, one of these. Otherwise each attempt would hold room on a
          further node.
        - The row with the best score of ours that was not chosen for the pod before; if all were, the best of all.
        """
        if planned := self.planned_rows(pod, rows, policy):
            return planned[0]
        held = [hold.row for _, hold in earlier if hold.bind_may_come]
        for row in held[::-1] if len(set(held)) > 1 else ():
            if row in rows:
                return row
        tried = [self._state.nodes.row_of.get(node, NO_ROW) for node in self._controllers.chosen_nodes.tried(pod.uid)]
        untried: Rows = rows[~np.isin(rows, tried)] if tried else rows
        return self._best(pod, untried if len(untried) else rows, policy)

    def planned_rows(self, pod: Pod, rows: Rows, policy: Policy) -> list[Row]:
        """Those of the rows where a plan has room for the pod, which were not named for it before."""
        holds = self._state.holds
        if not policy.place_as_planned or not (holds.planned or len(holds.destinations)):
            return []
        tried = [self._state.nodes.row_of.get(node) for node in self._controllers.chosen_nodes.tried(pod.uid)]
        return [row for row in holds.planned_for(pod) if row in rows and row not in tried]

    def _best(self, pod: Pod, rows: Rows, policy: Policy) -> Row:
        """The row with the best score, where held room counts as used; the first one among equal scores."""
        columns, need = self._state.ledger.columns, self._state.vertical_pods.need(pod).column
        after = columns.reserved.take(rows, axis=1) + columns.held.take(rows, axis=1) + need
        largest = columns.total.max(axis=1, initial=0)
        scores = fractions_of(after, columns.total.take(rows, axis=1), largest, policy.score)
        return Row(int(rows[scores.argmax()]))

    def _passed(self, pod: Pod, feasible: Rows, policy: Policy, now: Instant) -> None:
        """Notes that the rows are feasible for the pod. Where kube-scheduler binds, holds room if it is one row: otherwise bind
        reserves, or the room is reserved already."""
        self._controllers.preemptors.forget(pod.uid)
        self._state.unschedulable_pods.forget(pod.uid)
        self._controllers.sample_misses.passed(pod.uid)
        if policy.bind or len(feasible) != 1 or pod.uid in self._state.reservations:
            return
        row = Row(int(feasible[0]))
        node = self._state.nodes.by_row[row]
        assert node is not None, "filter lets no pod pass on a row without a node"
        self._controllers.chosen_nodes.choose(pod.uid, node.name)
        until = Instant(now + (policy.volumes_seconds if pod.kind.mounts_claims else policy.in_flight_seconds))
        need = self._state.vertical_pods.need(pod)
        self._state.holds.drop_planned(pod.uid, row)
        self._state.holds.put(HoldKey(pod.uid), Hold(key=pod.key, row=row, amounts=need, deadline=until, bind_may_come=True))
        self._state.event_counts.holds += 1

    def _refused(self, pod: Pod, rows: Rows, codes: Codes, policy: Policy, now: Instant) -> bool:
        """Notes that every row was refused, and reports a sample miss or begins a preemption. True if a preemption began."""
        self._state.event_counts.failures += 1
        self._state.unschedulable_pods.note(pod, held=bool((codes == Reason.HELD_FOR_OTHERS).any()), now=now)
        if self.about_the_pod(pod, policy) is not Reason.OK or pod.uid in self._state.reservations:
            return False
        if len(self.fitting_elsewhere(pod, rows, now)):
            self._state.event_counts.sample_misses += 1
            self._controllers.sample_misses.report(pod.uid, pod.key, Instant(now + policy.nominate_after_seconds))
            return False
        if self._only_held(pod, rows[codes == Reason.HELD_FOR_OTHERS]):
            return False  # the holds end soon: then the pod is activated, or kube-scheduler retries it; no preemption is needed
        begun = self._controllers.preemptors.consider(pod, rows, codes, policy.preemption, now)
        if begun:  # the end of the preemption activates it, not any free room
            self._state.unschedulable_pods.forget(pod.uid)
        return begun

    def fitting_elsewhere(self, pod: Pod, asked: Rows, now: Instant) -> Rows:
        """Rows outside `asked` that fit the pod, by our accounting and by the nodes' own constraints."""
        live = self._state.nodes.live_rows()
        others: Rows = live[~np.isin(live, asked)]
        fitting: Rows = others[judge_ledger(pod.need, self._state.ledger.columns, others) == OK]
        if len(fitting):
            fitting = fitting[self._state.admitting.of(pod.kind)[fitting]]
        denied = [self._state.nodes.row_of[name] for name in self._state.bind_backoff.nodes_denied(pod.uid, now)]
        return fitting[~np.isin(fitting, denied)] if denied else fitting

    def _only_held(self, pod: Pod, rows: Rows) -> bool:
        """Would the pod fit on one of the rows if holds did not count?"""
        if not len(rows):
            return False
        wanted = pod.need.column
        free = self._state.ledger.columns.unreserved(rows) - self._state.holds.kept_on(rows, pod.priority)
        return bool(((wanted <= free) | (wanted == 0)).all(axis=0).any())

    def _retry(self, uid: PodUid, earlier: _Earlier, policy: Policy, now: Instant) -> None:
        """Ends the holds of the pod's earlier tries, but not where a bind of such a try may come and exceed its node."""
        if earlier:
            late_binds_matter = not policy.bind and self._state.counts_more_than_scheduler()
            self._state.holds.retry(uid, earlier, Instant(now + policy.in_flight_seconds) if late_binds_matter else None)

    # --- filter for one row that kube-scheduler's scores chose ----------------------------------------------------------------

    def may_choose(self, pod: Pod, policy: Policy) -> bool:
        """May `take` choose one of several feasible nodes for the pod? Not if room is kept for the pod already, or if a bind of
        a former try could still exceed a node: `filter` decides then (`_choice`)."""
        uid = pod.uid
        return (
            not policy.bind
            and policy.handed_over.withholds(pod.key.namespace, pod.kind.scheduler_name) is None
            and (pod.kind.scheduler_name == policy.scheduler_name or pod.kind.scheduler_name in policy.profiles)
            and self._state.holds.node_of_preemptor(uid) is None
            and self._controllers.preemptions.number_of(uid) is None
            and not (self._state.holds.has(uid) and self._state.counts_more_than_scheduler())
        )

    def take(self, pod: Pod, row: Row, policy: Policy, now: Instant) -> bool:
        """Holds room on the row, as `filter` would if asked about this row alone. Only for pods that `may_choose` allows.
        Returns False and changes nothing if the row is not feasible."""
        if pod.uid in self._state.reservations or self._controllers.migrating.target_node_of(pod, now) is not None:
            return False
        earlier = self._state.holds.suspend(pod.uid)
        rows: Rows = np.array([row], np.intp)
        if not (self._passes_plainly(pod, row, policy) or self.passing_beside_holds(pod, rows, policy, now)[0]):
            self._state.holds.restore(earlier)
            return False
        self._state.event_counts.attempts += 1
        self._state.event_counts.verdicts[Reason.OK] += 1
        self._state.pods.note_from_filter(pod, now)
        self._controllers.preemptions.preemptor_asked(pod.uid)
        self._passed(pod, rows, policy, now)
        self._retry(pod.uid, earlier, policy, now)
        return True

    def passing(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Mask:
        """For each row, whether it is feasible for a pod that is no migration's target; shape (len(rows),). Changes nothing."""
        earlier = self._state.holds.suspend(pod.uid)
        try:
            return self.passing_beside_holds(pod, rows, policy, now)
        finally:
            self._state.holds.restore(earlier)

    def passing_beside_holds(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Mask:
        """As `passing`, but room that is held for the pod itself does not count as free: who waits for it was told of it."""
        with self._state.holds.beside(pod, self._controllers.preemptions.number_of(pod.uid)):
            passing: Mask = self._judge(pod, rows, policy, now, asked=False) == OK
        return passing

    def _passes_plainly(self, pod: Pod, row: Row, policy: Policy) -> bool:
        """Whether the row is feasible by the plain case of `_judge`: nothing but the pod itself and the row's room can refuse
        it. False if that is not so, or if more has to be looked at: then `passing_beside_holds` decides."""
        return (
            not (pod.vertical is not None or self._state.nodes.stricter[row])
            and not len(self._state.quarantine)
            and not self._state.bind_backoff.has(pod.uid)
            and self._controllers.permit_limits.persisted_permits.over_reservation() is None
            and self.about_the_pod(pod, policy) is Reason.OK
            and fits_on(pod.need, self._state.ledger.columns, row)
        )

    # --- prioritize -----------------------------------------------------------------------------------------------------------

    def prioritize(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Int64:
        """The score of each row, 0..10, shape (len(rows),); 0 for unknown nodes and where the pod does not fit."""
        scores = extender_scores(pod.need, self._state.ledger.columns, rows, policy.score)
        scores[rows == NO_ROW] = 0
        self._guess(pod, rows[rows != NO_ROW], policy, now)
        return randomized(scores, self._rng) if policy.randomize else scores

    def _guess(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> None:
        """Where we bind, holds room on the one of the rows that kube-scheduler probably chooses, unless it counts the pod there
        by what we count: then it knows of the room itself before its next decision."""
        if not policy.bind or not len(rows) or pod.uid in self._state.reservations:
            return
        earlier = self._state.holds.suspend(pod.uid)
        row = self._best(pod, rows, policy)
        if pod.vertical is not None or self._state.nodes.stricter[row]:
            need, until = self._state.vertical_pods.need(pod), Instant(now + policy.hold_timeout)
            self._state.holds.put(HoldKey(pod.uid), Hold(key=pod.key, row=row, amounts=need, deadline=until, guess=True))
            self._state.event_counts.holds += 1
        self._state.holds.retry(pod.uid, earlier, None)

    # --- questions of gates and of explain ------------------------------------------------------------------------------------

    def refused_everywhere(self, pod: Pod, policy: Policy, now: Instant) -> tuple[Rows, Codes] | None:
        """All rows and their reasons, if no node fits the pod by our accounting and by the node's own constraints.

        None if a node fits, if one would fit without short-lived holds, or if the pod would be refused regardless of room.
        """
        if self.about_the_pod(pod, policy) is not Reason.OK or pod.uid in self._state.reservations:
            return None
        rows = self._state.nodes.live_rows()
        with self._state.holds.beside(pod, self._controllers.preemptions.number_of(pod.uid)):
            codes = self._judge(pod, rows, policy, now)
            if (self._state.admitting.of(pod.kind)[rows] & (codes == OK)).any():
                return None
            return None if self._only_held(pod, rows[codes == Reason.HELD_FOR_OTHERS]) else (rows, codes)

    def seen(self, pod: Pod, policy: Policy, now: Instant) -> tuple[FilterFacts, NodeColumns]:
        """The facts from which filter would decide its answer for the pod now, and a copy of the accounting columns in which
        the pod's own hold and the room of preemptors with lower priority count as free. Explain uses them. Changes
        nothing."""
        uid = pod.uid
        with self._state.holds.beside(pod, self._controllers.preemptions.number_of(uid)):
            columns = self._state.ledger.columns.copy()
        for hold in self._state.holds.all_of(uid):
            columns.held[:, hold.row] -= hold.amounts
        only_on: NodeName | None = None
        reason = Reason.GATED if self._controllers.preemptions.gated(uid) else self.about_the_pod(pod, policy)
        if reason is Reason.OK:
            reservation, move = self._state.reservations.get(uid), self._controllers.migrating.target_node_of(pod, now)
            if reservation is not None:
                reason, only_on = Reason.POD_BOUND_ELSEWHERE, reservation.node
            elif move is not None and move.target_node is not None:
                reason, only_on = Reason.TARGET_NODE_ELSEWHERE, move.target_node
        facts = FilterFacts(
            reason=reason,
            denied=frozenset(self._state.bind_backoff.nodes_denied(uid, now, forget=False)),
            quarantined=frozenset(name for name, _ in self._state.quarantine.items()),
            waits_for=self._controllers.preemptions.waits_for(uid),
            only_on=only_on,
        )
        return facts, columns
