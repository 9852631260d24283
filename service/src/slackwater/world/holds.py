"""Room kept between the scheduler's decision and its bind. Every hold ends: at bind, at the next filter of its pod, or by time.

A hold covers the rows that the scheduler may still choose from. With one row left the choice is certain, and the room counts as
taken there. With several, it counts only on rows where kube-scheduler could choose wrongly because our accounting is stricter
than its own (see `NodeTable.stricter`), and everywhere for a pod that grows in place: elsewhere kube-scheduler itself assumes
the pod before its next decision, and a hold on each of the rows would refuse others for nothing (docs/adr/0003).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from slackwater.ledger.ledger import Ledger
from slackwater.model.columns import Rows
from slackwater.model.ids import Instant, PodKey, PodUid, Row
from slackwater.model.resources import Amounts
from slackwater.world.nodes import NodeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`rows` are where the pod may go; `counted` those of them where the amounts count as held."""

    key: PodKey
    rows: Rows
    counted: Rows
    amounts: Amounts
    deadline: Instant


class Holds:
    """At most one hold for each pod."""

    def __init__(self, ledger: Ledger, nodes: NodeTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds: dict[PodUid, Hold] = {}

    def put(
        self, uid: PodUid, key: PodKey, rows: Rows, amounts: Amounts, deadline: Instant, *, everywhere: bool = False
    ) -> None:
        """Holds room for a pod on `rows` (distinct, at least one), in place of its earlier hold.

        `everywhere`: kube-scheduler counts the pod itself by other amounts, so that it could choose wrongly on each row.
        """
        self.drop(uid)
        counted = rows if everywhere or len(rows) == 1 else rows[self._nodes.stricter[rows]]
        self.enter(uid, Hold(key=key, rows=rows, counted=counted, amounts=amounts, deadline=deadline))

    def enter(self, uid: PodUid, hold: Hold) -> None:
        """Takes the hold as it is; the pod has no earlier one."""
        if len(hold.counted):
            self._ledger.hold(hold.counted, hold.amounts)
        self._holds[uid] = hold

    def get(self, uid: PodUid) -> Hold | None:
        return self._holds.get(uid)

    def covers(self, uid: PodUid, row: Row) -> bool:
        hold = self._holds.get(uid)
        return hold is not None and bool((hold.rows == row).any())

    def drop(self, uid: PodUid) -> Hold | None:
        hold = self._holds.pop(uid, None)
        if hold is not None and len(hold.counted):
            self._ledger.unhold(hold.counted, hold.amounts)
            self._nodes.room_appeared(hold.counted)
        return hold

    def node_closing(self, row: Row) -> None:
        """The row goes: no hold may give back there what the closed row no longer has."""
        for uid, hold in list(self._holds.items()):
            if not (hold.rows == row).any():
                continue
            self._ledger.unhold(hold.counted, hold.amounts)
            rows, counted = hold.rows[hold.rows != row], hold.counted[hold.counted != row]
            if len(rows):
                self._ledger.hold(counted, hold.amounts)
                self._holds[uid] = Hold(key=hold.key, rows=rows, counted=counted, amounts=hold.amounts, deadline=hold.deadline)
            else:
                del self._holds[uid]

    def expire(self, now: Instant) -> list[PodUid]:
        """Ends the holds whose time is over; answers whose they were."""
        expired = [uid for uid, hold in self._holds.items() if hold.deadline <= now]
        for uid in expired:
            self.drop(uid)
        return expired

    def __iter__(self) -> Iterator[tuple[PodUid, Hold]]:
        return iter(self._holds.items())

    def __len__(self) -> int:
        return len(self._holds)
