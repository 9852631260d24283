"""Expander `least-nodes`: the options that add the fewest nodes."""

from collections.abc import Sequence

from slackwater.decide.scaleup.estimate import Option


def least_nodes(options: Sequence[Option]) -> list[Option]:
    least = min(option.n_nodes for option in options)
    return [option for option in options if option.n_nodes == least]
