"""The chain of expanders: each is a measure of an option, and a later one decides among options that all earlier ones rate
equal.

Among options that are equal in all measures one is drawn at random, as in Cluster Autoscaler. The same seed draws the same
option, so that the same cluster gets the same plan. A measure reads one option alone, so that options can be kept in order
while others come and go.
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

#: `smallest-node` is for placeholders and cannot be configured.
ExpanderName = Literal["random", "most-pods", "least-nodes", "least-waste", "priority", "smallest-node"]
#: A measure of an option; smaller is better. Values of one measure are comparable.
Measure = Callable[[Option], Any]
#: An option's measures, in the order of the chain.
Merit = tuple[Any, ...]

_SIMPLE: Final[Mapping[str, Measure]] = {"most-pods": most_pods, "least-nodes": least_nodes}


def chain_of(
    names: Sequence[ExpanderName], *, seed: int, priorities: Priorities, weights: Weights, largest: Resources
) -> Callable[[Option], Merit]:
    """The function that gives an option's merit by these expanders; a random draw comes last. `largest` is the most that any
    new node has."""
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
