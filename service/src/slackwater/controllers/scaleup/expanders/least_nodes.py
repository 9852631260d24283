"""Expander `least-nodes`: prefers options that add the fewest nodes."""

from slackwater.controllers.scaleup.estimate import Option


def least_nodes(option: Option) -> int:
    return option.n_nodes
