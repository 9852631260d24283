"""What a pod's binding, and its end, mean to all books: it counts on a node, and waits for nothing any more; or neither.

Deliberately absent: pods that wait for a place, and what a bind of ours does before the watch shows it (`binding`).
"""

from dataclasses import dataclass

from slackwater.cluster.cluster_state import Books
from slackwater.cluster.conditions import Conditions
from slackwater.cluster.reservations import Claim
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.nomination.state import Steering
from slackwater.controllers.permits.permit_limits import Ceilings
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.preemptors import Preemptors
from slackwater.controllers.preemption.state import Preemptions
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.runtime.flows.sample_nominations import Nominations
from slackwater.runtime.flows.scheduling_gates import Gatekeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """Whoever keeps something of a pod beside the books."""

    ceilings: Ceilings
    migrating: Migrating
    preemptions: Preemptions
    preemptors: Preemptors
    gatekeeper: Gatekeeper
    nominations: Nominations
    steering: Steering
    conditions: Conditions


class PodLives:
    """See the module."""

    def __init__(self, books: Books, concerned: Concerned) -> None:
        self._books = books
        self._concerned = concerned

    def bound(self, pod: Pod, node: NodeName, policy: Policy, now: Instant, *, synced: bool) -> list[Effect]:
        claim = self._books.claims.get(pod.uid)
        if claim is None or claim.node != node:
            # What the first list shows was bound before our time; afterwards it was bound behind our back, or as we let pass.
            expected = claim is None and not policy.binds and self._let_pass(pod.uid, node)
            self._books.tally.confirmed += expected
            self._books.tally.adopted += synced and not expected
            self.adopt(pod, node, policy)
        else:
            self.recount(pod, claim, policy)
            if claim.state != "seen":
                self._books.tally.confirmed += 1
                self._books.claims.settle(pod.uid, "seen", None)
        self._concerned.nominations.ended(pod.uid, node)
        self._concerned.steering.bound(pod.uid, node, policy, now)
        self._forget(pod.uid)
        effects = self._holds_ended(pod.uid, node)
        if pod.vertical is None:
            return effects
        self._concerned.migrating.pod_seen(pod, now)
        return effects + self._concerned.ceilings.ensure(pod.uid, now)

    def _holds_ended(self, uid: PodUid, node: NodeName | None) -> list[Effect]:
        """The pod is on the node, or nowhere any more: room that was held for it elsewhere is free again."""
        unused = self._books.holds.counted_for(uid) - {self._books.nodes.row_of.get(node) if node else None}
        self._books.holds.drop_all(uid)
        return self._books.refusals.wake_held() if unused else []

    def recount(self, pod: Pod, claim: Claim, policy: Policy) -> None:
        """The watch shows a counted pod as it is now."""
        account = self._books.standings.seen(pod, claim.account, scheduler_name=policy.scheduler_name)
        if account != claim.account:
            self._books.claims.recount(pod.uid, account)
            self._count_over_total(claim.node)

    def adopt(self, pod: Pod, node: NodeName, policy: Policy) -> None:
        """Somebody else bound it, or it is counted anew: by what the API tells of it."""
        let_pass = self._let_pass(pod.uid, node)
        if pod.vertical is not None and not policy.binds:
            self._count_beside(node)
        self._books.claims.drop(pod.uid)
        standings = self._books.standings
        account = standings.placed(pod) if let_pass else standings.found(pod, scheduler_name=policy.scheduler_name)
        priority, vertical = pod.priority, pod.vertical is not None
        place = Claim(
            key=pod.key, node=node, account=account, state="seen", deadline=None, priority=priority, vertical=vertical
        )
        self._books.claims.put(pod.uid, place)
        self._count_over_total(node)

    def adopt_growing(self, policy: Policy, now: Instant) -> None:
        """Counts every workload that grows in place anew, as a process that begins would find it."""
        books, migrating = self._books, self._concerned.migrating
        found = [(pod, pod.node) for uid, _ in books.standings.items() if (pod := books.pods.get(uid)) is not None]
        for pod, node in found:
            if node is not None:
                self.adopt(pod, node, policy)
        migrating.found_anew()
        for pod, _ in found:
            migrating.pod_seen(pod, now)

    def node_gone(self, name: NodeName) -> None:
        """The node is deleted; its pods count on it until they are seen to go."""
        books = self._books
        row = books.nodes.row_of.get(name)
        self._concerned.preemptions.node_gone(name)
        books.tally.over_total_on.pop(name, None)
        if row is not None:
            books.quarantine.node_closing(name)
            books.claims.node_closing(name)
            books.holds.node_closing(row)
            books.nodes.drop(name)

    def _let_pass(self, uid: PodUid, node: NodeName) -> bool:
        """By our filter; kube-scheduler bound it by itself."""
        row = self._books.nodes.row_of.get(node)
        return row is not None and self._books.holds.covers(uid, row)

    def _count_beside(self, node: NodeName) -> None:
        """A pod that grows is there: whoever may be bound beside it counts."""
        row = self._books.nodes.row_of.get(node)
        if row is not None:
            self._books.holds.count_on(row)

    def _count_over_total(self, node: NodeName) -> None:
        row = self._books.nodes.row_of.get(node)
        columns = self._books.ledger.columns
        if row is not None and (columns.reserved[:, row] > columns.total[:, row]).any():
            self._books.tally.over_total += 1
            self._books.tally.over_total_on[node] = self._books.tally.over_total_on.get(node, 0) + 1

    def let_go(self, uid: PodUid, now: Instant) -> list[Effect]:
        """The pod counts no more, and waits for nothing."""
        self._books.starvation.forget(uid)
        self._concerned.steering.gone(uid)
        self._forget(uid)
        claim = self._books.claims.drop(uid)
        opened = self._books.quarantine.readable(uid)
        effects = self._holds_ended(uid, None)
        return effects + (self._books.refusals.wake_recent(now) if claim is not None or opened else [])

    def _forget(self, uid: PodUid) -> None:
        """The pod waits for no place any more."""
        self._books.denials.forget(uid)
        self._books.refusals.forget(uid)
        self._books.agreements.forget(uid)
        self._concerned.preemptions.preemptor_gone(uid)
        self._concerned.preemptors.forget(uid)
        self._concerned.gatekeeper.forget(uid)
        self._concerned.conditions.forget(uid)
