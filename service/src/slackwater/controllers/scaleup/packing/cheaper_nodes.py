"""Improves a plan for a packing problem.

    improve(problem, left, values)

Each node becomes the cheapest variant that holds its pods. Then pods move to where other nodes have room, if their node is
needless without them or a cheaper one holds the rest. Rounding takes many patterns at once, so a node that came for one large
pod may stay half empty beside nodes that came for small ones.
"""

from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.problem import Floats, Left, PackingProblem, Pattern
from slackwater.model.columns import Int64, Mask, Rows

#: So many nodes of different patterns are tried in vain, those with the least on them first.
_MOST_TRIED: Final = 256


def improve(problem: PackingProblem, left: Left, values: Floats) -> None:
    """Replaces the plan's nodes. `values`: of a pod of each kind, shape (kinds,)."""
    nodes, left.nodes = left.nodes, []
    for pattern, count in nodes:
        variant = _cheapest(problem, left, pattern.counts, pattern.variant, count)
        left.swap(problem, pattern.variant, variant, count)
        left.nodes.append((Pattern(variant=variant, counts=pattern.counts), count))
    if nodes:
        _SpareRoom(problem, left, values).use()


def _cheapest(problem: PackingProblem, left: Left, counts: Int64, old: int, number: int) -> int:
    """The cheapest variant that holds the pods, if so many nodes become it; the old one if none is cheaper."""
    fits = (problem.empty >= counts @ problem.amounts).all(axis=1) & problem.takes[:, counts > 0].all(axis=1)
    fits &= (left.room >= number) & (left.limits[:, None] >= number * problem.limits_taken).all(axis=0)
    cheaper = np.flatnonzero(fits & (problem.prices < problem.prices[old]))
    return int(cheaper[problem.prices[cheaper].argmin()]) if len(cheaper) else old


class _SpareRoom:
    """The nodes of one plan. `values`: of a pod of each kind, shape (kinds,)."""

    def __init__(self, problem: PackingProblem, left: Left, values: Floats) -> None:
        self._problem, self._left, self._values = problem, left, values
        nodes = [pattern for pattern, number in left.nodes for _ in range(number)]
        #: Of each node: its variant; its pods, an array that others share; what it has free; whether it is kept.
        self._variants: Rows = np.array([pattern.variant for pattern in nodes], np.intp)
        self._counts = [pattern.counts for pattern in nodes]
        used = np.array([pattern.counts @ problem.amounts for pattern, _ in left.nodes])
        self._free: Int64 = problem.empty[self._variants] - np.repeat(used, [number for _, number in left.nodes], axis=0)
        self._kept: Mask = np.ones(len(nodes), np.bool_)

    def use(self) -> None:
        """Replaces the plan's nodes by those that are kept."""
        values = np.repeat([pattern.counts @ self._values for pattern, _ in self._left.nodes], [n for _, n in self._left.nodes])
        tried: set[tuple[int, bytes]] = set()
        for node in np.argsort(values, kind="stable").tolist():
            key = (int(self._variants[node]), self._counts[node].tobytes())
            if key not in tried and not self._given_up(node):
                tried.add(key)
                if len(tried) == _MOST_TRIED:
                    break
        kept: dict[tuple[int, bytes], int] = {}
        for node in np.flatnonzero(self._kept).tolist():
            key = (int(self._variants[node]), self._counts[node].tobytes())
            kept[key] = kept.get(key, 0) + 1
        self._left.nodes = [
            (Pattern(variant=variant, counts=np.frombuffer(counts, np.int64)), number)
            for (variant, counts), number in kept.items()
        ]

    def _given_up(self, node: int) -> bool:
        """Moves the node's pods as far as others have room, if it is then needless or a cheaper one holds the rest."""
        problem, rest = self._problem, self._counts[node].copy()
        free = self._free.copy()
        kinds = np.flatnonzero(rest)
        moved = [(kind, self._put(kind, rest, free, node)) for kind in kinds[np.argsort(-self._values[kinds])].tolist()]
        old = int(self._variants[node])
        new = _cheapest(problem, self._left, rest, old, 1) if rest.any() else None
        if new == old:
            return False
        for kind, put in moved:
            for other in np.flatnonzero(put).tolist():
                self._counts[other] = self._counts[other].copy()
                self._counts[other][kind] += put[other]
        self._left.swap(problem, old, new, 1)
        self._kept[node] = new is not None
        if new is not None:
            self._variants[node], self._counts[node] = new, rest
            free[node] = problem.empty[new] - rest @ problem.amounts
        self._free = free
        return True

    def _put(self, kind: int, rest: Int64, free: Int64, node: int) -> Int64:
        """Takes what other nodes have room for from `rest` and `free`. Returns how many pods of the kind each node gets."""
        problem, amount = self._problem, self._problem.amounts[kind]
        asked = amount > 0
        fit = np.where(self._kept & problem.takes[self._variants, kind], rest[kind], 0)
        fit[node] = 0
        fit = np.minimum(fit, (free[:, asked] // amount[asked]).min(axis=1, initial=problem.most[kind]))
        some = np.flatnonzero(fit > 0)
        has = np.array([self._counts[other][kind] for other in some], np.int64)
        fit[some] = np.minimum(fit[some], problem.most[kind] - has)
        fit = np.maximum(fit, 0)
        put: Int64 = np.clip(rest[kind] - (np.cumsum(fit) - fit), 0, fit)
        free -= put[:, None] * amount
        rest[kind] -= put.sum()
        return put
