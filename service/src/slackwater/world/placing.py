"""The filter, prioritize and preempt questions, answered from the picture. Only filter changes anything: holds and memory."""

from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.decide.placement.preempt import Victim, sufficient_victims
from slackwater.decide.placement.scores import extender_scores, randomized
from slackwater.ledger.ledger import Ledger
from slackwater.model.columns import Codes, Int64, Rows
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.resources import CPU, MEMORY, NOTHING, Amounts
from slackwater.simulate.predicates.ledger_fit import judge_ledger
from slackwater.world.budgets import Budgets
from slackwater.world.claims import Claims
from slackwater.world.denials import Denials
from slackwater.world.holds import Holds
from slackwater.world.nodes import NO_ROW, NodeTable
from slackwater.world.pods import PodTable
from slackwater.world.policy import Policy
from slackwater.world.starvation import Starvation
from slackwater.world.tally import Tally
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
        budgets: Budgets,
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
        self._budgets = budgets
        self._tally = tally
        self._rng = np.random.default_rng(seed)
        #: Pods refused only because room was held for others: worth another try when a hold ends unused.
        self.waiting_for_holds: dict[PodUid, Pod] = {}

    def filter(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        """A reason for each row, shape (len(rows),); holds room where the pod may now be put.

        `rows` are distinct, except that unknown nodes are all `NO_ROW`.
        """
        self._tally.attempts += 1
        self._pods.overhear(pod, now)
        self._holds.drop(pod.uid)
        self.waiting_for_holds.pop(pod.uid, None)
        codes = self._judge(pod, rows, policy, now)
        feasible = rows[codes == Reason.OK]
        self._tally.verdicts += np.bincount(codes, minlength=len(Reason))
        if len(feasible):
            self._holds.put(pod.uid, pod.key, feasible, pod.kind.requests, Instant(now + policy.hold_seconds))
            self._tally.holds += 1
        else:
            self._refused(pod, rows, codes, policy, now)
        return codes

    def _judge(self, pod: Pod, rows: Rows, policy: Policy, now: Instant) -> Codes:
        about_pod = self._about_the_pod(pod, policy)
        if about_pod is not Reason.OK:
            return np.full(len(rows), about_pod, np.uint8)
        claim = self._claims.get(pod.uid)
        if claim is not None:
            # A bind whose end is not known yet: only the node it named may be asked again, where the pod counts already.
            row = self._nodes.row_of.get(claim.node, NO_ROW)
            return np.where((rows == row) & (rows != NO_ROW), Reason.OK, Reason.POD_BOUND_ELSEWHERE).astype(np.uint8)
        codes = judge_ledger(pod.kind.requests, self._ledger.columns, rows)
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
        if pod.kind.missing_request is not None and policy.missing_requests == "reject":
            return Reason.MISSING_REQUEST
        return Reason.OK

    def _refused(self, pod: Pod, rows: Rows, codes: Codes, policy: Policy, now: Instant) -> None:
        self._tally.failures += 1
        if (codes == Reason.HELD_FOR_OTHERS).any():
            self.waiting_for_holds[pod.uid] = pod
        if self._about_the_pod(pod, policy) is not Reason.OK or self._claims.get(pod.uid) is not None:
            return
        if len(self.fitting_elsewhere(pod, rows, now)):
            self._tally.sample_starvations += 1
            self._starvation.report(pod.uid, pod.key, Instant(now + policy.nominate_after_seconds))

    def fitting_elsewhere(self, pod: Pod, asked: Rows, now: Instant) -> Rows:
        """Rows outside `asked` that our accounting accepts for the pod."""
        live = self._nodes.live_rows()
        others: Rows = live[~np.isin(live, asked)]
        codes = judge_ledger(pod.kind.requests, self._ledger.columns, others)
        denied = [self._nodes.row_of[name] for name in self._denials.nodes_denied(pod.uid, now)]
        fitting: Rows = others[(codes == Reason.OK) & ~np.isin(others, denied)]
        return fitting

    def forget_strangers(self) -> None:
        """Pods that a filter call told of and the watch never showed wait for nothing any more."""
        for uid in [uid for uid in self.waiting_for_holds if self._pods.known(uid) is None]:
            del self.waiting_for_holds[uid]

    def prioritize(self, pod: Pod, rows: Rows, policy: Policy) -> Int64:
        """0..10 for each row, shape (len(rows),); 0 for unknown nodes and where the pod does not fit."""
        scores = extender_scores(pod.kind.requests, self._ledger.columns, rows, policy.curve)
        scores[rows == NO_ROW] = 0
        return randomized(scores, self._rng) if policy.randomize_scores else scores

    def preempt(
        self, pod: Pod, proposed: Mapping[NodeName, Sequence[PodUid]]
    ) -> dict[NodeName, tuple[tuple[PodUid, ...], int]]:
        """For each node that is kept its victims and how many budgets more than proposed they violate.

        A node is dropped when it is unknown, when a proposed victim is not on it (kube-scheduler would refuse the whole
        answer), or when not even all pods of lower priority would make room.
        """
        kept = {}
        for name, uids in proposed.items():
            row = self._nodes.row_of.get(name)
            victims = None if row is None else self._victims(pod, name, row, uids)
            if victims:
                added = victims[len(uids) :]
                kept[name] = (tuple(v.uid for v in victims), sum(v.violates_budget for v in added))
        return kept

    def _victims(self, pod: Pod, name: NodeName, row: Row, uids: Sequence[PodUid]) -> tuple[Victim, ...] | None:
        on_node = {uid: found for uid in self._claims.on_node(name) if (found := self._seen_there(uid)) is not None}
        if any(uid not in on_node for uid in uids):
            return None
        others = [uid for uid, found in on_node.items() if uid not in uids and found.priority < pod.priority]
        others.sort(key=lambda uid: (on_node[uid].priority, uid))
        going = [*uids, *others]
        violations = self._budgets.violations([on_node[uid] for uid in going])
        victims = [self._victim(on_node[uid], violates) for uid, violates in zip(going, violations, strict=True)]
        free = self._free_for(pod.uid, row)
        return sufficient_victims(pod.kind.requests, free, victims[: len(uids)], victims[len(uids) :])

    def _seen_there(self, uid: PodUid) -> Pod | None:
        """The pod if the watch shows it on its node: kube-scheduler refuses victims that it does not see there itself."""
        claim = self._claims.get(uid)
        return self._pods.get(uid) if claim is not None and claim.state == "seen" else None

    def _free_for(self, uid: PodUid, row: Row) -> Amounts:
        columns = self._ledger.columns
        free = columns.total[:, row] - columns.reserved[:, row] - columns.held[:, row]
        own = self._holds.get(uid)
        held = own.amounts if own is not None and (own.counted == row).any() else NOTHING
        return Amounts(MilliCpu(int(free[CPU])), Bytes(int(free[MEMORY]))).plus(held)

    def _victim(self, pod: Pod, violates_budget: bool) -> Victim:
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
