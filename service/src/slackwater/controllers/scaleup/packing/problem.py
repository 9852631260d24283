"""The packing problem: which new nodes of which variants hold all pods of the demand for the least money.

It is the configuration problem of cutting stock (Gilmore and Gomory, 1961): a pattern says what one node of a variant holds,
and a plan is a number of nodes for each pattern. A variant stands for node groups whose new nodes are the same and cost the
same. All sizes are integers; indices stand for equivalence groups ("kinds" of pods), variants, and lines (the resources that
some pod requests).
"""

from dataclasses import dataclass

from slackwater.model.columns import Int64, Mask


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
