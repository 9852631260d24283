"""Expander `smallest-node`: the options whose nodes are the smallest; for placeholders, which no larger node is bought for.

A node's size is its share of the largest of the options' nodes, of CPU and of memory, added; an exact fraction.
"""

from collections.abc import Sequence
from fractions import Fraction

from slackwater.decide.scaleup.estimate import Option


def smallest_node(options: Sequence[Option]) -> list[Option]:
    """Options without a new node come first: they cost none."""
    nodes = [[Fraction(has, max(option.n_nodes, 1)) for has in option.offered] for option in options]
    largest = [max(each) for each in zip(*nodes, strict=True)]
    sizes = [sum((has / most for has, most in zip(node, largest, strict=True) if most), Fraction(0)) for node in nodes]
    least = min(sizes)
    return [option for option, size in zip(options, sizes, strict=True) if size == least]
