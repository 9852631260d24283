"""Expanders: choose among options. An expander measures an option; smaller is better. A later expander decides among options
that all earlier ones measure equal. An option's merit is the tuple of all its measures. `chain_of` builds the chain:

- `random`: draws one option. The same seed draws the same option, so the same cluster gets the same plan. A draw also decides
  among options that are equal by all other expanders, as in Cluster Autoscaler.
- `least-nodes`: prefers options that add the fewest nodes.
- `least-waste`: prefers options that leave the smallest share of their nodes unused.
- `most-pods`: prefers options that help the most pods.
- `smallest-node`: prefers options with the smallest nodes. It is used for placeholders, for which a larger node would be waste.
- `price`: prefers options that cost the least for what their pods request. Where it comes first, or after `priority` alone,
  the whole demand is packed at once before (`packing`), and it decides for the pods that a packing cannot express.
- `priority`: prefers options whose groups the user ranks highest, in the format of Cluster Autoscaler's ConfigMap.

Invariant: a merit depends on one option alone, so options stay sorted while other options are added and removed.

A priority is a whole number with a list of regular expressions. A group has the highest priority of which an expression matches
anywhere in the group's name. Groups without a match come after all others. If no group has a match, or nothing is configured,
all options are equal.

Scarcity: the weight of each resource when nodes are compared. A resource weighs more, the scarcer it is relative to CPU.

CPU and memory weigh 1. A device's weight is the number of cores divided by the number of such devices, both summed over one new
node of each group. So an idle GPU outweighs any idle CPU, and one of a thousand `kvm` weighs next to nothing. Huge pages are
compared with memory. Pod slots and local disk weigh nothing: every machine has them, whether its template shows them or not.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.groups import Resources, counted, resources_of
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node
from slackwater.model.prices import FORMULA, PriceFormula

_ONE: Final = Fraction(1)


#: `smallest-node` is for placeholders and cannot be configured.
ExpanderName = Literal["random", "most-pods", "least-nodes", "least-waste", "price", "priority", "smallest-node"]
Weights = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Priorities:
    """The configured priorities. `ranks`: each priority with its expressions, the highest first."""

    ranks: tuple[tuple[int, tuple[re.Pattern[str], ...]], ...] = ()

    def of(self, group: GroupName) -> int | None:
        """The group's priority; None if no expression matches its name."""
        return next((rank for rank, patterns in self.ranks if any(each.search(group) for each in patterns)), None)


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
    resource is added too, times its weight (`weights_of`). Shares are of what is allocatable; they are exact fractions, so that
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


def cost(option: Option, prices: Sequence[int], formula: PriceFormula) -> Fraction:
    """What the option's nodes cost, for each micro that the formula says for its pods' requests. `prices`: micros an hour
    of a node of each group."""
    total = sum(prices[group] * count for group, count in counted(option.groups))
    return Fraction(total, max(formula.of_amounts(option.asked), 1))


def packs(names: Sequence[ExpanderName]) -> bool:
    """Is the whole demand packed at the lowest price, before any option is chosen?"""
    return tuple(names[:1]) == ("price",) or tuple(names[:2]) == ("priority", "price")


def draw(option: Option, *, seed: int) -> bytes:
    return blake2b(f"{seed}:{option.names}".encode(), digest_size=8).digest()


#: A measure of an option; smaller is better. Values of one measure are comparable.
Measure = Callable[[Option], Any]
#: An option's measures, in the order of the chain.
Merit = tuple[Any, ...]


def chain_of(
    names: Sequence[ExpanderName],
    *,
    seed: int,
    priority_of: Callable[[GroupName], int | None],
    weights: Weights,
    largest: Resources,
    prices: Sequence[int] = (),
    formula: PriceFormula = FORMULA,
) -> Callable[[Option], Merit]:
    """Makes the function that returns an option's merit by these expanders, with a random draw as the last measure. `largest`:
    for each resource the most that any group's new node has. `prices`: micros an hour of a new node of each group. `formula`:
    the price of requests."""
    lot = partial(draw, seed=seed)
    by_name: dict[str, Measure] = {
        "most-pods": most_pods,
        "least-nodes": least_nodes,
        "random": lot,
        "priority": partial(rank, priority_of=priority_of),
        "least-waste": partial(waste, weights=weights),
        "price": partial(cost, prices=prices, formula=formula),
        "smallest-node": partial(node_size, weights=weights, largest=largest),
    }
    measures: list[Measure] = [*(by_name[name] for name in names), lot]
    return lambda option: tuple(measure(option) for measure in measures)


class BadPriorities(ValueError):
    """The configured priorities cannot be read. The message says where the error is, what was found and what is wanted."""


NO_PRIORITIES: Final = Priorities()


def read_priorities(document: object) -> Priorities:
    """Reads the parsed YAML of the ConfigMap's key `priorities`: a map of numbers to lists of expressions.

    Raises BadPriorities.
    """
    if not isinstance(document, Mapping):
        raise BadPriorities(f"priorities: got {document!r:.80}, want a map of numbers to lists of expressions")
    ranks = []
    for rank, expressions in document.items():
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise BadPriorities(f"priorities: got key {rank!r:.80}, want a whole number")
        if isinstance(expressions, str) or not isinstance(expressions, Sequence):
            raise BadPriorities(f"priorities[{rank}]: got {expressions!r:.80}, want a list of expressions")
        ranks.append((rank, tuple(_compiled(rank, expressions))))
    return Priorities(ranks=tuple(sorted(ranks, key=lambda each: -each[0])))


def _compiled(rank: int, expressions: Iterable[object]) -> Iterable[re.Pattern[str]]:
    for expression in expressions:
        if not isinstance(expression, str):
            raise BadPriorities(f"priorities[{rank}]: got {expression!r:.80}, want an expression")
        try:
            yield re.compile(expression.replace(r"\z", r"\Z"))  # the one escape that Go spells differently
        except (re.error, RecursionError, OverflowError) as err:
            raise BadPriorities(f"priorities[{rank}]: {expression!r:.80}: {err}") from err


def rank(option: Option, priority_of: Callable[[GroupName], int | None]) -> tuple[bool, int]:
    """The measure of an option by its groups' priority, which is the same for all groups of a bundle. An option without a
    priority comes last."""
    found = priority_of(option.names[0])
    return found is None, -(found or 0)


_WEIGHTLESS: Final = frozenset({"pods", "ephemeral-storage"})
_ATTACHABLE: Final = "attachable-volumes-"
_HUGE_PAGES: Final = "hugepages-"
_MILLI: Final = 1000


CPU_AND_MEMORY: Final[Weights] = {"cpu": _ONE, "memory": _ONE}


def weights_of(nodes: Iterable[Node]) -> Weights:
    """The weight of each resource. `nodes`: one new node of each group. Resources that no node has weigh nothing."""
    total: dict[str, int] = {}
    for node in nodes:
        for name, amount in resources_of(node).items():
            total[name] = total.get(name, 0) + amount
    cores, memory = Fraction(total.pop("cpu", 0), _MILLI), Fraction(total.pop("memory", 0))
    scarce = ((name, amount) for name, amount in sorted(total.items()) if amount and _counts(name))
    others = {name: (memory if name.startswith(_HUGE_PAGES) else cores) / amount for name, amount in scarce}
    return {**CPU_AND_MEMORY, **others}


def _counts(name: str) -> bool:
    return name not in _WEIGHTLESS and not name.startswith(_ATTACHABLE)


def largest_of(nodes: Iterable[Node]) -> Resources:
    """The most that any of the nodes has of each resource."""
    most: dict[str, int] = {}
    for node in nodes:
        for name, amount in resources_of(node).items():
            most[name] = max(most.get(name, 0), amount)
    return most
