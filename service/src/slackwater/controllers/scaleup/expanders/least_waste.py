"""Expander `least-waste`: the options that leave the smallest share of their nodes unused.

As in Cluster Autoscaler the shares of CPU and memory are added, of all new nodes together; the shares of every other resource
are added too, each with its weight (`scarcity`). They are exact fractions, so that equal options are equal; and of what pods
may use of a node (allocatable), since nobody can use the rest.
"""

from fractions import Fraction

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.scarcity import Weights


def waste(option: Option, weights: Weights) -> Fraction:
    """The unused share of each resource times its weight, added; negative where pods fit nodes that are there already."""
    shares = (
        weights[name] * Fraction(has - option.asked.get(name, 0), has)
        for name, has in option.offered.items()
        if has and name in weights
    )
    return sum(shares, Fraction(0))
