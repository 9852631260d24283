"""Tracked new nodes: fills new nodes where verdicts move, for pods with spread, affinity, anti-affinity over zones, or volumes.

As in `new_nodes`, but every node that is opened is also put in the snapshot, and equivalence groups whose verdicts move are
judged there, by every rule, each time. They may also go to existing nodes, which a pod placed elsewhere may have made feasible.
New nodes are tried first: one that takes no pod is not opened, since even an empty node changes what a spread allows.

At first one node is tried at a time; later as many at once as the pods need at least, by their amounts.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import add_nodes
from slackwater.controllers.scaleup.new_nodes import NewNodes
from slackwater.fit.assume import assume_volumes
from slackwater.fit.packing import NOWHERE, place_pods
from slackwater.model.columns import Rows
from slackwater.model.ids import NodeName, Row
from slackwater.snapshot.equivalence_groups import KindId

#: So many nodes are opened one by one, with the same result as placing pod by pod.
_ONE_BY_ONE: Final = 64


class TrackedNodes:
    """Fills new nodes on the snapshot itself, where one pod's place changes which nodes are feasible for others.

    Nodes are numbered as in `NewNodes`; an existing row of the snapshot is `~row`."""

    def __init__(self, nodes: NewNodes, stop: Callable[[], bool]) -> None:
        self._nodes = nodes
        self._snapshot = nodes.template_nodes.snapshot
        self._first = self._snapshot.n_rows
        self._stop = stop
        self.cut = False

    def fill(self, kind: KindId, count: int) -> Rows:
        """Places as many of `count` pods as possible; the node of each, shape (placed,)."""
        if kind not in self._nodes.template_nodes.inter_pod_constraints.moving:
            before = self._nodes.n
            placed = self._nodes.fill(kind, count)
            self._show(before)
            self._stand(kind, self._first + placed)
            return placed
        placed = self._noted(kind, self._place(kind, count))
        while len(placed) < count and not self.cut:
            more = self._open_some(kind, count - len(placed))
            if not len(more):
                break
            placed = np.concatenate([placed, more])
        return placed

    def _open_some(self, kind: KindId, count: int) -> Rows:
        """Opens nodes that take at least one pod each; the node of each pod placed, empty if no group helps."""
        nodes, snapshot = self._nodes, self._snapshot
        for groups in self._attempts(kind, count):
            first = self._first + nodes.n
            with snapshot.fork() as trial:
                self._add_rows(nodes.n, groups)
                rows = self._place(kind, count)
                used = np.unique(rows[rows >= first]) - first
                if len(used) == len(groups):
                    trial.commit()
            if len(used):
                before = nodes.n
                nodes.add([groups[number] for number in used.tolist()])
                if len(used) < len(groups):
                    rows = self._moved_up(kind, rows, first, before, used)
                return self._noted(kind, rows)
            if self.cut:
                break
        return np.zeros(0, np.intp)

    def _moved_up(self, kind: KindId, rows: Rows, first: int, before: int, used: Rows) -> Rows:
        """Opens only the nodes that took pods, and places the pods on them; the rows after that."""
        self._show(before)
        number_of = {first + was: first + now for now, was in enumerate(used.tolist())}
        moved = np.array([number_of.get(row, row) for row in rows.tolist()], np.intp)
        self._stand(kind, moved)
        return moved

    def _place(self, kind: KindId, count: int) -> Rows:
        """Places as many pods as possible on what is in the snapshot; the row of each that has one."""
        snapshot = self._snapshot
        found = place_pods(snapshot, np.full(count, kind), rows=np.arange(snapshot.n_rows), stop=self._stop, reasons=False)
        self.cut = self.cut or found.cut
        placed: Rows = found.rows[found.rows != NOWHERE]
        return placed

    def _noted(self, kind: KindId, rows: Rows) -> Rows:
        """Counts the pods that were placed on these rows of the snapshot; the node of each."""
        new = rows >= self._first
        self._nodes.note(kind, rows[new] - self._first)
        found: Rows = np.where(new, rows - self._first, ~rows)
        return found

    def _attempts(self, kind: KindId, count: int) -> list[list[int]]:
        """The sets of nodes to try together: at first one node of each group, the smallest group first."""
        nodes = self._nodes
        each = dict(zip(nodes.bundle, nodes.template_nodes.most_copies(kind, nodes.bundle), strict=True))
        takers = [group for group in nodes.bundle if each[group] and nodes.budget.room(group)]
        takers.sort(key=lambda group: (nodes.budget.sizes[group], group))
        ones = [[group] for group in takers]
        if nodes.n < _ONE_BY_ONE or not takers:
            return ones
        budget = nodes.budget.copy()
        many: list[int] = []
        need = -(-count // max(each[group] for group in takers))
        while len(many) < need and (open_to := [group for group in takers if budget.room(group)]):
            group = min(open_to, key=lambda group: (budget.sizes[group], group))
            budget.take(group, 1)
            many.append(group)
        return [many, *ones]

    def _stand(self, kind: KindId, rows: Rows) -> None:
        if self._snapshot.of(kind).asks.claims:
            for row in rows.tolist():  # a volume that one pod takes is not available to the next
                assume_volumes(self._snapshot, kind, Row(row))
                self._snapshot.place(kind, row)
            return
        at, counts = np.unique(rows, return_counts=True)
        self._snapshot.place_many(kind, at, counts)

    def _show(self, before: int) -> None:
        """Adds the nodes opened since `before` to the snapshot."""
        self._add_rows(before, self._nodes.groups[before : self._nodes.n].tolist())

    def _add_rows(self, before: int, groups: Sequence[int]) -> None:
        template_nodes, number = self._nodes.template_nodes, self._first + before
        for group, run in groupby(groups):
            names = [NodeName(f"trial:{at}") for at, _ in enumerate(run, number)]
            add_nodes(self._snapshot, template_nodes.template(group), names, system=template_nodes.system)
            number += len(names)
