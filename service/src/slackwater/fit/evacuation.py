"""Can all pods of a node live elsewhere, where, and in what order? Asked of several nodes, one after another.

    with picture.fork() as trial:
        evacuations = Evacuations(picture, Tenants(picture, pods), facts=Facts(now=now, disruptions=Disruptions(budgets)))
        for row in candidates:
            found = evacuations.evacuate(row, rows=order)       # Evacuated, Kept, or None: cut off
        evacuations.destinations                                # where each moved pod is in the end

First every pod of the node is judged by the rules (`drainability`). Then, in a trial, the node is tainted and emptied, and
the pods that have to move are placed on the other rows: important ones first, then large ones; each at its hint, at the row
where the last pod of its kind went, or at the first row in the order given. If all find a place the node is closed: nobody
goes there any more. A pod that came from a node before goes on with the others; it costs its budgets nothing again.

Meanwhile the tainted node still counts as a value of topology spread, as it does while a real node is drained. Of all this
the picture keeps only evacuations that succeeded, and of these nothing once the trial around them is dropped.
Deliberately absent: which nodes, in what order, and when (`decide`), and everything that waits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from slackwater.fit.drainability import Facts, Fate, judge
from slackwater.fit.packing import NOWHERE, Hints, Placements, place_pods
from slackwater.model.columns import Mask, Rows
from slackwater.model.ids import NodeName, PodUid, Row
from slackwater.model.objects import Pod, Taint
from slackwater.model.placeholders import is_placeholder
from slackwater.model.reasons import Reason
from slackwater.model.unremovable_reasons import Hindrance
from slackwater.snapshot.cluster_snapshot import Picture
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY
from slackwater.snapshot.running_pods import Standing, Tenant
from slackwater_protocol.names import TO_BE_DELETED_TAINT

_NO_NODE: Final = NodeName("")
_LEAVING: Final = Taint(TO_BE_DELETED_TAINT, "", "NoSchedule")


class Move(NamedTuple):
    """A pod, and the row where it would live."""

    pod: Pod
    to: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuated:
    """The node's pods can live elsewhere. `moves` are in the order in which they find their places.

    `moves` include pods that an earlier evacuation brought here. `daemons` go with the node. The node has to wait until
    the `awaited` have completed. `risky`: some budget allows fewer disruptions now than the node has pods of it.
    """

    row: Row
    moves: tuple[Move, ...]
    daemons: tuple[Pod, ...]
    awaited: tuple[Pod, ...]
    risky: bool

    @property
    def empty(self) -> bool:
        return not self.moves and not self.awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The node has to stay: `pod` is in the way.

    Where it fits nowhere, `reasons` are the verdicts on the rows that were tried, and on how many each; most rows first.
    """

    row: Row
    pod: Pod
    hindrance: Hindrance
    reasons: tuple[tuple[Reason, int], ...] = ()


class Evacuations:
    """See the module. `facts.disruptions` is spent by evacuations that succeed."""

    def __init__(
        self,
        picture: Picture,
        tenants: Standing,
        *,
        facts: Facts,
        hints: Mapping[PodUid, NodeName] | None = None,
        leaving: Iterable[Row] = (),
    ) -> None:
        """Every pod that stands in the picture must be among the tenants. `hints` say where pods went in an earlier plan. No
        pod goes to rows that are `leaving`."""
        #: Where each moved pod is in the end.
        self.destinations: dict[PodUid, Row] = {}
        self._picture = picture
        self._tenants = tenants
        self._facts = facts
        self._hints = hints or {}
        self._evacuated: set[Row] = set()
        #: Rows where nobody may go any more, as far as there are any among the first ones.
        self._shut: Mask = np.zeros(picture.n_rows, np.bool_)
        self._shut[list(leaving)] = True
        self._guests: dict[Row, list[Tenant]] = {}
        self._last_of_kind: dict[KindId, int] = {}

    def evacuate(
        self, row: Row, *, rows: Rows, begun: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> Evacuated | Kept | None:
        """Tries to empty a row onto others, tried in the order of `rows`; None where `stop` cut it off.

        Where the node's removal has `begun` already, rules block nothing any more: its pods are leaving, and need a place.
        Those that are being deleted do not: what is made for them is pending, or the caller's to remember.
        Raises ValueError for a row that was evacuated before.
        """
        if row in self._evacuated:
            raise ValueError(f"row {row}: is evacuated already")
        tenants, guests = self._tenants.on(row), self._guests.get(row, [])
        judged = [(tenant, judge(tenant.pod, self._facts)) for tenant in tenants]
        for tenant, verdict in judged:
            if verdict.hindrance is not None and not begun:
                return Kept(row=row, pod=tenant.pod, hindrance=verdict.hindrance)
        own = [
            tenant
            for tenant, verdict in judged
            if verdict.fate in (Fate.MOVE, Fate.BLOCK) and not (begun and tenant.pod.deleting)
        ]
        movers = self._in_order(row, [*map(self._anew, own), *guests])
        with self._picture.fork() as trial:
            self._clear(row, [*tenants, *guests])
            placements = self._place(row, movers, rows, stop)
            if placements.cut:
                return None
            if placements.left:
                return _kept(row, movers, placements)
            self._picture.close(row)
            trial.commit()
        pods = [tenant.pod for tenant in own if not is_placeholder(tenant.pod)]
        moved = [(movers[at], Row(to)) for at, to in _pairs(placements)]
        evacuated = Evacuated(
            row=row,
            moves=tuple(Move(tenant.pod, to) for tenant, to in moved),
            daemons=tuple(tenant.pod for tenant, verdict in judged if verdict.fate is Fate.DAEMON),
            awaited=tuple(tenant.pod for tenant, verdict in judged if verdict.fate is Fate.WAIT),
            risky=self._facts.disruptions is not None and not self._facts.disruptions.allow_all(pods),
        )
        self._settle(row, pods, moved)
        return evacuated

    def has_guests(self, row: Row) -> bool:
        """Would pods of an evacuated row live there?"""
        return bool(self._guests.get(row))

    def _anew(self, tenant: Tenant) -> Tenant:
        """The pod as its controller makes it anew: not one that is being deleted, nor one whose node refuses it something."""
        pod = tenant.pod
        if not pod.deleting and pod.successor is None:
            return tenant
        return Tenant(pod, self._picture.kind_id(pod.kind_anew, pod.labels))

    def _in_order(self, row: Row, tenants: Sequence[Tenant]) -> list[Tenant]:
        """Who looks for a place first. 1. higher priority  2. larger, as a share of the node  3. of the kind that stands there
        first, so that pods of one kind come together  4. name: arbitrary, but the same on every run."""
        cpu, memory = self._picture.facts.allocatable[[CPU, MEMORY], row].tolist()
        requests = self._picture.kinds.requests
        kinds = dict.fromkeys(tenant.kind for tenant in tenants)
        rank = {
            kind: (-int(requests[CPU, kind]) * memory - int(requests[MEMORY, kind]) * cpu, index)
            for index, kind in enumerate(kinds)
        }
        return sorted(tenants, key=lambda tenant: (-tenant.pod.priority, rank[tenant.kind], tenant.pod.key))

    def _clear(self, row: Row, there: Sequence[Tenant]) -> None:
        """Taints the node and takes all its pods off it."""
        picture = self._picture
        node = picture.facts.nodes[row]
        picture.put_node(row, replace(node, taints=(*node.taints, _LEAVING)))
        for kind, copies in Counter([tenant.kind for tenant in there]).items():
            picture.remove(kind, row, copies)

    def _place(self, row: Row, movers: Sequence[Tenant], rows: Rows, stop: Callable[[], bool]) -> Placements:
        hinted = None
        if self._hints:
            row_of, hints = self._picture.facts.row_of, self._hints
            hinted = np.array([row_of.get(hints.get(t.pod.uid, _NO_NODE), NOWHERE) for t in movers], np.intp)
        return place_pods(
            self._picture,
            np.array([tenant.kind for tenant in movers], np.intp),
            rows=self._open_rows(rows, row),
            hints=Hints(pods=hinted, kinds=self._last_of_kind),
            stop=stop,
        )

    def _open_rows(self, rows: Rows, but: Row) -> Rows:
        n_new = self._picture.n_rows - len(self._shut)
        if n_new > 0:
            self._shut = np.append(self._shut, np.zeros(n_new, np.bool_))
        open_rows: Rows = rows[~self._shut[rows] & (rows != but)]
        return open_rows

    def _settle(self, row: Row, pods: Sequence[Pod], moved: Sequence[tuple[Tenant, Row]]) -> None:
        """Remembers what later evacuations have to know."""
        self._evacuated.add(row)
        self._shut[row] = True
        self._guests.pop(row, None)
        if self._facts.disruptions is not None:
            self._facts.disruptions.spend(pods)
        for tenant, to in moved:
            self._guests.setdefault(to, []).append(tenant)
            self._last_of_kind[tenant.kind] = to
            self.destinations[tenant.pod.uid] = to


def _pairs(placements: Placements) -> Iterable[tuple[int, int]]:
    """Positions and rows of what was placed, in order."""
    return zip(placements.order.tolist(), placements.rows[placements.order].tolist(), strict=True)


def _kept(row: Row, movers: Sequence[Tenant], placements: Placements) -> Kept:
    """The first pod that found no place is in the way."""
    left = min(placements.left, key=lambda left: left.pods[0])
    pod = movers[left.pods[0]].pod
    hindrance = Hindrance.SLACK_NEEDED if is_placeholder(pod) else Hindrance.NO_PLACE
    return Kept(row=row, pod=pod, hindrance=hindrance, reasons=left.reasons)
