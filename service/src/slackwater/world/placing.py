"""The filter, prioritize and preempt questions, answered from the picture. Only filter changes anything: holds and memory."""

from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.decide.placement.preempt import Victim, importance, sufficient_victims
from slackwater.decide.placement.scores import extender_scores, randomized
from slackwater.ledger.ledger import Ledger
from slackwater.model.columns import Codes, Int64, Rows, vertical
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts
from slackwater.simulate.predicates.ledger_fit import judge_ledger
from slackwater.world.admitting import AdmittingRows
from slackwater.world.agreements import Agreements
from slackwater.world.budgets import Budgets
from slackwater.world.claims import Claims
from slackwater.world.denials import Denials
from slackwater.world.holds import Holds
from slackwater.world.migrating import Migrating
from slackwater.world.nodes import NO_ROW, NodeTable
from slackwater.world.nominated_room import NominatedRoom
from slackwater.world.pods import PodTable
from slackwater.world.policy import Policy
from slackwater.world.preempting import Preemptions
from slackwater.world.preemptors import Preemptors
from slackwater.world.refusals import Refusals
from slackwater.world.starvation import Starvation
from slackwater.world.tally import Tally
from slackwater.world.victim_sites import VictimSites
from slackwater_protocol.units import Bytes, MilliCpu


class Placing:
    """Answers kube-scheduler's questions about one pod and many nodes."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        nodes: NodeTable,
        pods: PodTable,
        claims: Claims,
        holds: Holds,
        denials: Denials,
        starvation: Starvation,
        refusals: Refusals,
        budgets: Budgets,
        agreements: Agreements,
        migrating: Migrating,
        admitting: AdmittingRows,
        room: NominatedRoom,
        preemptions: Preemptions,
        tally: Tally,
        seed: int,
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._pods = pods
        self._claims = claims
        self._holds = holds
        self._denials = denials
        self._starvation = starvation
        self._refusals = refusals
        self._budgets = budgets
        self._agreements = agreements
        self._migrating = migrating
        self._admitting = admitting
        self._room = room
        self._preemptions = preemptions
        sites = VictimSites(
            nodes=nodes,
            pods=pods,
            claims=claims,
            denials=denials,
            budgets=budgets,
            admitting=admitting,
            free_for=self._free_for,
            doomed=preemptions.doomed,
            immovable=preemptions.immovable,
        )
        self.preemptors = Preemptors(
            nodes=nodes,
            pods=pods,
            agreements=agreements,
            sites=sites,
            preemptions=preemptions,
            seen_on=self._seen_on,
        )
        self._tally = tally
        self._rng = np.random.default_rng(seed)

    def filter(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        """A reason for each row, shape (len(rows),); holds room where the pod may now be put.

        `rows` are distinct, except that unknown nodes are all `NO_ROW`.
        """
        self._tally.attempts += 1
        self._pods.overhear(pod, now)
        self._holds.drop(pod.uid)
        if self._preemptions.gated(pod.uid):
            self._tally.failures += 1
            return np.full(len(rows), Reason.GATED, np.uint8)
        self._preemptions.came_back(pod.uid)
        with self._room.beside(pod.priority, self._preemptions.number_of(pod.uid)):
            return self._filtered(pod, rows, policy, now)

    def _filtered(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        codes = self._judge_with_landing(pod, rows, policy, now)
        feasible = rows[codes == Reason.OK]
        self._tally.verdicts += np.bincount(codes, minlength=len(Reason))
        if not len(feasible):
            self._preemptions.judged(pod.uid, None)
            gated = self._refused(pod, rows, codes, policy, now)
            return np.full(len(rows), Reason.GATED, np.uint8) if gated else codes
        self._preemptions.judged(pod.uid, lambda name: self._nodes.row_of.get(name) in feasible)
        self.preemptors.forget(pod.uid)
        self._refusals.forget(pod.uid)
        self._starvation.passed(pod.uid)
        if self._claims.get(pod.uid) is None:  # its reservation is there already, otherwise
            deadline, everywhere = Instant(now + policy.hold_seconds), pod.vertical is not None
            self._holds.put(pod.uid, pod.key, feasible, pod.need, deadline, everywhere=everywhere)
            self._tally.holds += 1
        return codes

    def _judge_with_landing(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        """A migration's target has its room already: on one node, and only there, as long as that takes it."""
        move = self._migrating.landing_of(pod, now)
        if move is None:
            return self._judge(pod, rows, policy, now)
        landing = self._migrating.lift(move)
        codes = self._judge(pod, rows, policy, now)
        there = rows == landing
        if landing is not None and self._may_land(pod, landing):
            codes[~there] = Reason.LANDING_ELSEWHERE  # full ones too: nobody need be preempted for it
        if not (codes[there] == Reason.OK).any():
            self._migrating.lower(move)
        return codes

    def _may_land(self, pod: Pod, row: Row) -> bool:
        wanted: Rows = np.array([row], np.intp)
        return bool(judge_ledger(pod.need, self._ledger.columns, wanted)[0] == Reason.OK and self._admitting.of(pod.kind)[row])

    def _judge(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        about_pod = self._about_the_pod(pod, policy)
        if about_pod is not Reason.OK:
            return np.full(len(rows), about_pod, np.uint8)
        claim = self._claims.get(pod.uid)
        if claim is not None:
            # A bind whose end is not known yet: only the node it named may be asked again, where the pod counts already.
            row = self._nodes.row_of.get(claim.node, NO_ROW)
            return np.where((rows == row) & (rows != NO_ROW), Reason.OK, Reason.POD_BOUND_ELSEWHERE).astype(np.uint8)
        codes = judge_ledger(pod.need, self._ledger.columns, rows)
        for name in self._denials.nodes_denied(pod.uid, now):
            codes[(rows == self._nodes.row_of[name]) & (codes == Reason.OK)] = Reason.BIND_DENIED
        if len(rows) and rows.min() < 0:
            codes[rows == NO_ROW] = Reason.NODE_UNKNOWN
        return codes

    def _about_the_pod(self, pod: Pod, policy: Policy) -> Reason:
        known = self._pods.get(pod.uid)
        if self._pods.is_gone(pod.uid) or (known is not None and known.ended):
            return Reason.POD_FINISHED
        if known is not None and known.node is not None:
            return Reason.POD_BOUND_ELSEWHERE
        if pod.vertical_problem is not None:
            return Reason.VERTICAL_UNREADABLE
        if pod.kind.missing_request is not None and pod.vertical is None and policy.missing_requests == "reject":
            return Reason.MISSING_REQUEST
        return Reason.OK

    def _refused(self, pod: Pod, rows: Rows, codes: Codes, policy: Policy, now: Instant) -> bool:
        """Remembers it, and what may be done about it: True where a preemption began."""
        self._tally.failures += 1
        self._refusals.note(pod, held=bool((codes == Reason.HELD_FOR_OTHERS).any()), now=now)
        if self._about_the_pod(pod, policy) is not Reason.OK or self._claims.get(pod.uid) is not None:
            return False
        if len(self.fitting_elsewhere(pod, rows, now)):
            self._tally.sample_starvations += 1
            self._starvation.report(pod.uid, pod.key, Instant(now + policy.nominate_after_seconds))
            return False
        if self._only_promised(pod, rows[codes == Reason.HELD_FOR_OTHERS]):
            return False  # it is woken when the promise ends, or tries again when the other pod is bound: nobody need die
        begun = self.preemptors.consider(pod, rows, codes, policy.preemption, now)
        if begun:  # its gate wakes it, not any room
            self._refusals.forget(pod.uid)
        return begun

    def fitting_elsewhere(self, pod: Pod, asked: Rows, now: Instant) -> Rows:
        """Rows outside `asked` that take the pod, by our accounting and by what the nodes themselves say."""
        live = self._nodes.live_rows()
        others: Rows = live[~np.isin(live, asked)]
        fitting: Rows = others[judge_ledger(pod.need, self._ledger.columns, others) == Reason.OK]
        if len(fitting):
            fitting = fitting[self._admitting.of(pod.kind)[fitting]]
        denied = [self._nodes.row_of[name] for name in self._denials.nodes_denied(pod.uid, now)]
        return fitting[~np.isin(fitting, denied)] if denied else fitting

    def prioritize(self, pod: Pod, rows: Rows, policy: Policy) -> Int64:
        """0..10 for each row, shape (len(rows),); 0 for unknown nodes and where the pod does not fit."""
        scores = extender_scores(pod.need, self._ledger.columns, rows, policy.curve)
        scores[rows == NO_ROW] = 0
        return randomized(scores, self._rng) if policy.randomize_scores else scores

    def preempt(
        self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], policy: Policy, now: Instant
    ) -> dict[NodeName, tuple[tuple[PodUid, ...], int]]:
        """For each node that is kept its victims, most important first, and how many budgets more than proposed they violate.

        A node is dropped when it is unknown, when a bind of the pod to it was denied, when a proposed victim is not on it
        (kube-scheduler would refuse the whole answer), or when not even all pods of lower priority would make room. All are,
        where filter would refuse the pod whatever goes, or earlier victims are just leaving: others would die for nothing.
        """
        if self._about_the_pod(pod, policy) is not Reason.OK or self._claims.get(pod.uid) is not None:
            return {}
        if self._preemptions.gated(pod.uid):
            return {}
        if self._agreements.overtaken(pod.uid, proposed, self._seen_on, now):
            return {}
        with self._room.beside(pod.priority):
            kept = self._kept(pod, proposed, now)
        if kept:
            self._agreements.note(pod.uid, {name: uids for name, (uids, _) in kept.items()}, now)
        return kept

    def _kept(
        self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]], now: Instant
    ) -> dict[NodeName, tuple[tuple[PodUid, ...], int]]:
        denied = set(self._denials.nodes_denied(pod.uid, now))
        kept = {}
        for name, uids in proposed.items():
            row = self._nodes.row_of.get(name)
            victims = None if row is None or name in denied else self._victims(pod, name, row, uids)
            if victims:
                added = victims[len(uids) :]
                # kube-scheduler's own order is kept where nobody was added: it knows starts that we may not have seen yet.
                ordered = sorted(victims, key=importance) if added else victims
                kept[name] = (tuple(v.uid for v in ordered), sum(v.violates_budget for v in added))
        return kept

    def _victims(self, pod: Pod, name: NodeName, row: Row, uids: Sequence[PodUid]) -> tuple[Victim, ...] | None:
        chosen = [found for uid in uids if (found := self._seen_on(uid, name)) is not None]
        if len(chosen) < len(uids):
            return None
        free = self._free_for(pod.uid, row)
        victims = [self._victim(victim, violates_budget=False) for victim in chosen]
        # The usual case: what kube-scheduler found suffices, and nobody else on the node need be looked at.
        if sufficient_victims(pod.need, free, victims, ()) is not None:
            return tuple(victims)
        others = [
            found
            for uid in self._claims.on_node(name)
            if uid not in uids and (found := self._seen_on(uid, name)) is not None and found.priority < pod.priority
        ]
        others.sort(key=lambda other: (other.priority, other.uid))
        violations = self._budgets.violations([*chosen, *others])[len(chosen) :]
        more = [self._victim(other, violates_budget=v) for other, v in zip(others, violations, strict=True)]
        return sufficient_victims(pod.need, free, victims, more)

    def _seen_on(self, uid: PodUid, node: NodeName) -> Pod | None:
        """The pod if the watch shows it there: kube-scheduler refuses victims that it does not see on the node itself."""
        claim = self._claims.get(uid)
        return self._pods.get(uid) if claim is not None and claim.state == "seen" and claim.node == node else None

    def _free_for(self, uid: PodUid, row: Row) -> Amounts:
        columns = self._ledger.columns
        free = columns.total[:, row] - columns.reserved[:, row] - columns.held[:, row]
        own = self._holds.get(uid)
        held = own.amounts if own is not None and (own.counted == row).any() else NOTHING
        return Amounts(MilliCpu(int(free[CPU])), Bytes(int(free[MEMORY]))).plus(held)

    def _only_promised(self, pod: Pod, rows: Rows) -> bool:
        """Would it fit on some row, were it not for pods that are about to be bound, there or elsewhere?"""
        columns, wanted = self._ledger.columns, vertical(pod.need)
        free = np.take(columns.total - columns.reserved, rows, axis=1) - self._room.kept_on(rows, pod.priority)
        return bool(((wanted <= free) | (wanted == 0)).all(axis=0).any())

    def _victim(self, pod: Pod, *, violates_budget: bool) -> Victim:
        claim = self._claims.get(pod.uid)
        assert claim is not None
        return Victim(
            uid=pod.uid,
            priority=pod.priority,
            started_at=pod.started_at,
            deleting=pod.deleting,
            violates_budget=violates_budget,
            reserved=claim.account.reserved,
        )
