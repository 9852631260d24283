"""Packs pod by pod: first how many nodes of each variant by amounts alone, then each pod where it keeps a node balanced.

The assignment program says how many nodes of each variant the demand needs if pods could be divided; its optimum is a bound.
Where thousands of different pods fill large nodes, whole nodes cost hardly more. A pod goes to the node for which the scalar
product of what it takes and what is left is the largest, of shares of the node (Panigrahy, Talwar, Uyeda and Wieder, 2011): so
pods that need much CPU and pods that need much memory meet on one node, and neither resource is left over.
"""

from typing import Final

import numpy as np

from slackwater.controllers.scaleup.packing.master import Floats
from slackwater.controllers.scaleup.packing.problem import PackingProblem, Pattern
from slackwater.model.columns import Int64

#: A fraction of a node from which on it is opened.
_ROUNDED_UP: Final = 0.05


def balanced(problem: PackingProblem, demand: Int64, numbers: Floats, room: Int64) -> list[Pattern]:
    """What each of about so many new nodes of each variant holds, shape (variants,): pods in the order of their size. Nodes
    without a pod are left out. `room`: the most nodes of each variant."""
    opened = np.minimum(np.floor(numbers + 1 - _ROUNDED_UP).astype(np.int64), room)
    variants = np.repeat(np.arange(len(opened)), opened)
    has = np.maximum(problem.empty[variants], 1)
    left: Floats = np.ones(has.shape)
    counts = np.zeros((len(variants), len(demand)), np.int64)
    largest = (problem.amounts / np.maximum(problem.empty.max(axis=0), 1)).sum(axis=1)
    for kind in np.argsort(-largest, kind="stable").tolist() if len(variants) else ():
        shares = problem.amounts[kind] / has
        takes = problem.takes[variants, kind] & (problem.empty[variants] > 0).any(axis=1)
        for _ in range(int(demand[kind])):
            fits = takes & (left >= shares).all(axis=1) & (counts[:, kind] < problem.most[kind])
            if not fits.any():
                break
            node = int(np.where(fits, (shares * left).sum(axis=1), -1.0).argmax())
            left[node] -= shares[node]
            counts[node, kind] += 1
    # Shares are floats: what they let in is checked once more in whole numbers.
    held = (counts @ problem.amounts <= problem.empty[variants]).all(axis=1) & counts.any(axis=1)
    return [Pattern(variant=int(variants[node]), counts=counts[node]) for node in np.flatnonzero(held).tolist()]


def single_variant(problem: PackingProblem, demand: Int64, prices: Floats) -> Floats:
    """How many nodes of the one variant whose nodes would hold the pods that it takes at the lowest price for each of them, if
    pods could be divided; shape (variants,)."""
    amounts = problem.takes * demand @ problem.amounts
    needed = (amounts / np.maximum(problem.empty, 1)).max(axis=1)
    pods = problem.takes @ demand
    ratio = np.where((pods > 0) & (problem.room > 0), prices * needed / np.maximum(pods, 1), np.inf)
    best = int(ratio.argmin())
    return np.where(np.arange(len(needed)) == best, needed, 0.0)
