"""Expander `least-waste`: prefers options that leave the smallest share of their nodes unused.

As in Cluster Autoscaler the unused shares of CPU and memory, of all new nodes together, are added; the shares of every other
resource are added too, each with its weight (`scarcity`). They are exact fractions, so that equal options compare equal, and
shares of what is allocatable.
"""

from fractions import Fraction

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.scarcity import Weights


def waste(option: Option, weights: Weights) -> Fraction:
    """The unused share of each resource times its weight, summed; negative where pods fit on existing nodes."""
    shares = (
        weights[name] * Fraction(has - option.asked.get(name, 0), has)
        for name, has in option.offered.items()
        if has and name in weights
    )
    return sum(shares, Fraction(0))
