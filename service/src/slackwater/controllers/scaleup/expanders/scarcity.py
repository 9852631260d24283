"""Scarcity: the weight of each resource when nodes are compared. A resource weighs more, the scarcer it is relative to CPU.

CPU and memory weigh 1. A device's weight is the number of cores divided by the number of such devices, both summed over one new
node of each group. So an idle GPU outweighs any idle CPU, and one of a thousand `kvm` weighs next to nothing. Huge pages are
compared with memory. Pod slots and local disk weigh nothing: every machine has them, whether its template shows them or not.
Prices are not known.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from slackwater.model.objects import Node

_WEIGHTLESS: Final = frozenset({"pods", "ephemeral-storage"})
_ATTACHABLE: Final = "attachable-volumes-"
_HUGE_PAGES: Final = "hugepages-"
_MILLI: Final = 1000
_ONE: Final = Fraction(1)

#: By resource name: `cpu` in milliCPU, `memory` and huge pages in bytes, devices by number.
Resources = Mapping[str, int]
Weights = Mapping[str, Fraction]

CPU_AND_MEMORY: Final[Weights] = {"cpu": _ONE, "memory": _ONE}


def resources_of(node: Node) -> Resources:
    """What is allocatable on the node, by resource name."""
    return {**dict(node.scalars), "cpu": node.allocatable.cpu, "memory": node.allocatable.memory}


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
