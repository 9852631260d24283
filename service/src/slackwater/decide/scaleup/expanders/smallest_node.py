"""Expander `smallest-node`: the options whose nodes are the smallest; for placeholders, which no larger node is bought for.

A node's size is its share of the largest of the options' nodes, of each resource times its weight (`scarcity`), added; an exact
fraction.
"""

from collections.abc import Sequence
from fractions import Fraction

from slackwater.decide.scaleup.estimate import Option
from slackwater.decide.scaleup.expanders.scarcity import Weights


def smallest_node(options: Sequence[Option], weights: Weights) -> list[Option]:
    """Options without a new node come first: they cost none."""
    sizes = [Fraction(0) for _ in options]
    for name, weight in weights.items():
        nodes = [Fraction(option.offered.get(name, 0), max(option.n_nodes, 1)) for option in options]
        most = max(nodes)
        if most:
            sizes = [size + weight * has / most for size, has in zip(sizes, nodes, strict=True)]
    least = min(sizes)
    return [option for option, size in zip(options, sizes, strict=True) if size == least]
