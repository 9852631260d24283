"""Room kept between the scheduler's decision and its bind. Every hold ends: at bind, at the next filter of its pod, or by time.

A hold covers the rows that the scheduler may still choose from. With one row left the choice is certain, and the room counts as
taken there. With several, it counts only on rows where kube-scheduler could choose wrongly because our accounting is stricter
than its own (see `NodeTable.stricter`), and everywhere for a pod that grows in place: elsewhere kube-scheduler itself assumes
the pod before its next decision, and a hold on each of the rows would refuse others for nothing (docs/adr/0003).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np

from slackwater.ledger.ledger import Ledger
from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.resources import Amounts
from slackwater.world.nodes import NodeTable
from slackwater.world.shares import Shares

_FORMER: Final = "former/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`rows` are where the pod may go; `counted` those of them where the amounts count as held.

    `bind_may_come`: kube-scheduler binds by itself, and may have sent the bind, so the hold does not end by time alone: the pod
    is read first. `doubted`: it is being read. `nominee`: the pod's priority, as long as it is only nominated to the node and
    kube-scheduler has not asked about it. More important pods do not count such a hold (`NominatedRoom.beside`).
    """

    key: PodKey
    rows: Rows
    counted: Rows
    amounts: Amounts
    deadline: Instant
    bind_may_come: bool = False
    doubted: bool = False
    nominee: int | None = None


class Holds:
    """At most one hold for each pod; and where kube-scheduler binds, what is left of former ones, under names of their own."""

    def __init__(self, ledger: Ledger, nodes: NodeTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds: dict[PodUid, Hold] = {}
        #: What the holds of nominees count for, by their priority.
        self.nominated = Shares()

    def put(
        self,
        uid: PodUid,
        key: PodKey,
        rows: Rows,
        amounts: Amounts,
        deadline: Instant,
        *,
        everywhere: bool = False,
        bind_may_come: bool = False,
        nominee: int | None = None,
    ) -> None:
        """Holds room for a pod on `rows` (distinct, at least one), in place of its earlier hold.

        `everywhere`: kube-scheduler counts the pod itself by other amounts, so that it could choose wrongly on each row.
        """
        self.drop(uid)
        counted = rows if everywhere or len(rows) == 1 else rows[self._nodes.stricter[rows]]
        hold = Hold(
            key=key,
            rows=rows,
            counted=counted,
            amounts=amounts,
            deadline=deadline,
            bind_may_come=bind_may_come,
            nominee=nominee,
        )
        self.enter(uid, hold)

    def enter(self, uid: PodUid, hold: Hold) -> None:
        """Takes the hold as it is; the pod has no earlier one."""
        if len(hold.counted):
            self._ledger.hold(hold.counted, hold.amounts)
        if hold.nominee is not None:
            for row in hold.counted.tolist():
                self.nominated.admit(row, hold.nominee, hold.amounts)
        self._holds[uid] = hold

    def get(self, uid: PodUid) -> Hold | None:
        return self._holds.get(uid)

    def covers(self, uid: PodUid, row: Row) -> bool:
        hold = self._holds.get(uid)
        return hold is not None and bool((hold.rows == row).any())

    def drop(self, uid: PodUid) -> Hold | None:
        hold = self._holds.pop(uid, None)
        if hold is not None and len(hold.counted):
            self._take_back(hold)
            self._nodes.room_appeared(hold.counted)
        return hold

    def _take_back(self, hold: Hold) -> None:
        self._ledger.unhold(hold.counted, hold.amounts)
        if hold.nominee is not None:
            for row in hold.counted.tolist():
                self.nominated.release(row, hold.nominee, hold.amounts)

    def node_closing(self, row: Row) -> None:
        """The row goes: no hold may give back there what the closed row no longer has."""
        for uid, hold in list(self._holds.items()):
            if not (hold.rows == row).any():
                continue
            self._take_back(hold)
            del self._holds[uid]
            rows, counted = hold.rows[hold.rows != row], hold.counted[hold.counted != row]
            if len(rows):
                self.enter(uid, replace(hold, rows=rows, counted=counted))

    def expire(self, now: Instant, prolonged: Callable[[PodUid], Instant | None]) -> list[PodUid]:
        """Ends the holds whose time is over, but for those whose bind may come, and those that are `prolonged` to a new
        deadline; answers whose they were."""
        due = [uid for uid, hold in self._holds.items() if hold.deadline <= now and not hold.bind_may_come]
        expired: list[PodUid] = []
        for uid in due:
            if (deadline := prolonged(uid)) is None:
                self.drop(uid)
                expired.append(uid)
            else:
                self._holds[uid] = replace(self._holds[uid], deadline=deadline)
        return expired

    # --- where kube-scheduler binds by itself -------------------------------------------------------------------------------

    def count_everywhere(self) -> None:
        """From now on kube-scheduler could choose wrongly on every row: what was not counted there is."""
        for uid, hold in list(self._holds.items()):
            if len(hold.counted) < len(hold.rows):
                self.drop(uid)
                self.enter(uid, replace(hold, counted=hold.rows))

    def remember(self, uid: PodUid, earlier: Iterable[Hold | None]) -> None:
        """The pod was asked about once more, yet a bind that these earlier holds let pass may still come: where its new hold
        does not count, they do, until their own end."""
        held = [hold for hold in earlier if hold is not None and hold.bind_may_come]
        if not held:
            return
        rows: Rows = np.unique(np.concatenate([np.zeros(0, np.intp), *(hold.counted for hold in held)]))
        now = self._holds.get(uid)
        if now is not None:
            rows = rows[~np.isin(rows, now.counted)]
        if len(rows):
            amounts = reduce(Amounts.at_least, (hold.amounts for hold in held))
            deadline = max(hold.deadline for hold in held)
            last = replace(held[-1], rows=rows, counted=rows, amounts=amounts, deadline=deadline, doubted=False)
            self.enter(former(uid), last)

    def drop_all(self, uid: PodUid) -> Hold | None:
        """The pod is bound, or gone: nothing of it may come any more."""
        earlier, hold = self.drop(former(uid)), self.drop(uid)
        return hold or earlier

    def doubt(self, now: Instant, until: Instant) -> list[tuple[PodUid, PodKey]]:
        """The pods that have to be read, since the time of their holds is over; they last until then, or until a read."""
        due = [(uid, hold) for uid, hold in self._holds.items() if hold.bind_may_come and hold.deadline <= now]
        for uid, hold in due:
            self._holds[uid] = replace(hold, doubted=True, deadline=until)
        return [(of_former(uid), hold.key) for uid, hold in due]

    def read_unbound(self, uid: PodUid) -> list[PodUid]:
        """A read has found the pod without a node: what was doubted ends; answers under which names."""
        names = [name for name in (uid, former(uid)) if (hold := self._holds.get(name)) is not None and hold.doubted]
        for name in names:
            self.drop(name)
        return names

    def __iter__(self) -> Iterator[tuple[PodUid, Hold]]:
        return iter(self._holds.items())

    def __len__(self) -> int:
        return len(self._holds)


def former(uid: PodUid) -> PodUid:
    """Whose hold it is that is left of the pod's earlier ones."""
    return PodUid(f"{_FORMER}{uid}")


def of_former(uid: PodUid) -> PodUid:
    """The pod, by either name."""
    return PodUid(uid.removeprefix(_FORMER))
