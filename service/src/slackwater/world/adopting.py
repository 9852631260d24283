"""The watch shows a pod on a node: what was promised is confirmed, and what others bound is counted like any other."""

from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Pod
from slackwater.world.books import Books
from slackwater.world.claims import Claim
from slackwater.world.holds import former
from slackwater.world.policy import Policy


class Adopting:
    """Makes claims of what is seen."""

    def __init__(self, books: Books) -> None:
        self._ledger = books.ledger
        self._nodes = books.nodes
        self._claims = books.claims
        self._holds = books.holds
        self._standings = books.standings
        self._tally = books.tally

    def shown(self, pod: Pod, node: NodeName, policy: Policy, *, synced: bool) -> None:
        """`synced`: everything was listed once. What the first list shows was bound before our time."""
        claim = self._claims.get(pod.uid)
        if claim is None or claim.node != node:
            # Where kube-scheduler binds it did as we let pass; anything else was bound behind our back.
            expected = claim is None and not policy.binds and self._let_pass(pod.uid, node)
            self._tally.confirmed += expected
            self._tally.adopted += synced and not expected
            self._adopt(pod, node, policy)
            return
        self.recount(pod, claim, policy)
        if claim.state != "seen":
            self._tally.confirmed += 1
            self._claims.settle(pod.uid, "seen", None)

    def recount(self, pod: Pod, claim: Claim, policy: Policy) -> None:
        """The watch shows a counted pod as it is now."""
        account = self._standings.seen(pod, claim.account, scheduler_name=policy.scheduler_name)
        if account != claim.account:
            self._claims.recount(pod.uid, account)
            self._count_over_total(claim.node)

    def _adopt(self, pod: Pod, node: NodeName, policy: Policy) -> None:
        let_pass = self._let_pass(pod.uid, node)
        if pod.vertical is not None and not policy.binds:
            self._holds.count_everywhere()
        self._claims.drop(pod.uid)
        scheduler_name = policy.scheduler_name
        account = self._standings.placed(pod) if let_pass else self._standings.found(pod, scheduler_name=scheduler_name)
        priority, vertical = pod.priority, pod.vertical is not None
        place = Claim(
            key=pod.key, node=node, account=account, state="seen", deadline=None, priority=priority, vertical=vertical
        )
        self._claims.put(pod.uid, place)
        self._count_over_total(node)

    def _let_pass(self, uid: PodUid, node: NodeName) -> bool:
        """By our filter; kube-scheduler bound it by itself."""
        row = self._nodes.row_of.get(node)
        return row is not None and any(self._holds.covers(name, row) for name in (uid, former(uid)))

    def _count_over_total(self, node: NodeName) -> None:
        row = self._nodes.row_of.get(node)
        columns = self._ledger.columns
        if row is not None and (columns.reserved[:, row] > columns.total[:, row]).any():
            self._tally.over_total_on[node] = self._tally.over_total_on.get(node, 0) + 1
