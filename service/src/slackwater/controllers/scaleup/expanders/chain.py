"""The chain of expanders, and the expanders that need no configuration.

An expander measures an option; smaller is better. A later expander decides among options that all earlier ones measure equal.
An option's merit is the tuple of all its measures. `chain_of` builds the chain:

- `random`: draws one option. The same seed draws the same option, so the same cluster gets the same plan. A draw also decides
  among options that are equal by all other expanders, as in Cluster Autoscaler.
- `least-nodes`: prefers options that add the fewest nodes.
- `least-waste`: prefers options that leave the smallest share of their nodes unused.
- `most-pods`: prefers options that help the most pods.
- `smallest-node`: prefers options with the smallest nodes. It is used for placeholders, for which a larger node would be waste.
- `priority`: has a module of its own (`priority`), since it needs configuration.

Invariant: a merit depends on one option alone, so options stay sorted while other options are added and removed.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.expanders.priority import Priorities, rank
from slackwater.controllers.scaleup.expanders.scarcity import Resources, Weights


def node_size(option: Option, weights: Weights, largest: Resources) -> Fraction:
    """The size of the option's new nodes: for each resource, the mean amount of a node as a share of `largest`, times the
    weight; then the sum over resources. An exact fraction.

    An option without a new node has size 0 and comes first: it costs nothing.
    """
    n_nodes = max(option.n_nodes, 1)
    shares = (
        weight * Fraction(option.offered.get(name, 0), n_nodes * largest[name])
        for name, weight in weights.items()
        if largest.get(name)
    )
    return sum(shares, Fraction(0))


def most_pods(option: Option) -> int:
    return -option.n_pods


def waste(option: Option, weights: Weights) -> Fraction:
    """The weighted sum, over resources, of (new capacity - requests of the helped pods) / new capacity.

    The sum is negative if some of these pods go to existing nodes and their requests exceed the new capacity.

    As in Cluster Autoscaler, the unused shares of CPU and memory of all new nodes together are added. The share of every other
    resource is added too, times its weight (`scarcity`). Shares are of what is allocatable; they are exact fractions, so that
    equal options compare equal.
    """
    shares = (
        weights[name] * Fraction(has - option.asked.get(name, 0), has)
        for name, has in option.offered.items()
        if has and name in weights
    )
    return sum(shares, Fraction(0))


def least_nodes(option: Option) -> int:
    return option.n_nodes


def draw(option: Option, *, seed: int) -> bytes:
    return blake2b(f"{seed}:{option.names}".encode(), digest_size=8).digest()


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
    """Makes the function that returns an option's merit by these expanders, with a random draw as the last measure. `largest`:
    for each resource the most that any group's new node has."""
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
