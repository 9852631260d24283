"""Expanders as a chain of filters: each leaves the best by its own measure, the next one decides among them.

A lot decides among what is left of equals at the end, as in Cluster Autoscaler. The same seed draws the same, so that the same
cluster gets the same plan.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal

from slackwater.decide.scaleup.estimate import Option
from slackwater.decide.scaleup.expanders.at_random import draw
from slackwater.decide.scaleup.expanders.least_nodes import least_nodes
from slackwater.decide.scaleup.expanders.least_waste import least_waste
from slackwater.decide.scaleup.expanders.most_pods import most_pods
from slackwater.decide.scaleup.expanders.priority import Priorities, highest_priority
from slackwater.decide.scaleup.expanders.scarcity import Weights
from slackwater.decide.scaleup.expanders.smallest_node import smallest_node

#: smallest-node is for placeholders; nobody can configure it.
ExpanderName = Literal["random", "most-pods", "least-nodes", "least-waste", "priority", "smallest-node"]
Expander = Callable[[Sequence[Option]], list[Option]]

_SIMPLE: Final[Mapping[str, Expander]] = {"most-pods": most_pods, "least-nodes": least_nodes}


def chain_of(names: Sequence[ExpanderName], *, seed: int, priorities: Priorities, weights: Weights) -> list[Expander]:
    """The expanders of these names; the lot comes last."""
    lot = partial(draw, seed=seed)
    own: dict[str, Expander] = {
        "random": lot,
        "priority": partial(highest_priority, priorities=priorities),
        "least-waste": partial(least_waste, weights=weights),
        "smallest-node": partial(smallest_node, weights=weights),
    }
    return [*(_SIMPLE.get(name) or own[name] for name in names), lot]


def best(options: Sequence[Option], chain: Sequence[Expander]) -> Option:
    """One of the options, of which there must be some. `chain` ends with an expander that leaves one."""
    left = list(options)
    for expander in chain:
        if len(left) == 1:
            break
        left = expander(left)
    return left[0]
