"""Which pod counts on which node: reservations made at bind, and pods that the watch shows there, whoever bound them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.priority_shares import Shares
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger.account import Account
from slackwater.model.ledger.ledger import Ledger
from slackwater.model.resources import Amounts

#: binding: the API call is on its way. repeated: so it is, and an earlier one had no answer: that one may have happened.
#: bound: the API server has said yes, the watch not yet. unsure: no answer came.
#: doubted: a deadline passed, and the pod is being read; shown unbound now, the claim is given up.
#: seen: the watch shows the pod there. Only `seen` has no deadline.
ClaimState = Literal["binding", "repeated", "bound", "unsure", "doubted", "seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A pod's place. `deadline` says when to ask the API server what became of the pod."""

    key: PodKey
    node: NodeName
    account: Account
    state: ClaimState
    deadline: Instant | None
    priority: int
    vertical: bool = False  #: counts by other amounts than its requests


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """A pod that counts on a node: the row of the node, and what is Reserved for the pod."""

    row: Row
    reserved: Amounts


class Claims:
    """All places, admitted to the ledger exactly as long as their node has a row."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, dropped: Callable[[PodUid, Claim], None]) -> None:
        """`dropped` is told of each claim that ends."""
        #: The same promises by priority.
        self.shares = Shares()
        self._ledger = ledger
        self._nodes = nodes
        self._dropped = dropped
        self._claims: dict[PodUid, Claim] = {}
        self._by_node: dict[NodeName, dict[PodUid, None]] = {}
        #: Claims that wait for something; few, unlike those that the watch shows.
        self._waiting: dict[PodUid, None] = {}
        #: The claims whose node has a row.
        self.placed: dict[PodUid, PlacedPod] = {}
        #: UIDs of pods whose place or account changed, one set for each who watches.
        self.changed: tuple[set[PodUid], ...] = ()

    def _note(self, uid: PodUid) -> None:
        for noted in self.changed:
            noted.add(uid)

    def get(self, uid: PodUid) -> Claim | None:
        return self._claims.get(uid)

    def put(self, uid: PodUid, claim: Claim) -> None:
        """Counts a pod on a node, in place of where it counted before."""
        self.drop(uid)
        self._note(uid)
        self._claims[uid] = claim
        self._by_node.setdefault(claim.node, {})[uid] = None
        if claim.state != "seen":
            self._waiting[uid] = None
        row = self._nodes.row_of.get(claim.node)
        if row is not None:
            self._admit(uid, claim, row)

    def drop(self, uid: PodUid) -> Claim | None:
        """Ends what the pod counts for; room appears on its node."""
        claim = self._claims.pop(uid, None)
        if claim is None:
            return None
        self._note(uid)
        self._waiting.pop(uid, None)
        on_node = self._by_node[claim.node]
        del on_node[uid]
        if not on_node:
            del self._by_node[claim.node]
        placed = self.placed.pop(uid, None)
        if placed is not None:
            self._ledger.release(placed.row, claim.account)
            self.shares.release(placed.row, claim.priority, claim.account.reserved)
            self._nodes.count_vertical(placed.row, -claim.vertical)
            self._nodes.room_appeared(placed.row)
        self._dropped(uid, claim)
        return claim

    def recount(self, uid: PodUid, account: Account) -> None:
        """The same place, another account."""
        claim = self._claims[uid]
        self._note(uid)
        self._claims[uid] = replace(claim, account=account)
        placed = self.placed.get(uid)
        if placed is not None:
            self._ledger.change(placed.row, claim.account, account)
            self.shares.change(placed.row, claim.priority, account.reserved.minus(claim.account.reserved))
            self.placed[uid] = PlacedPod(row=placed.row, reserved=account.reserved)
            if not claim.account.reserved.within(account.reserved):
                self._nodes.room_appeared(placed.row)

    def settle(self, uid: PodUid, state: ClaimState, deadline: Instant | None) -> None:
        """The same place, another certainty."""
        self._claims[uid] = replace(self._claims[uid], state=state, deadline=deadline)
        if state == "seen":
            self._waiting.pop(uid, None)

    def node_opened(self, name: NodeName, row: Row) -> None:
        """Admits what was claimed on a node before the node was seen. Called once, when a row is first given."""
        for uid in self._by_node.get(name, ()):
            self._admit(uid, self._claims[uid], row)

    def node_closing(self, name: NodeName) -> None:
        """The node goes, and its row with it; the pods on it stay claims until they are seen to go."""
        for uid in self._by_node.get(name, ()):
            row, claim = self.placed.pop(uid).row, self._claims[uid]
            self._ledger.release(row, claim.account)
            self.shares.release(row, claim.priority, claim.account.reserved)
            self._nodes.count_vertical(row, -claim.vertical)

    def place_again(self, name: NodeName, row: Row) -> None:
        """Where the claims of a node count is worked out anew, without counting them; for audits alone."""
        for uid in self._by_node.get(name, ()):
            self.placed[uid] = PlacedPod(row=row, reserved=self._claims[uid].account.reserved)

    def _admit(self, uid: PodUid, claim: Claim, row: Row) -> None:
        self._ledger.admit(row, claim.account)
        self.shares.admit(row, claim.priority, claim.account.reserved)
        self._nodes.count_vertical(row, claim.vertical)
        self.placed[uid] = PlacedPod(row=row, reserved=claim.account.reserved)

    def overdue(self, now: Instant) -> list[tuple[PodUid, Claim]]:
        waiting = ((uid, self._claims[uid]) for uid in self._waiting)
        return [(uid, claim) for uid, claim in waiting if claim.deadline is not None and claim.deadline <= now]

    def on_node(self, name: NodeName) -> list[PodUid]:
        return list(self._by_node.get(name, ()))

    def count_on(self, name: NodeName) -> int:
        return len(self._by_node.get(name, ()))

    def unconfirmed(self) -> int:
        return len(self._waiting)

    def copy(self) -> Mapping[PodUid, Claim]:
        """All of them as they are now; 150,000 take about 3 ms."""
        return dict(self._claims)

    def __len__(self) -> int:
        return len(self._claims)
