"""Holds: room kept on nodes between filter's answer and bind. Every hold ends: at bind, at the next filter call of its pod, or
after some time.

A hold has the rows that kube-scheduler may still choose from, and counts on one of them. With a single row it counts there.
With several, it counts on the row that our score prefers, a guess that bind or the watch corrects. It counts on no row if
kube-scheduler itself counts the pod by the same amounts: it then assumes the pod before its next decision (docs/adr/0154).
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import numpy as np
from msgspec import Struct, structs

from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.priority_shares import PriorityShares
from slackwater.model.columns import Int64, Rows, vertical
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.ledger.ledger import Ledger
from slackwater.model.resources import NOTHING, RESOURCES, Amounts

_FORMER: Final = "former/"
_NEVER: Final = Instant(math.inf)


class Hold(Struct, frozen=True, kw_only=True, eq=False):
    """Room held for one pod. `rows` are where the pod may go; `counted` is the one of them where the amounts count as held, or
    empty. Where kube-scheduler binds, `counted` may have further rows, to which pods that grow came later (`Holds.count_on`).

    `bind_may_come`: kube-scheduler binds by itself and may have sent the bind, so the hold does not end by time alone: the pod
    is read first. `doubted`: the pod is being read. `nominee` is the pod's priority as long as the pod is only nominated to the
    node and kube-scheduler has not asked about it; pods of higher priority ignore such a hold (`NominatedRoom.beside`).
    """

    key: PodKey
    rows: Rows
    counted: Rows
    amounts: Amounts
    deadline: Instant
    bind_may_come: bool = False
    doubted: bool = False
    nominee: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether kube-scheduler may choose among several rows."""
        return len(self.rows) > 1

    def covers(self, row: Row) -> bool:
        """Whether the pod may go to the row."""
        return bool((self.rows == row).any()) if self.is_open else self.rows.item() == row


class Holds:
    """The holds by UID: at most one for each pod. Where kube-scheduler binds, remainders of a pod's former holds exist too,
    under keys of their own."""

    def __init__(self, ledger: Ledger, nodes: NodeTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds: dict[PodUid, Hold] = {}
        #: The amounts of nominees' holds, by the nominees' priority.
        self.nominated = PriorityShares()
        #: The keys of the remainders of each pod's former holds, the oldest first.
        self._former: dict[PodUid, list[PodUid]] = {}
        self._former_holds = 0
        #: The pods whose holds are open.
        self._open: dict[PodUid, None] = {}
        #: What open holds would take of each row. Computed at the first use, and kept until there is no open hold.
        self._open_amounts: Int64 | None = None
        #: Lower bounds of the deadlines: of holds that end by time alone, and of those whose bind may come. So most ticks look
        #: at no hold.
        self._expires_at = self._doubtful_at = _NEVER

    def put(
        self,
        uid: PodUid,
        key: PodKey,
        rows: Rows,
        amounts: Amounts,
        deadline: Instant,
        *,
        counted: Row | None = None,
        bind_may_come: bool = False,
        nominee: int | None = None,
    ) -> None:
        """Holds room for a pod on one of `rows` (distinct, at least one), in place of its earlier hold. The hold counts on
        `counted`, or if there is only one row, on that row."""
        self.drop(uid)
        where: Rows = rows if len(rows) == 1 else np.array([] if counted is None else [counted], np.intp)
        hold = Hold(
            key=key,
            rows=rows,
            counted=where,
            amounts=amounts,
            deadline=deadline,
            bind_may_come=bind_may_come,
            nominee=nominee,
        )
        self.enter(uid, hold)

    def enter(self, uid: PodUid, hold: Hold) -> None:
        """Adds the hold as it is. There must be none with this key."""
        if len(hold.counted):
            self._ledger.hold(hold.counted, hold.amounts)
        if hold.nominee is not None:
            for row in hold.counted.tolist():
                self.nominated.admit(row, hold.nominee, hold.amounts)
        self._holds[uid] = hold
        if hold.bind_may_come:
            self._doubtful_at = min(self._doubtful_at, hold.deadline)
        else:
            self._expires_at = min(self._expires_at, hold.deadline)
        if hold.is_open:
            self._open[uid] = None
            self._count_open(hold, 1)
        if uid.startswith(_FORMER):
            self._former.setdefault(of_former(uid), []).append(uid)
            self._former_holds = max(self._former_holds, _number_of(uid) + 1)

    def get(self, uid: PodUid) -> Hold | None:
        return self._holds.get(uid)

    def has(self, uid: PodUid) -> bool:
        """Whether room is held for the pod, by its present hold or by the remainder of a former one."""
        return uid in self._holds or uid in self._former

    def all_of(self, uid: PodUid) -> list[Hold]:
        """The holds that keep room for the pod: remainders of former holds, the oldest first, then the present one."""
        if uid not in self._former:  # the usual case
            hold = self._holds.get(uid)
            return [] if hold is None else [hold]
        return [hold for name in [*self._former[uid], uid] if (hold := self._holds.get(name)) is not None]

    def counted_for(self, uid: PodUid) -> frozenset[int]:
        """The rows where amounts count as held for the pod."""
        return frozenset(row for hold in self.all_of(uid) for row in hold.counted.tolist())

    def covers(self, uid: PodUid, row: Row) -> bool:
        """Whether kube-scheduler may bind the pod to the row, after what filter answered."""
        return any(hold.covers(row) for hold in self.all_of(uid))

    def drop(self, uid: PodUid) -> Hold | None:
        hold = self._taken(uid)
        if hold is not None and len(hold.counted):
            self._nodes.room_appeared(hold.counted)
        return hold

    def _taken(self, uid: PodUid) -> Hold | None:
        """Removes and returns the hold as `drop` does, but does not report that room appeared."""
        hold = self._holds.pop(uid, None)
        if hold is None:
            return None
        if len(hold.counted):
            self._ledger.release_held(hold.counted, hold.amounts)
        if hold.nominee is not None:
            for row in hold.counted.tolist():
                self.nominated.release(row, hold.nominee, hold.amounts)
        if hold.is_open:
            del self._open[uid]
            self._count_open(hold, -1)
            self._open_amounts = self._open_amounts if self._open else None
        if uid.startswith(_FORMER):
            names = self._former[of_former(uid)]
            names.remove(uid)
            if not names:
                del self._former[of_former(uid)]
        return hold

    def node_closing(self, row: Row) -> None:
        """Removes a row from all holds before the row is closed. Otherwise they would later release amounts that the closed row
        no longer has."""
        for uid, hold in list(self._holds.items()):
            if (hold.rows == row).any():
                self._taken(uid)
                rows, counted = hold.rows[hold.rows != row], hold.counted[hold.counted != row]
                if len(rows):
                    self.enter(uid, structs.replace(hold, rows=rows, counted=counted))

    def expire(self, now: Instant) -> list[PodUid]:
        """Ends the holds whose deadline has passed, but not those whose bind may still come. Returns their keys."""
        if now < self._expires_at:
            return []
        due = [uid for uid, hold in self._holds.items() if hold.deadline <= now and not hold.bind_may_come]
        for uid in due:
            self.drop(uid)
        self._expires_at = self._earliest(bind_may_come=False)
        return due

    def _earliest(self, *, bind_may_come: bool) -> Instant:
        return min((hold.deadline for hold in self._holds.values() if hold.bind_may_come is bind_may_come), default=_NEVER)

    def open_amounts_on(self, row: Row) -> Amounts:
        """The sum of the open holds that count on this row. Filter offered several nodes for their pods, so kube-scheduler may
        still bind these pods to other nodes."""
        guesses = (self._holds[uid] for uid in self._open)
        return reduce(Amounts.plus, (hold.amounts for hold in guesses if (hold.counted == row).any()), NOTHING)

    # --- where kube-scheduler binds by itself -------------------------------------------------------------------------------

    def open_holds_on(self, rows: Rows) -> Int64 | None:
        """The room that pods with open holds would take of each row in addition to what counts there already, if all of them
        were bound there; shape (resources, len(rows)). None if no hold is open."""
        if not self._open:
            return None
        n_rows = self._ledger.columns.n_rows
        if self._open_amounts is None or self._open_amounts.shape[1] != n_rows:
            self._open_amounts = np.zeros((len(RESOURCES), n_rows), np.int64)
            for uid in self._open:
                self._count_open(self._holds[uid], 1)
        return self._open_amounts.take(rows, axis=1)

    def _count_open(self, hold: Hold, sign: int) -> None:
        if self._open_amounts is not None and self._open_amounts.shape[1] != self._ledger.columns.n_rows:
            self._open_amounts = None  # nodes joined since; the next use sums all open holds
        if self._open_amounts is not None:
            self._open_amounts[:, hold.rows] += sign * vertical(hold.amounts)
            self._open_amounts[:, hold.counted] -= sign * vertical(hold.amounts)

    def count_on(self, row: Row) -> None:
        """Makes every open hold that has this row count there, because a pod that grows in place is on the row or about to be.
        kube-scheduler counts less for that pod than we do, so it may bind all pods of these holds there too."""
        for uid in list(self._open):
            hold = self._holds[uid]
            if (hold.rows == row).any() and not (hold.counted == row).any():
                self._taken(uid)
                self.enter(uid, structs.replace(hold, counted=np.append(hold.counted, row)))

    def suspend(self, uid: PodUid) -> list[Hold]:
        """Removes and returns all holds of the pod, so that the pod can be judged again; the caller must call `restore`
        afterwards."""
        return [hold for name in [*self._former.get(uid, ()), uid] if (hold := self._taken(name)) is not None]

    def restore(self, uid: PodUid, suspended: Sequence[Hold], until: Instant) -> None:
        """Restores those of the lifted holds that still count after the pod was judged again.

        If kube-scheduler binds, a bind that a lifted hold allowed may still come. Such a hold counts until its own deadline, or
        `until` if that is earlier. The other holds have ended.
        """
        now = self._holds.get(uid)
        for hold in suspended:
            rows = hold.counted if now is None else hold.counted[~np.isin(hold.counted, now.counted)]
            if not len(rows):
                continue
            if hold.bind_may_come:
                deadline = min(hold.deadline, until)
                left = structs.replace(hold, rows=rows, counted=rows, deadline=deadline, doubted=False)
                self.enter(self._former_name(uid), left)
            else:
                self._nodes.room_appeared(rows)

    def _former_name(self, uid: PodUid) -> PodUid:
        return PodUid(f"{_FORMER}{self._former_holds}/{uid}")

    def drop_all(self, uid: PodUid) -> None:
        """Ends all holds of a pod that is bound or gone, since no bind of it can come any more."""
        for name in [*self._former.get(uid, ()), uid]:
            self.drop(name)

    def doubt(self, now: Instant, until: Instant) -> list[tuple[PodUid, PodKey]]:
        """The pods to read because the deadline of a hold has passed and the hold's bind may still come. These holds last until
        `until`, or until the read."""
        if now < self._doubtful_at:
            return []
        due = [(uid, hold) for uid, hold in self._holds.items() if hold.bind_may_come and hold.deadline <= now]
        for uid, hold in due:
            self._holds[uid] = structs.replace(hold, doubted=True, deadline=until)
        self._doubtful_at = self._earliest(bind_may_come=True)
        return list(dict.fromkeys((of_former(uid), hold.key) for uid, hold in due))

    def read_unbound(self, uid: PodUid) -> list[PodUid]:
        """Ends the doubted holds of a pod that a read found without a node; returns their keys."""
        names = [*self._former.get(uid, ()), uid]
        ended = [name for name in names if (hold := self._holds.get(name)) is not None and hold.doubted]
        for name in ended:
            self.drop(name)
        return ended

    def __iter__(self) -> Iterator[tuple[PodUid, Hold]]:
        return iter(self._holds.items())

    def __len__(self) -> int:
        return len(self._holds)


def of_former(uid: PodUid) -> PodUid:
    """The pod's UID, given the key of one of its holds: the UID itself, or the key of a remainder."""
    return PodUid(uid.removeprefix(_FORMER).partition("/")[2]) if uid.startswith(_FORMER) else uid


def _number_of(former: PodUid) -> int:
    return int(former.removeprefix(_FORMER).partition("/")[0])
