"""Holds: room kept on one node for a pod that is not bound there yet. Every hold has an owner that ends it.

    bind         filter named the node, or prioritize guessed it, or a nomination after a sample miss: until bound, asked about
                 again, or late
    former try   filter named the node at an earlier try, and a bind may still come: until a read finds the pod unbound
    preemption   the node of a preemptor, while its victims leave and until kube-scheduler tries it again
    plan         a new node, for the pods that it was bought for (`cluster.planned_nodes`)
    drain        the destination of a pod that leaves its node (`DrainDestinations`)
    migration    the target node of a virtual machine's migration (`controllers.migration`)

A pod has one hold for each cause, and one for each former try. Invariant: what the ledger holds on a row is the sum over the
holds on it. Whoever changes a hold does it here, since the ledger, the shares of nominees and the journal follow. Two callers
leave the invariant for a moment, and restore it before they return: who judges a pod again (`suspend`, then `restore` or
`retry`), and who judges it `beside` the room that it may use.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct, structs

from slackwater.cluster.journal import ChangeJournal
from slackwater.cluster.nodes import NodeTable
from slackwater.cluster.pods import PodTable
from slackwater.fit.plugins.node_accounting import fits_on
from slackwater.model.changes import KeptRoom
from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid, Row
from slackwater.model.ledger import Ledger, PriorityShares
from slackwater.model.objects import Pod
from slackwater.model.resources import NOTHING, RESOURCES, Amounts, sum_of

_NEVER: Final = Instant(math.inf)
#: The usual case of `Holds.beside`.
_NOTHING_LIFTED: Final = nullcontext()

Cause = Literal["bind", "former try", "preemption", "plan", "drain", "migration"]


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
    node and kube-scheduler has not asked about it; pods of higher priority ignore such a hold (`Holds.beside`).
    `guess`: kube-scheduler may choose another node, so binds of other pods may use this room. `priority` and
    `preemption` are those of a preemptor: its priority, and the number of its preemption, which grows from one to the next.
    """

    key: PodKey
    row: Row
    amounts: Amounts
    deadline: Instant = _NEVER
    bind_may_come: bool = False
    doubted: bool = False
    nominee: int | None = None
    guess: bool = False
    priority: int = 0
    preemption: int = 0


class Holds:
    """All holds. Methods that take a UID are about a pod's holds for its bind: the present one, and those of former tries."""

    def __init__(self, ledger: Ledger, nodes: NodeTable, pods: PodTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds: dict[HoldKey, Hold] = {}
        #: The amounts of nominees' holds, by the nominees' priority.
        self.nominated = PriorityShares()
        self.destinations = DrainDestinations(ledger, nodes, self, pods)
        #: The keys of each pod's former tries, the oldest first.
        self._former: dict[PodUid, list[HoldKey]] = {}
        self._former_tries = 0
        #: The holds of preemptors.
        self._preemptors: dict[PodUid, Hold] = {}
        #: The holds on new nodes for the pods that these were bought for.
        self.planned: dict[PodUid, Hold] = {}
        #: A hold of `planned` has ended unused since the last `take_freed`.
        self._freed = False
        #: Lower bounds of the deadlines: of holds that end by time alone, and of those whose bind may come. So most ticks look
        #: at no hold.
        self._expires_at = self._doubtful_at = _NEVER
        #: The UIDs of pods whose hold for a bind has changed.
        self.journal = ChangeJournal[PodUid]()

    def put(self, key: HoldKey, hold: Hold) -> None:
        """Keeps the room, in place of what the key kept before."""
        self.drop(key)
        self._ledger.hold(hold.row, hold.amounts)
        if hold.nominee is not None:
            self.nominated.add(hold.row, hold.nominee, hold.amounts, pods=1)
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
        elif key.cause == "preemption":
            self._preemptors[key.uid] = hold
        elif key.cause == "plan":
            self.planned[key.uid] = hold

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
        self._ledger.hold(hold.row, hold.amounts, -1)
        if hold.nominee is not None:
            self.nominated.add(hold.row, hold.nominee, NOTHING.minus(hold.amounts), pods=-1)
        if key.cause == "bind":
            self.journal.note(key.uid)
        elif key.cause == "former try":
            keys = self._former[key.uid]
            keys.remove(key)
            if not keys:
                del self._former[key.uid]
        elif key.cause == "preemption":
            del self._preemptors[key.uid]
        elif key.cause == "plan":
            del self.planned[key.uid]
        return hold

    def guessed_on(self, row: Row) -> Amounts:
        """The room on the row that is held for pods which kube-scheduler may still put on other nodes."""
        return sum_of(hold.amounts for hold in self._holds.values() if hold.guess and hold.row == row)

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
            self.put(key, hold)

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
                self.put(HoldKey(uid, "former try", self._former_tries), left)
            else:
                self._nodes.room_appeared(hold.row)

    def drop_all(self, uid: PodUid, node: Row | None = None) -> None:
        """Ends all holds of a pod that is bound to `node` or gone (None), since no bind of it can come any more."""
        for key in self._keys(uid):
            self.drop(key)
        self.drop_planned(uid, node)

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

    def drop_planned(self, uid: PodUid, row: Row | None) -> None:
        """Ends the room that is kept for the pod on a new node, because it has room on `row`, or is gone (None)."""
        hold = self.planned.get(uid)
        if hold is not None:
            self.drop(HoldKey(uid, "plan"))
            self._freed |= hold.row != row

    def planned_for(self, pod: Pod) -> list[Row]:
        """Where a plan has room for the pod: on the new node that was bought for it, and at the destinations of evicted pods
        that it may replace."""
        keys = (HoldKey(pod.uid, "plan"), *self.destinations.released_to(pod))
        return [hold.row for key in keys if (hold := self._holds.get(key)) is not None]

    def take_freed(self) -> bool:
        """Whether pods may now use room that was kept for others on new nodes or for drains, since the last call."""
        freed, self._freed = self._freed, False
        return self.destinations.take_freed() or freed

    # --- room of preemptors, and of nominees --------------------------------------------------------------------------------

    def keep_for_preemptor(self, pod: Pod, node: NodeName, number: int) -> None:
        """Keeps room for the preemptor on the node, in place of earlier such room of the pod, until the end of its preemption.
        Keeps none if the node is unknown. `number` is that of the preemption."""
        key, row = HoldKey(pod.uid, "preemption"), self._nodes.row_of.get(node)
        if row is None:
            self.drop(key)
        else:
            self.put(key, Hold(key=pod.key, row=row, amounts=pod.need, priority=pod.priority, preemption=number))

    def drop_for_preemptor(self, uid: PodUid) -> None:
        """Ends the preemptor's room, if it has any."""
        if uid in self._preemptors:
            self.drop(HoldKey(uid, "preemption"))

    def node_of_preemptor(self, uid: PodUid) -> NodeName | None:
        hold = self._preemptors.get(uid)
        node = None if hold is None else self._nodes.by_row[hold.row]
        return None if node is None else node.name

    def kept_on(self, rows: Rows, priority: int) -> Int64:
        """The room on each row that is kept for preemptors of that priority or a higher one; shape (resources, len(rows))."""
        kept = np.zeros((len(RESOURCES), self._ledger.columns.n_rows), np.int64)
        for hold in self._preemptors.values():
            if hold.priority >= priority:
                kept[:, hold.row] += hold.amounts
        return kept[:, rows]

    def beside(self, pod: Pod, number: int | None = None) -> AbstractContextManager[None]:
        """A context in which room counts as free that the pod may use although it is kept for others: that of nominees with a
        lower priority, that of evicted pods which the pod may replace, and what is kept for itself on a new node.

        `number` is that of the pod's own preemption. Of two preemptors of equal priority the earlier one may use the room of
        the later one, which chose its victims without counting on the earlier one's room.
        """
        nominated = self.nominated.below(pod.priority, self._ledger.columns.n_rows)
        lifted = [self._holds[key] for key in self.destinations.released_to(pod) if key in self._holds]
        if (planned := self.planned.get(pod.uid)) is not None:
            lifted.append(planned)
        lifted += [
            hold
            for hold in self._preemptors.values()
            if hold.priority < pod.priority
            or (number is not None and hold.priority == pod.priority and hold.preemption > number)
        ]
        return _Lifted(self._ledger, lifted, nominated) if lifted or nominated is not None else _NOTHING_LIFTED

    def __iter__(self) -> Iterator[tuple[HoldKey, Hold]]:
        return iter(self._holds.items())

    def __contains__(self, key: object) -> bool:
        return key in self._holds

    def __len__(self) -> int:
        return len(self._holds)


class _Lifted(NamedTuple):
    """A context in which these holds, and the amounts of nominees, count as free."""

    ledger: Ledger
    holds: Sequence[Hold]
    nominated: Int64 | None

    def __enter__(self) -> None:
        self._hold(-1)

    def __exit__(self, *_: object) -> None:
        self._hold(1)

    def _hold(self, sign: int) -> None:
        for hold in self.holds:
            self.ledger.hold(hold.row, hold.amounts, sign)
        if self.nominated is not None:
            self.ledger.columns.held[:, : self.nominated.shape[1]] += sign * self.nominated


class DrainDestinations:
    """The destinations of running drains: for each pod of a draining node the room that is kept where it fits.

    Until its pod leaves, no pod of the same or a lower priority may use it; pods of a higher priority may, as with a nominee's
    hold. Once the pod leaves, pods of its group may: one of them replaces it, and nobody knows which, nor where kube-scheduler
    puts it. So each bound pod of the group ends one such hold, on its own node if there is one. The room ends with the drain.
    """

    def __init__(self, ledger: Ledger, nodes: NodeTable, holds: Holds, pods: PodTable) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._holds = holds
        self._pods = pods
        self._kept: dict[PodUid, KeptRoom] = {}
        #: Room has ended since the last `take_freed`.
        self._freed = False

    def keep(self, pod: Pod, of: NodeName, to: NodeName) -> bool:
        """Keeps room on the node `to` for the pod of the draining node `of`, in place of its earlier room. Returns False, and
        keeps none, if the node is unknown or has no room."""
        self._drop(pod.uid)
        row = self._nodes.row_of.get(to)
        amounts = pod.need if pod.successor is None else pod.renewed_kind.requests
        if row is None or not fits_on(amounts, self._ledger.columns, Row(row)):
            return False
        self._holds.put(HoldKey(pod.uid, "drain"), Hold(key=pod.key, row=Row(row), amounts=amounts, nominee=pod.priority))
        self._kept[pod.uid] = KeptRoom(pod, of, to, released=False)
        return True

    def end(self, of: NodeName) -> None:
        """Ends all room that is kept for pods of the node, because its drain has ended or is rolled back."""
        for uid in [uid for uid, kept in self._kept.items() if kept.of == of]:
            self._drop(uid)

    def bound(self, pod: Pod, node: NodeName) -> None:
        """Notes that the pod was bound to the node. If it may be the replacement of a pod that left, that pod's room ends."""
        if released := self.released_to(pod):
            self._drop(min(released, key=lambda key: self._kept[key.uid].to != node).uid)

    def take_freed(self) -> bool:
        """Whether pods may now use room that was kept before, since the last call."""
        freed, self._freed = self._freed, False
        return freed

    def left(self, uid: PodUid) -> None:
        """Notes that the pod was evicted: pods of its group may use its room now."""
        self._freed |= uid in self._kept

    def released_to(self, pod: Pod) -> list[HoldKey]:
        """The keys of the holds that the pod may use, because it may be the replacement of their pods."""
        return [
            HoldKey(uid, "drain")
            for uid, kept in self._kept.items()
            if uid != pod.uid and kept.pod.group == pod.group and self._is_leaving(uid)
        ]

    def _is_leaving(self, uid: PodUid) -> bool:
        pod = self._pods.get(uid)
        return pod is None or pod.deleting or pod.ended

    def _drop(self, uid: PodUid) -> None:
        if self._kept.pop(uid, None) is not None:
            self._holds.drop(HoldKey(uid, "drain"))
            self._freed = True

    def __iter__(self) -> Iterator[KeptRoom]:
        """What is kept now, in the order in which it was kept; nothing of nodes that are gone."""
        for uid, kept in self._kept.items():
            if HoldKey(uid, "drain") in self._holds:
                yield kept._replace(released=self._is_leaving(uid))

    def __len__(self) -> int:
        return len(self._kept)
