"""New nodes of a bundle of groups: each pod goes to the first open one that takes it, else another node is opened.

The result equals that of placing pod by pod, at the cost of a few column operations for each equivalence group. Nodes are
opened in the smallest group first, so that similar groups grow evenly. Rules about other pods are known beforehand
(`template_nodes`, `inter_pod_constraints`). Equivalence groups whose verdicts move with pods placed elsewhere are filled by
`tracked`.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from slackwater.controllers.scaleup.inter_pod_constraints import Mark
from slackwater.controllers.scaleup.limits import Budget
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.model.columns import Int64, Mask, Rows
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.value_column import grown


class NewNodes:
    """The new nodes of a bundle of groups, filled equivalence group by equivalence group.

    Nodes are numbered as they are opened; `groups[:n]` is the group of each. The budget is taken from, so pass a copy.
    """

    def __init__(self, template_nodes: TemplateNodes, budget: Budget, bundle: Sequence[int]) -> None:
        self.template_nodes = template_nodes
        self.budget = budget
        self.bundle = tuple(bundle)
        self.n = 0
        self.free: Int64 = np.zeros((len(template_nodes.empty), 64), np.int64)
        self.groups: Rows = np.zeros(64, np.intp)
        #: Which nodes have each mark.
        self._marked: dict[Mark, Mask] = {}

    def fill(self, kind: KindId, count: int) -> Rows:
        """Places as many of `count` pods as possible and opens nodes for them; the node of each, shape (placed,)."""
        placed = self._onto_open(kind, count)
        rest = count - len(placed)
        if rest:
            new = self.open(kind, rest)
            on_new = self._put(kind, np.arange(new.start, new.stop), rest)
            placed = np.concatenate([placed, on_new]) if len(placed) else on_new
        return placed

    def open(self, kind: KindId, count: int) -> range:
        """Opens nodes until `count` pods of the equivalence group would fit, or the budget ends; each takes at least one."""
        return self.add(opening(self, kind, count))

    def add(self, groups: Sequence[int]) -> range:
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
        """Counts pods that `tracked` has placed: one pod of the equivalence group for each entry of `nodes`."""
        at, counts = np.unique(nodes, return_counts=True)
        self._stand(kind, at, counts)

    def _onto_open(self, kind: KindId, count: int) -> Rows:
        welcome = self._welcoming(kind)
        # Comparing is far cheaper than dividing, and most nodes are full most of the time.
        for line, amount in self.template_nodes.amounts(kind) if welcome.any() else ():
            welcome &= self.free[line, : self.n] >= amount
        return self._put(kind, np.flatnonzero(welcome), count)

    def _welcoming(self, kind: KindId) -> Mask:
        """The open nodes that take a pod of the equivalence group by all rules but amounts."""
        if len(self.bundle) == 1:
            welcome = np.full(self.n, self.template_nodes.takes(kind, self.bundle[0]))
        else:
            welcome = (self.template_nodes.codes[kind] == 0)[self.groups[: self.n]]
        for mark in self.template_nodes.inter_pod_constraints.avoids(kind):
            if mark in self._marked:
                welcome &= ~self._marked[mark][: self.n]
        return welcome

    def _put(self, kind: KindId, nodes: Rows, count: int) -> Rows:
        """Fills nodes in their order; each must take at least one pod."""
        nodes = nodes[:count]
        if not len(nodes):
            return nodes
        counts: Int64 = np.ones(len(nodes), np.int64)
        if not self.template_nodes.inter_pod_constraints.is_alone(kind):
            amounts = self.template_nodes.amounts(kind)
            copies = np.min([self.free[line, nodes] // amount for line, amount in amounts], axis=0)
            counts = np.clip(count - (np.cumsum(copies) - copies), 0, copies)
            nodes, counts = nodes[counts > 0], counts[counts > 0]
        self._stand(kind, nodes, counts)
        return np.repeat(nodes, counts)

    def _stand(self, kind: KindId, nodes: Rows, counts: Int64) -> None:
        """Counts `counts[i]` pods on `nodes[i]`, which are distinct."""
        for line, amount in self.template_nodes.amounts(kind):
            self.free[line, nodes] -= amount * counts
        for mark in self.template_nodes.inter_pod_constraints.leaves(kind):
            if mark not in self._marked:
                self._marked[mark] = np.zeros(len(self.groups), np.bool_)
            self._marked[mark][nodes] = True


def opening(nodes: NewNodes, kind: KindId, count: int) -> list[int]:
    """The groups to open nodes of, one after another, for `count` pods: the smallest group first, then by position.

    As many nodes as are needed if only the pods' own amounts and marks limit them; fewer if the budget ends.
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
