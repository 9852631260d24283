"""Expanders as a chain of measures, the best option first: a later one decides among those that all before it find equal.

A lot decides among what is equal to the end, as in Cluster Autoscaler. The same seed draws the same, so that the same cluster
gets the same plan. A measure looks at one option alone, so that options can be kept in order while others come and go.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.at_random import draw
from slackwater.controllers.scaleup.expanders.least_nodes import least_nodes
from slackwater.controllers.scaleup.expanders.least_waste import waste
from slackwater.controllers.scaleup.expanders.most_pods import most_pods
from slackwater.controllers.scaleup.expanders.priority import Priorities, rank
from slackwater.controllers.scaleup.expanders.scarcity import Resources, Weights
from slackwater.controllers.scaleup.expanders.smallest_node import node_size

#: smallest-node is for placeholders; nobody can configure it.
ExpanderName = Literal["random", "most-pods", "least-nodes", "least-waste", "priority", "smallest-node"]
#: Smaller is better. Values of one measure compare with one another.
Measure = Callable[[Option], Any]
#: An option's measures in the order of the chain.
Merit = tuple[Any, ...]

_SIMPLE: Final[Mapping[str, Measure]] = {"most-pods": most_pods, "least-nodes": least_nodes}


def chain_of(
    names: Sequence[ExpanderName], *, seed: int, priorities: Priorities, weights: Weights, largest: Resources
) -> Callable[[Option], Merit]:
    """How good an option is by the expanders of these names; the lot comes last. `largest` is the most that a new node has."""
    lot = partial(draw, seed=seed)
    own: dict[str, Measure] = {
        "random": lot,
        "priority": partial(rank, priorities=priorities),
        "least-waste": partial(waste, weights=weights),
        "smallest-node": partial(node_size, weights=weights, largest=largest),
    }
    by_name: Mapping[str, Measure] = {**_SIMPLE, **own}
    measures: list[Measure] = [*(by_name[name] for name in names), lot]
    return lambda option: tuple(measure(option) for measure in measures)
