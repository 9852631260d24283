"""Expander `most-pods`: prefers options that help the most pods."""

from slackwater.controllers.scaleup.estimate import Option


def most_pods(option: Option) -> int:
    return -option.n_pods
