"""Expander `most-pods`: the options that help the most pods."""

from collections.abc import Sequence

from slackwater.decide.scaleup.estimate import Option


def most_pods(options: Sequence[Option]) -> list[Option]:
    most = max(option.n_pods for option in options)
    return [option for option in options if option.n_pods == most]
