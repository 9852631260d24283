"""Packs pod by pod: first how many nodes of each variant by amounts alone, then each pod where it keeps a node balanced.

The assignment program says how many nodes of each variant the demand needs if pods could be divided; its optimum is a bound.
Where thousands of different pods fill large nodes, whole nodes cost hardly more. A pod goes to the node for which the scalar
product of what it takes and what is left is the largest, of shares of the node (Panigrahy, Talwar, Uyeda and Wieder, 2011): so
pods that need much CPU and pods that need much memory meet on one node, and neither resource is left over.

Where many pods are alike, `evenly` does so for all nodes at once.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.problem import Floats, Left, PackingProblem, Pattern
from slackwater.model.columns import Int64

#: A fraction of a node from which on it is opened.
_ROUNDED_UP: Final = 0.05


def balanced(problem: PackingProblem, left: Left, numbers: Floats) -> list[Pattern]:
    """What each of about so many new nodes of each variant holds, shape (variants,): pods in the order of their size. Nodes
    without a pod are left out."""
    opened = np.minimum(np.floor(numbers + 1 - _ROUNDED_UP).astype(np.int64), left.room)
    variants = np.repeat(np.arange(len(opened)), opened)
    has = np.maximum(problem.empty[variants], 1)
    free: Floats = np.ones(has.shape)
    counts = np.zeros((len(variants), len(left.demand)), np.int64)
    largest = (problem.amounts / np.maximum(problem.empty.max(axis=0), 1)).sum(axis=1)
    for kind in np.argsort(-largest, kind="stable").tolist() if len(variants) else ():
        shares = problem.amounts[kind] / has
        takes = problem.takes[variants, kind] & (problem.empty[variants] > 0).any(axis=1)
        fits = takes & (free >= shares).all(axis=1) & (problem.most[kind] > 0)
        rank = np.where(fits, (shares * free).sum(axis=1), -1.0)  # below 0: the node takes no pod of the kind
        for _ in range(int(left.demand[kind])):
            node = int(rank.argmax())
            if rank[node] < 0:
                break
            free[node] -= shares[node]
            counts[node, kind] += 1
            fits_again = (free[node] >= shares[node]).all() and counts[node, kind] < problem.most[kind]
            rank[node] = (shares[node] * free[node]).sum() if fits_again else -1.0
    # Shares are floats: what they let in is checked once more in whole numbers.
    held = (counts @ problem.amounts <= problem.empty[variants]).all(axis=1) & counts.any(axis=1)
    return [Pattern(variant=int(variants[node]), counts=counts[node]) for node in np.flatnonzero(held).tolist()]


#: How well nodes with so much free take a pod: shares of a node, shapes (nodes, lines) and (lines,).
Rule = Callable[[Floats, Floats], Floats]
RULES: Final[tuple[Rule, ...]] = (lambda free, pod: free @ pod, lambda free, pod: (free - pod).min(axis=1))


def evenly(problem: PackingProblem, left: Left, numbers: Floats, mean: Floats, rule: Rule) -> list[Pattern]:
    """Gives the nodes of each variant the pods that the assignment program gives them: so many nodes, shape (variants,), with
    so many pods of each kind in the mean, shape (variants, kinds). All nodes of a variant get as many pods of a kind, and those
    that are left over go to the nodes that take them best. Nodes without a pod are left out."""
    opened = np.minimum(np.floor(numbers + 1 - _ROUNDED_UP).astype(np.int64), left.room)
    pods, found = _whole(left.demand, mean * np.maximum(numbers, 1)[:, None]) * problem.takes, list[Pattern]()
    for variant in np.flatnonzero(opened).tolist():
        counts = _even(problem, variant, pods[variant], int(opened[variant]), rule)
        # Shares are floats: what they let in is checked once more in whole numbers.
        held = (counts @ problem.amounts <= problem.empty[variant]).all(axis=1) & counts.any(axis=1)
        found += [Pattern(variant=variant, counts=counts[node]) for node in np.flatnonzero(held).tolist()]
    return found


def _even(problem: PackingProblem, variant: int, pods: Int64, number: int, rule: Rule) -> Int64:
    """Pods of each kind on so many nodes of a variant, shape (nodes, kinds): those that fit."""
    shares = problem.amounts / np.maximum(problem.empty[variant], 1)
    each = np.minimum(pods // number, problem.most)
    counts, free = np.repeat(each[None], number, axis=0), np.ones((number, shares.shape[1])) - each @ shares
    rest = pods - each * number
    for kind in np.argsort(-shares.sum(axis=1), kind="stable").tolist():
        fits = (free >= shares[kind]).all(axis=1) & (counts[:, kind] < problem.most[kind])
        best = np.argsort(-np.where(fits, rule(free, shares[kind]), -np.inf), kind="stable")
        some = best[: min(int(rest[kind]), np.count_nonzero(fits))]
        free[some] -= shares[kind]
        counts[some, kind] += 1
    return counts


def _whole(demand: Int64, parts: Floats) -> Int64:
    """The parts of the demand in whole pods, the largest remainders rounded up, if need be above the part; shape (variants,
    kinds)."""
    found = np.floor(parts).astype(np.int64)
    order = np.argsort(found - parts, axis=0, kind="stable")
    more = np.arange(len(parts))[:, None] < demand - found.sum(axis=0)
    np.put_along_axis(found, order, np.take_along_axis(found, order, 0) + more, 0)
    return found


def single_variant(problem: PackingProblem, left: Left) -> Floats:
    """How many nodes of one variant, if pods could be divided: of that which costs the least for the value of the pods that it
    takes. A pod's value is the least that its largest share of a node costs. Shape (variants,)."""
    amounts = problem.takes * left.demand @ problem.amounts
    needed = (amounts / np.maximum(problem.empty, 1)).max(axis=1)
    taken = problem.takes @ (left.demand * problem.plain_costs().min(axis=0))
    ratio = np.where((taken > 0) & (left.room > 0), problem.prices * needed / np.maximum(taken, 1e-9), np.inf)
    best = int(ratio.argmin())
    return np.where(np.arange(len(needed)) == best, needed, 0.0)
