"""Amounts of the resources that the ledger accounts for: CPU and memory.

The other resources of a pod (extended ones, ephemeral storage, the count of pods) are no part of the ledger: Slackwater
reserves none of them beyond what kube-scheduler itself assumes.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from slackwater_protocol.units import Bytes, MilliCpu

ResourceName = Literal["cpu", "memory"]

#: The order of the first axis of every (resources, nodes) column.
RESOURCES: Final[tuple[ResourceName, ...]] = ("cpu", "memory")
CPU: Final = 0
MEMORY: Final = 1


#: The largest request of a pod, or amount of a node, that is counted of one resource: 2^50 milliCPU, bytes or pieces (1 PiB).
#: No machine has as much. Larger numbers count as this one, so that sums over thousands of pods and products with scores'
#: factors stay far below 2^63, where int64 wraps.
LARGEST_AMOUNT: Final = 2**50
#: The largest amount counted for a node: less by one, so that a pod of the largest amount fits nowhere, whatever a node
#: reports.
LARGEST_ON_NODE: Final = LARGEST_AMOUNT - 1
#: The most pods that are counted on one node, so that their sum stays within 2^62. A kubelet takes 110 by default; nodes with
#: more than 1,000 are not known.
MOST_PODS_ON_NODE: Final = 4_096


class Amounts(NamedTuple):
    """An exact amount of each accounted resource: milliCPU and bytes."""

    cpu: MilliCpu
    memory: Bytes

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(MilliCpu(self.cpu + other.cpu), Bytes(self.memory + other.memory))

    def minus(self, other: "Amounts") -> "Amounts":
        return Amounts(MilliCpu(self.cpu - other.cpu), Bytes(self.memory - other.memory))

    def at_least(self, other: "Amounts") -> "Amounts":
        """The larger of the two, resource by resource."""
        return Amounts(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def at_most(self, other: "Amounts") -> "Amounts":
        """The smaller of the two, resource by resource."""
        return Amounts(min(self.cpu, other.cpu), min(self.memory, other.memory))

    def not_below_zero(self) -> "Amounts":
        return self if self.cpu >= 0 and self.memory >= 0 else self.at_least(NOTHING)

    def within(self, other: "Amounts") -> bool:
        return self.cpu <= other.cpu and self.memory <= other.memory


NOTHING: Final = Amounts(MilliCpu(0), Bytes(0))


def amounts_of(values: Sequence[int]) -> Amounts:
    """Amounts from (milliCPU, bytes)."""
    cpu, memory = values
    return Amounts(MilliCpu(int(cpu)), Bytes(int(memory)))


def on_node(reported: Amounts) -> Amounts:
    """The amounts that a node reports, clamped to between -`LARGEST_ON_NODE` and `LARGEST_ON_NODE`."""
    most = Amounts(MilliCpu(LARGEST_ON_NODE), Bytes(LARGEST_ON_NODE))
    return reported.at_most(most).at_least(NOTHING.minus(most))
