"""The packing problem: which new nodes of which variants hold all pods of the demand for the least money.

It is the configuration problem of cutting stock (Gilmore and Gomory, 1961): a pattern says what one node of a variant holds,
and a plan is a number of nodes for each pattern. A variant stands for node groups whose new nodes are the same and cost the
same. All sizes are integers; indices stand for equivalence groups ("kinds" of pods), variants, and lines (the resources that
some pod requests).
"""

from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from slackwater.model.columns import Int64, Mask, Rows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingProblem:
    """`amounts`: what a pod of each kind takes, shape (kinds, lines). `demand`: how many pods of each kind there are, shape
    (kinds,). `most`: how many pods of a kind one node takes at most, whatever its size, shape (kinds,).

    `empty`: what a new node of each variant has free, shape (variants, lines). `takes`: whether it takes a pod of the kind,
    shape (variants, kinds). `prices`: micros an hour for one node, shape (variants,), each at least 1. `room`: how many nodes
    the variant may grow by, shape (variants,). `limits`: what is left of each common limit, shape (limits,); a node takes
    `limits_taken` of it, shape (limits, variants).
    """

    amounts: Int64
    demand: Int64
    most: Int64
    empty: Int64
    takes: Mask
    prices: Int64
    room: Int64
    limits: Int64
    limits_taken: Int64

    def part(self, kinds: Rows, variants: Rows, left: "Left") -> "PackingProblem":
        """The problem of what is left, with some of the kinds and some of the variants."""
        return PackingProblem(
            amounts=self.amounts[kinds],
            demand=left.demand[kinds],
            most=self.most[kinds],
            empty=self.empty[variants],
            takes=self.takes[np.ix_(variants, kinds)],
            prices=self.prices[variants],
            room=left.room[variants],
            limits=left.limits,
            limits_taken=self.limits_taken[:, variants],
        )

    def copies(self) -> Int64:
        """How many pods of each kind an empty node of each variant takes; shape (variants, kinds)."""
        copies = np.broadcast_to(self.most, self.takes.shape)
        for line in range(self.amounts.shape[1]):
            amounts = self.amounts[:, line]
            fit = np.maximum(self.empty[:, line, None], 0) // np.maximum(amounts, 1)
            copies = np.where(amounts > 0, np.minimum(copies, fit), copies)
        return copies

    def undominated(self) -> Rows:
        """The variants but those for which another one has at least as much, takes at least the same pods, costs no more and
        may grow enough for the whole demand."""
        alone = np.where(self.takes, -(-self.demand // np.maximum(self.copies(), 1)), 0).sum(axis=1)
        enough = self.room >= alone
        left: list[int] = []
        for variant in np.lexsort((-self.empty.sum(axis=1), self.prices)).tolist():
            better = [other for other in left if enough[other]]
            dominated = (
                (self.empty[better] >= self.empty[variant]).all(axis=1)
                & (self.takes[better] >= self.takes[variant]).all(axis=1)
                & (self.limits_taken[:, variant] >= self.limits_taken[:, better].T).all(axis=1)
            )
            if not dominated.any():
                left.append(variant)
        return np.array(sorted(left), np.intp)

    def plain_costs(self) -> Floats:
        """What the largest share that a pod of each kind takes of a node of each variant costs, in micros, infinite if it takes
        none; shape (variants, kinds)."""
        shares = (self.amounts[None] / np.maximum(self.empty, 1)[:, None]).max(axis=2)
        return np.where(self.takes, shares * self.prices[:, None], np.inf)

    def least_cost(self) -> float:
        """What the demand costs at least, in micros, by its amounts alone: a node offers each weighing of its lines at its
        price."""
        weights = weighings(self.empty.shape[1]) / np.maximum(self.empty.max(axis=0), 1)
        offered = np.maximum(self.empty, 0) @ weights.T
        cheapest = (self.prices[:, None] / np.maximum(offered, 1e-12)).min(axis=0)
        return float((cheapest * (weights @ (self.demand @ self.amounts))).max(initial=0.0))


#: How many ways to weigh CPU and memory against one another are tried.
_WEIGHINGS: Final = 9
#: What each other line weighs beside CPU and memory together, in turn.
_OTHERS: Final = (0.5, 2.0)
#: The weight of each line besides, so that no pod seems to take nothing.
LEAST_WEIGHT: Final = 0.05


def weighings(n_lines: int) -> Floats:
    """Weights of the lines, each summing to 1; shape (weighings, lines). The first two lines are CPU and memory: between them
    the weight moves from one to the other. The others weigh little, and then each of them in turn a third and two thirds of
    all: among tiny pods, the number of pods on a node runs out before CPU and memory do."""
    first = np.linspace(0, 1, _WEIGHINGS)
    weights = np.full((_WEIGHINGS, n_lines), LEAST_WEIGHT)
    weights[:, 0] += 1 - first
    weights[:, 1 % n_lines] += first
    others = [weights + other * np.eye(n_lines)[line] for line in range(2, n_lines) for other in _OTHERS]
    weights = np.concatenate([weights, *others])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """What one new node of a variant holds. `counts`: pods of each kind, shape (kinds,)."""

    variant: int
    counts: Int64


@dataclass(slots=True, kw_only=True)
class Left:
    """What a plan has not used yet, shapes as in the problem, and the nodes that it took, by pattern."""

    demand: Int64
    room: Int64
    limits: Int64
    nodes: list[tuple[Pattern, int]] = field(default_factory=list)

    @classmethod
    def whole(cls, problem: PackingProblem) -> Self:
        return cls(demand=problem.demand.copy(), room=problem.room.copy(), limits=problem.limits.copy())

    def may_grow(self, problem: PackingProblem) -> Mask:
        """Whether room and limits allow one more node of each variant; shape (variants,)."""
        return np.asarray((self.room > 0) & (self.limits[:, None] >= problem.limits_taken).all(axis=0))

    def most(self, problem: PackingProblem, pattern: Pattern) -> int:
        """How many whole nodes of the pattern pods and limits allow."""
        kinds, taken = pattern.counts > 0, problem.limits_taken[:, pattern.variant]
        allowed = [(self.demand[kinds] // pattern.counts[kinds]).min(), self.room[pattern.variant]]
        allowed += (self.limits[taken > 0] // taken[taken > 0]).tolist()
        return max(int(min(allowed)), 0)

    def take(self, problem: PackingProblem, pattern: Pattern, count: int) -> None:
        self.demand -= count * pattern.counts
        self.room[pattern.variant] -= count
        self.limits -= count * problem.limits_taken[:, pattern.variant]
        self.nodes.append((pattern, count))

    def swap(self, problem: PackingProblem, old: int, new: int | None, count: int) -> None:
        """So many nodes become another variant; None: they are given up. The caller keeps `nodes`."""
        self.room[old] += count
        self.limits = self.limits + count * problem.limits_taken[:, old]
        if new is not None:
            self.room[new] -= count
            self.limits = self.limits - count * problem.limits_taken[:, new]

    def cut(self, pattern: Pattern) -> Pattern:
        """The pattern without the pods that are placed already."""
        return Pattern(variant=pattern.variant, counts=np.minimum(pattern.counts, self.demand))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EqualNodes:
    """So many new nodes of a variant (`number`) that hold the same: `counts[i]` pods of `kinds[i]`."""

    variant: int
    kinds: Rows
    counts: Int64
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """`nodes`: the new nodes. Pods on none were left out, because a limit does not allow nodes for them. `bound`: no plan for
    the same demand costs less, in micros an hour; 0 if nothing is known. `steps`: how many linear programs were solved. `cut`:
    the limit on steps ended the search for a cheaper plan; pods were placed all the same."""

    nodes: tuple[EqualNodes, ...]
    bound: int
    steps: int
    cut: bool
