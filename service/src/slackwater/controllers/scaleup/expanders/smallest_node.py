"""Expander `smallest-node`: prefers options whose nodes are the smallest. For placeholders, which justify no larger node."""

from fractions import Fraction

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.scarcity import Resources, Weights


def node_size(option: Option, weights: Weights, largest: Resources) -> Fraction:
    """The mean node's share of the largest node there is, of each resource times its weight (`scarcity`), summed; exact.

    An option without a new node has size 0 and comes first: it costs nothing.
    """
    n_nodes = max(option.n_nodes, 1)
    shares = (
        weight * Fraction(option.offered.get(name, 0), n_nodes * largest[name])
        for name, weight in weights.items()
        if largest.get(name)
    )
    return sum(shares, Fraction(0))
