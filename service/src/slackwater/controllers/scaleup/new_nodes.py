"""Fills new nodes of a bundle of groups: each pod goes to the first new node that takes it; else another node is opened.

- `NewNodes`: for equivalence groups whose verdict on a new node is known beforehand (`template_nodes`,
  `inter_pod_constraints`).
- `TrackedNodes`: for equivalence groups whose verdicts depend on where other pods are placed.

In: equivalence groups with their counts, and the limits. Out: the opened nodes with their pods. Invariant: the result equals
that of placing pod by pod. Nodes are opened in the smallest group first, so that similar groups grow evenly.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby, repeat
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import Budget, add_nodes
from slackwater.controllers.scaleup.inter_pod_constraints import Mark
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.binpacking import NOWHERE, copies_on, place_planned, place_pods
from slackwater.fit.failure import concerning
from slackwater.fit.plugins.volume_rules import sets_within_limits
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.model.ids import NodeName
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import grown


class NewNodes:
    """The new nodes of a bundle of groups. All pods of an equivalence group are placed at once, by a few column operations.

    Nodes are numbered as they are opened. `groups[:n]`: the group of each. `free[:, :n]`: what is free on each. Opening nodes
    changes `budget`, so pass a copy.
    """

    def __init__(self, template_nodes: TemplateNodes, budget: Budget, bundle: Sequence[int]) -> None:
        self.template_nodes = template_nodes
        self.budget = budget
        self.bundle = tuple(bundle)
        self.n = 0
        self.free: Int64 = np.zeros((len(template_nodes.empty), 64), np.int64)
        self.groups: Rows = np.zeros(64, np.intp)
        #: For each mark, whether a node has it, shape (capacity,).
        self._marked: dict[Mark, Mask] = {}

    def fill(self, kind: KindId, count: int) -> Rows:
        """Places as many of `count` pods as possible on open nodes and on nodes that it opens. Returns the node of each, shape
        (placed,)."""
        accepting = self._accepting_rows(kind)
        # Comparing is far cheaper than dividing, and most nodes are full most of the time.
        for line, amount in self.template_nodes.amounts(kind) if accepting.any() else ():
            accepting &= self.free[line, : self.n] >= amount
        placed = self._put(kind, np.flatnonzero(accepting), count)
        rest = count - len(placed)
        if rest:
            new = self.add(opening(self, kind, rest))
            on_new = self._put(kind, np.arange(new.start, new.stop), rest)
            placed = np.concatenate([placed, on_new]) if len(placed) else on_new
        return placed

    def add(self, groups: Sequence[int]) -> range:
        """Opens a node of each of these groups. Returns the nodes' numbers."""
        first, self.n = self.n, self.n + len(groups)
        if self.n > len(self.groups):
            capacity = max(self.n, 2 * len(self.groups))
            self.groups = grown(self.groups, capacity).astype(np.intp, copy=False)
            self.free = grown(self.free, capacity).astype(np.int64, copy=False)
            self._marked = {mark: grown(nodes, capacity).astype(np.bool_, copy=False) for mark, nodes in self._marked.items()}
        self.groups[first : self.n] = groups
        self.free[:, first : self.n] = self.template_nodes.empty[:, self.groups[first : self.n]]
        for group, opened in sorted(Counter(groups).items()):
            self.budget.take(group, opened)
        return range(first, self.n)

    def note(self, kind: KindId, nodes: Rows) -> None:
        """Counts pods that `TrackedNodes` has placed: one pod of the equivalence group for each entry of `nodes`."""
        at, counts = np.unique(nodes, return_counts=True)
        self._count_pods(kind, at, counts)

    def _accepting_rows(self, kind: KindId) -> Mask:
        """The open nodes that take a pod of the equivalence group by all rules but amounts."""
        if len(self.bundle) == 1:
            accepting = np.full(self.n, not self.template_nodes.codes[kind][self.bundle[0]])
        else:
            accepting = (self.template_nodes.codes[kind] == 0)[self.groups[: self.n]]
        for mark in self.template_nodes.inter_pod_constraints.avoids(kind):
            if mark in self._marked:
                accepting &= ~self._marked[mark][: self.n]
        return accepting

    def _put(self, kind: KindId, nodes: Rows, count: int) -> Rows:
        """Places up to `count` pods on `nodes`, one node after another; each must take at least one pod. Returns the node of
        each pod."""
        nodes = nodes[:count]
        if not len(nodes):
            return nodes
        counts: Int64 = np.ones(len(nodes), np.int64)
        if not self.template_nodes.inter_pod_constraints.is_alone(kind):
            amounts = self.template_nodes.amounts(kind)
            copies = np.min([self.free[line, nodes] // amount for line, amount in amounts], axis=0)
            counts = np.clip(count - (np.cumsum(copies) - copies), 0, copies)
            nodes, counts = nodes[counts > 0], counts[counts > 0]
        self._count_pods(kind, nodes, counts)
        return np.repeat(nodes, counts)

    def _count_pods(self, kind: KindId, nodes: Rows, counts: Int64) -> None:
        """Counts `counts[i]` pods of the equivalence group on `nodes[i]`. No node occurs twice."""
        for line, amount in self.template_nodes.amounts(kind):
            self.free[line, nodes] -= amount * counts
        for mark in self.template_nodes.inter_pod_constraints.leaves(kind):
            if mark not in self._marked:
                self._marked[mark] = np.zeros(len(self.groups), np.bool_)
            self._marked[mark][nodes] = True


def opening(nodes: NewNodes, kind: KindId, count: int) -> list[int]:
    """The group of each node to open for `count` pods. Each node is of the group that is smallest at that moment; among equals,
    of the first.

    The nodes suffice if only the pods' own amounts and marks limit them. They are fewer if the budget does not allow more.
    """
    each = nodes.template_nodes.copies(kind, nodes.bundle)
    takers = [(group, copies) for group, copies in zip(nodes.bundle, each, strict=True) if copies]
    if len(takers) == 1:
        ((group, copies),) = takers
        return [group] * min(-(-count // copies), nodes.budget.room(group))
    heap = [(nodes.budget.sizes[group], group, copies) for group, copies in takers]
    heapify(heap)
    budget = nodes.budget.copy()
    found: list[int] = []
    while heap and count > 0:
        size, group, copies = heappop(heap)
        if budget.room(group):
            budget.take(group, 1)
            found.append(group)
            count -= copies
            heappush(heap, (size + 1, group, copies))
    return found


#: Up to so many nodes are opened one by one, with the same result as placing pod by pod.
_ONE_BY_ONE: Final = 64
_NO_ROWS: Final = np.zeros(0, np.intp)


class TrackedNodes:
    """Fills new nodes in the snapshot itself, for pods with spread, affinity, anti-affinity over zones, or volumes: the place
    of one such pod may change which nodes are feasible for others.

    Every new node is also added to the snapshot, and the `moving` equivalence groups are judged there by every rule. Their pods
    may also go to existing nodes that another pod has made feasible. A new node that takes no pod is not opened, since even an
    empty node changes what a spread allows. At first one node is tried at a time; after `_ONE_BY_ONE` nodes, as many at once as
    the pods' amounts need at least.

    Nodes are numbered as in `NewNodes`; an existing row of the snapshot has the number `~row`. `cut`: `stop` ended the filling.
    """

    def __init__(self, nodes: NewNodes, stop: Callable[[], bool], *, together: bool) -> None:
        """`together`: pods that need one another on one node are placed only where all of them fit."""
        self._nodes = nodes
        self._together = together
        self._snapshot = nodes.template_nodes.snapshot
        self._first = self._snapshot.n_rows
        self._stop = stop
        #: By the key of alike groups, and the number of their pods: the rows of the snapshot that the pods of one of these
        #: groups got without any new node, and how many rows there were.
        self._patterns: dict[tuple[int, int], tuple[int, Rows]] = {}
        self.cut = False

    def fill_alike(self, kinds: Sequence[KindId], count: int) -> Iterator[Rows]:
        """Places `count` pods of each of these equivalence groups, which are alike (`AlikePods`), and of which no pods have
        been placed here yet. Yields what `fill` would return for each.

        Alike groups take room from one another, and nothing else. If the pods of one got their rows without a new node, those
        of the next get the same rows for as long as these have room: rows that were full before stay full.
        """
        key = self._nodes.template_nodes.alike.key(kinds[0]), count
        at = 0
        while at < len(kinds) and not self.cut:
            n_rows, rows = self._patterns.get(key, (NOWHERE, _NO_ROWS))
            times = self._repeat(kinds[at:], rows) if n_rows == self._snapshot.n_rows else 0
            if times:
                new = rows >= self._first
                yield from repeat(np.where(new, rows - self._first, ~rows), times)
            else:
                before = self._snapshot.n_rows
                with concerning(kinds[at]):
                    placed = self.fill(kinds[at], count)
                if before == self._snapshot.n_rows and len(placed) in (0, count):
                    self._patterns[key] = before, np.where(placed >= 0, placed + self._first, ~placed)
                yield placed
                times = 1
            at += times

    def _repeat(self, kinds: Sequence[KindId], rows: Rows) -> int:
        """Places pods of as many of the alike groups as have room, from the first on: one pod for each entry of `rows`. Returns
        the number of groups."""
        if not len(rows):
            return len(kinds)
        snapshot, numbered = self._snapshot, self._snapshot.of(kinds[0])
        where, counts = np.unique(rows, return_counts=True)
        sets = sets_within_limits(snapshot, numbered, where) if numbered.asks.claims else None
        room = copies_on(snapshot, numbered, where) // counts
        times = int(min(len(kinds), room.min(), len(kinds) if sets is None else sets.min()))
        if times <= 0:
            return 0
        self._nodes.note(kinds[0], np.tile(rows[rows >= self._first] - self._first, times))
        if sets is None:  # nothing depends on which of the groups took the room
            snapshot.place_many(kinds[0], where, counts * times)
        else:
            for kind in kinds[:times]:
                snapshot.place_many(kind, where, counts)
        return times

    def fill(self, kind: KindId, count: int) -> Rows:
        """Places as many of `count` pods as possible. Returns the node of each, shape (placed,)."""
        if kind not in self._nodes.template_nodes.inter_pod_constraints.moving:
            before = self._nodes.n
            placed = self._nodes.fill(kind, count)
            self._show(before)
            place_planned(self._snapshot, kind, self._first + placed)
            return placed
        placed = self._noted(kind, self._place(kind, count))
        while len(placed) < count and not self.cut:
            more = self._open_some(kind, count - len(placed))
            if not len(more):
                break
            placed = np.concatenate([placed, more])
        return placed

    def _open_some(self, kind: KindId, count: int) -> Rows:
        """Opens some nodes; each takes at least one pod. Returns the node of each placed pod; empty if no group helps."""
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
                    rows = self._open_used(kind, rows, first, before, used)
                return self._noted(kind, rows)
            if self.cut:
                break
        return np.zeros(0, np.intp)

    def _open_used(self, kind: KindId, rows: Rows, first: int, before: int, used: Rows) -> Rows:
        """Adds only the nodes that took pods to the snapshot, after a trial with more nodes, and places the pods there. Returns
        the pods' new rows. `first`: the row of the trial's first node. `used`: the numbers in the trial of the nodes that took
        pods."""
        self._show(before)
        number_of = {first + was: first + now for now, was in enumerate(used.tolist())}
        moved = np.array([number_of.get(row, row) for row in rows.tolist()], np.intp)
        place_planned(self._snapshot, kind, moved)
        return moved

    def _place(self, kind: KindId, count: int) -> Rows:
        """Places as many pods as possible on rows of the snapshot. Returns the row of each placed pod."""
        snapshot = self._snapshot
        found = place_pods(
            snapshot,
            np.full(count, kind),
            rows=np.arange(snapshot.n_rows),
            stop=self._stop,
            reasons=False,
            together=self._together,
        )
        self.cut = self.cut or found.cut
        placed: Rows = found.rows[found.rows != NOWHERE]
        return placed

    def _noted(self, kind: KindId, rows: Rows) -> Rows:
        """Counts pods that were placed on these rows of the snapshot. Returns the node of each."""
        new = rows >= self._first
        self._nodes.note(kind, rows[new] - self._first)
        found: Rows = np.where(new, rows - self._first, ~rows)
        return found

    def _attempts(self, kind: KindId, count: int) -> list[list[int]]:
        """The attempts to make, each the groups of nodes to open together: one node of each group, the smallest group first.
        After `_ONE_BY_ONE` nodes, an attempt with many nodes comes before."""
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

    def _show(self, before: int) -> None:
        """Adds the nodes from number `before` on to the snapshot."""
        self._add_rows(before, self._nodes.groups[before : self._nodes.n].tolist())

    def _add_rows(self, before: int, groups: Sequence[int]) -> None:
        template_nodes, number = self._nodes.template_nodes, self._first + before
        for group, run in groupby(groups):
            names = [NodeName(f"trial:{at}") for at, _ in enumerate(run, number)]
            add_nodes(self._snapshot, template_nodes.template(group), names, system=template_nodes.system)
            number += len(names)
