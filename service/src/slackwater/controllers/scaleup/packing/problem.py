"""The packing problem: which new nodes of which variants hold all pods of the demand for the least money.

It is the configuration problem of cutting stock (Gilmore and Gomory, 1961): a pattern says what one node of a variant holds,
and a plan is a number of nodes for each pattern. A variant stands for node groups whose new nodes are the same and cost the
same. All sizes are integers; indices stand for equivalence groups ("kinds" of pods), variants, and lines (the resources that
some pod requests).
"""

from dataclasses import dataclass, replace

import numpy as np

from slackwater.model.columns import Int64, Mask, Rows


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

    def copies(self) -> Int64:
        """How many pods of each kind an empty node of each variant takes; shape (variants, kinds)."""
        copies = np.broadcast_to(self.most, self.takes.shape)
        for line in range(self.amounts.shape[1]):
            amounts = self.amounts[:, line]
            fit = np.maximum(self.empty[:, line, None], 0) // np.maximum(amounts, 1)
            copies = np.where(amounts > 0, np.minimum(copies, fit), copies)
        return copies

    def without_dominated(self) -> "tuple[PackingProblem, Rows]":
        """The problem without variants for which another one has at least as much, takes at least the same pods, costs no more
        and may grow enough for the whole demand; and the variants that are left."""
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
        kept = np.array(sorted(left), np.intp)
        some = replace(
            self,
            empty=self.empty[kept],
            takes=self.takes[kept],
            prices=self.prices[kept],
            room=self.room[kept],
            limits_taken=self.limits_taken[:, kept],
        )
        return some, kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """What one new node of a variant holds. `counts`: pods of each kind, shape (kinds,)."""

    variant: int
    counts: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """`nodes`: each pattern with the number of its nodes. Pods in no pattern were left out, because a limit does not allow
    nodes for them. `bound`: no plan for the same demand costs less, in micros an hour; 0 if nothing is known. `steps`: how many
    linear programs were solved. `cut`: the limit on steps ended the search for a cheaper plan; every pod was placed all the
    same."""

    nodes: tuple[tuple[Pattern, int], ...]
    bound: int
    steps: int
    cut: bool
