"""Holds: room kept on one node for a pod that is not bound there yet. Every hold has an owner that ends it.

    bind         filter named the node, or prioritize guessed it, or a nomination after a sample miss: until bound, asked about
                 again, or late
    former try   filter named the node at an earlier try, and a bind may still come: until a read finds the pod unbound
    preemption   the node of a preemptor (`nominated_room`)
    drain        the destination of a pod that leaves its node (`drain_destinations`)
    migration    the target node of a virtual machine's migration (`controllers.migration`)

A pod has one hold for each cause, and one for each former try. Invariant: what the ledger holds on a row is the sum over the
holds on it. Whoever changes a hold does it here, since the ledger, the shares of nominees and the journal follow.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final, Literal, NamedTuple

from msgspec import Struct, structs

from slackwater.cluster.journal import ChangeJournal
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.priority_shares import PriorityShares
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.ledger.ledger import Ledger
from slackwater.model.resources import NOTHING, Amounts

_NEVER: Final = Instant(math.inf)

Cause = Literal["bind", "former try", "preemption", "drain", "migration"]


class HoldKey(NamedTuple):
    """Names a hold. `uid`: the pod for which room is kept; for a migration its namespace and name, since the target pod may not
    exist yet. `number`: which former try."""

    uid: PodUid
    cause: Cause = "bind"
    number: int = 0


class Hold(Struct, frozen=True, kw_only=True, eq=False):
    """Room for one pod on one row.

    `bind_may_come`: kube-scheduler binds by itself and may have sent the bind, so the hold does not end by time alone: the pod
    is read first. `doubted`: the pod is being read. `nominee` is the pod's priority as long as the pod is only nominated to the
    node and kube-scheduler has not asked about it; pods of higher priority ignore such a hold (`NominatedRoom.beside`).
    `guess`: kube-scheduler may choose another node, so binds of other pods may use this room.
    """

    key: PodKey
    row: Row
    amounts: Amounts
    deadline: Instant = _NEVER
    bind_may_come: bool = False
    doubted: bool = False
    nominee: int | None = None
    guess: bool = False


class Holds:
    """All holds. Methods that take a UID are about a pod's holds for its bind: the present one, and those of former tries."""

    def __init__(self, ledger: Ledger, nodes: NodeTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds: dict[HoldKey, Hold] = {}
        #: The amounts of nominees' holds, by the nominees' priority.
        self.nominated = PriorityShares()
        #: The keys of each pod's former tries, the oldest first.
        self._former: dict[PodUid, list[HoldKey]] = {}
        self._former_tries = 0
        #: Lower bounds of the deadlines: of holds that end by time alone, and of those whose bind may come. So most ticks look
        #: at no hold.
        self._expires_at = self._doubtful_at = _NEVER
        #: The UIDs of pods whose hold for a bind has changed.
        self.journal = ChangeJournal[PodUid]()

    def put(self, key: HoldKey, hold: Hold) -> None:
        """Keeps the room, in place of what the key kept before."""
        self.drop(key)
        self._enter(key, hold)

    def _enter(self, key: HoldKey, hold: Hold) -> None:
        self._ledger.hold(hold.row, hold.amounts)
        if hold.nominee is not None:
            self.nominated.admit(hold.row, hold.nominee, hold.amounts)
        self._holds[key] = hold
        if hold.bind_may_come:
            self._doubtful_at = min(self._doubtful_at, hold.deadline)
        else:
            self._expires_at = min(self._expires_at, hold.deadline)
        if key.cause == "bind":
            self.journal.note(key.uid)
        elif key.cause == "former try":
            self._former.setdefault(key.uid, []).append(key)
            self._former_tries = max(self._former_tries, key.number + 1)

    def get(self, key: HoldKey) -> Hold | None:
        return self._holds.get(key)

    def drop(self, key: HoldKey) -> Hold | None:
        """Ends a hold, so room appears on its row. Returns it, None if there was none."""
        hold = self._take(key)
        if hold is not None:
            self._nodes.room_appeared(hold.row)
        return hold

    def _take(self, key: HoldKey) -> Hold | None:
        """Removes and returns the hold as `drop` does, but does not report that room appeared."""
        hold = self._holds.pop(key, None)
        if hold is None:
            return None
        self._ledger.release_held(hold.row, hold.amounts)
        if hold.nominee is not None:
            self.nominated.release(hold.row, hold.nominee, hold.amounts)
        if key.cause == "bind":
            self.journal.note(key.uid)
        elif key.cause == "former try":
            keys = self._former[key.uid]
            keys.remove(key)
            if not keys:
                del self._former[key.uid]
        return hold

    def guessed_on(self, row: Row) -> Amounts:
        """The room on the row that is held for pods which kube-scheduler may still put on other nodes."""
        return reduce(Amounts.plus, (hold.amounts for hold in self._holds.values() if hold.guess and hold.row == row), NOTHING)

    def node_closing(self, row: Row) -> None:
        """Ends all holds on a row before the row is closed. Otherwise they would later release amounts that the closed row no
        longer has."""
        for key in [key for key, hold in self._holds.items() if hold.row == row]:
            self._take(key)

    def expire(self, now: Instant) -> list[HoldKey]:
        """Ends the holds whose deadline has passed, but not those whose bind may still come. Returns their keys."""
        if now < self._expires_at:
            return []
        due = [key for key, hold in self._holds.items() if hold.deadline <= now and not hold.bind_may_come]
        for key in due:
            self.drop(key)
        self._expires_at = self._earliest(bind_may_come=False)
        return due

    def _earliest(self, *, bind_may_come: bool) -> Instant:
        return min((hold.deadline for hold in self._holds.values() if hold.bind_may_come is bind_may_come), default=_NEVER)

    # --- a pod's holds for its bind ------------------------------------------------------------------------------------------

    def has(self, uid: PodUid) -> bool:
        """Whether room is held for the pod's bind, after its last try or a former one."""
        return HoldKey(uid) in self._holds or uid in self._former

    def all_of(self, uid: PodUid) -> list[Hold]:
        """The pod's holds: those of former tries, the oldest first, then the present one."""
        return [hold for key in self._keys(uid) if (hold := self._holds.get(key)) is not None]

    def _keys(self, uid: PodUid) -> Sequence[HoldKey]:
        former = self._former.get(uid)
        return (HoldKey(uid),) if former is None else (*former, HoldKey(uid))

    def rows_of(self, uid: PodUid) -> frozenset[Row]:
        """The rows where room is held for the pod: where it may be bound, after what filter answered."""
        return frozenset(hold.row for hold in self.all_of(uid))

    def suspend(self, uid: PodUid) -> list[tuple[HoldKey, Hold]]:
        """Removes and returns the pod's holds, so that the pod can be judged again. The caller must then call `restore` or
        `retry`."""
        return [(key, hold) for key in self._keys(uid) if (hold := self._take(key)) is not None]

    def restore(self, suspended: Sequence[tuple[HoldKey, Hold]]) -> None:
        """Puts the suspended holds back as they were."""
        for key, hold in suspended:
            self._enter(key, hold)

    def retry(self, uid: PodUid, suspended: Sequence[tuple[HoldKey, Hold]], until: Instant | None) -> None:
        """Ends the suspended holds after the pod was judged again, or makes them holds of former tries.

        `until`: where a bind of a former try could still exceed a node, its room counts until its own deadline, or this one if
        that is earlier. None: kube-scheduler counts all pods as we do, so a former try holds nothing.
        """
        now = self._holds.get(HoldKey(uid))
        for _, hold in suspended:
            if now is not None and now.row == hold.row:
                continue
            if hold.bind_may_come and until is not None:
                left = structs.replace(hold, deadline=min(hold.deadline, until), doubted=False)
                self._enter(HoldKey(uid, "former try", self._former_tries), left)
            else:
                self._nodes.room_appeared(hold.row)

    def drop_all(self, uid: PodUid) -> None:
        """Ends all holds of a pod that is bound or gone, since no bind of it can come any more."""
        for key in self._keys(uid):
            self.drop(key)

    def doubt(self, now: Instant, until: Instant) -> list[tuple[PodUid, PodKey]]:
        """The pods to read because the deadline of a hold has passed and the hold's bind may still come. These holds last until
        `until`, or until the read."""
        if now < self._doubtful_at:
            return []
        due = [(key, hold) for key, hold in self._holds.items() if hold.bind_may_come and hold.deadline <= now]
        for key, hold in due:
            self._holds[key] = structs.replace(hold, doubted=True, deadline=until)
        self._doubtful_at = self._earliest(bind_may_come=True)
        return list(dict.fromkeys((key.uid, hold.key) for key, hold in due))

    def read_unbound(self, uid: PodUid) -> list[HoldKey]:
        """Ends the doubted holds of a pod that a read found without a node; returns their keys."""
        ended = [key for key in self._keys(uid) if (hold := self._holds.get(key)) is not None and hold.doubted]
        for key in ended:
            self.drop(key)
        return ended

    def __iter__(self) -> Iterator[tuple[HoldKey, Hold]]:
        return iter(self._holds.items())

    def __len__(self) -> int:
        return len(self._holds)
