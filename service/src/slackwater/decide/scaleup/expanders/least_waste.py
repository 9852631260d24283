"""Expander `least-waste`: the options that leave the smallest share of their nodes unused.

As in Cluster Autoscaler the shares of CPU and memory are added, of all new nodes together. They are exact fractions, so
that equal options are equal; and of what pods may use of a node (allocatable), since nobody can use the rest.
"""

from collections.abc import Sequence
from fractions import Fraction

from slackwater.decide.scaleup.estimate import Option


def least_waste(options: Sequence[Option]) -> list[Option]:
    wasted = [waste(option) for option in options]
    least = min(wasted)
    return [option for option, share in zip(options, wasted, strict=True) if share == least]


def waste(option: Option) -> Fraction:
    """The unused shares of CPU and memory, added: 0 to 2; negative where pods fit nodes that are there already."""
    pairs = zip(option.asked, option.offered, strict=True)
    return sum((Fraction(has - asked, has) for asked, has in pairs if has), Fraction(0))
