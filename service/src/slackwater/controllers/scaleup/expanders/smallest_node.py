"""Expander `smallest-node`: the options whose nodes are the smallest; for placeholders, which no larger node is bought for."""

from fractions import Fraction

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.scarcity import Resources, Weights


def node_size(option: Option, weights: Weights, largest: Resources) -> Fraction:
    """A node's share of the largest there is, of each resource times its weight (`scarcity`), added; an exact fraction.

    An option without a new node has none, and comes first: it costs nothing.
    """
    n_nodes = max(option.n_nodes, 1)
    shares = (
        weight * Fraction(option.offered.get(name, 0), n_nodes * largest[name])
        for name, weight in weights.items()
        if largest.get(name)
    )
    return sum(shares, Fraction(0))
