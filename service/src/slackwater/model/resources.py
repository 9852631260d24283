"""Amounts of CPU and memory, which the ledger accounts for, and the formula of a pod's requests.

- `Amounts`: an exact amount of both.
- `pod_nanos`, `effective_nanos`: Kubernetes' formula, one resource at a time, exact in nanos.

The other resources of a pod (extended ones, ephemeral storage, the count of pods) are no part of the ledger: Slackwater
reserves none of them beyond what kube-scheduler itself assumes.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater_protocol.units import NANO, NANOS_PER_MILLI, Bytes, MilliCpu, format_bytes, format_milli_cpu

ResourceName = Literal["cpu", "memory"]

#: The order of the first axis of every (resources, nodes) column.
RESOURCES: Final[tuple[ResourceName, ...]] = ("cpu", "memory")
CPU: Final = 0
MEMORY: Final = 1


#: Extended resources that count as a GPU: those that Cluster Autoscaler knows.
GPUS: Final = frozenset({"nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"})

#: The largest request of a pod, or amount of a node, that is counted of one resource: 2^50 milliCPU, bytes or pieces (1 PiB).
#: No machine has as much. Larger numbers count as this one, so that sums over thousands of pods and products with scores'
#: factors stay far below 2^63, where int64 wraps.
LARGEST_AMOUNT: Final = 2**50
#: The largest amount counted for a node. It is one less than `LARGEST_AMOUNT`, so a pod of the largest amount fits nowhere,
#: whatever a node reports.
LARGEST_ON_NODE: Final = LARGEST_AMOUNT - 1
#: The most pods that are counted on one node, so that their sum stays within 2^62. A kubelet takes 110 by default; nodes with
#: more than 1,000 are not known.
MOST_PODS_ON_NODE: Final = 4_096
#: Part of the names of Kubernetes' own resources.
_NATIVE: Final = "kubernetes.io/"


def is_extended_resource(name: str) -> bool:
    """Whether the name is one of an extended resource, by IsExtendedResourceName of k8s.io/component-helpers."""
    return "/" in name and _NATIVE not in name and not name.startswith("requests.")


class Amounts(NamedTuple):
    """An exact amount of each accounted resource: milliCPU and bytes."""

    cpu: MilliCpu
    memory: Bytes

    @property
    def column(self) -> "npt.NDArray[np.int64]":
        """The amounts as an array of shape (2, 1), which numpy broadcasts over rows."""
        return np.array([[self.cpu], [self.memory]], np.int64)

    @property
    def quantities(self) -> dict[str, int | str]:
        """The amounts as agents' messages and the permit annotation write them; both must be >= 0."""
        return {"vCPUs": format_milli_cpu(self.cpu), "mem": format_bytes(self.memory)}

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


def sum_of(amounts: Iterable[Amounts]) -> Amounts:
    """All of the amounts together."""
    return reduce(Amounts.plus, amounts, NOTHING)


def amounts_of(values: Sequence[int]) -> Amounts:
    """Amounts from (milliCPU, bytes)."""
    cpu, memory = values
    return Amounts(MilliCpu(int(cpu)), Bytes(int(memory)))


def on_node(reported: Amounts) -> Amounts:
    """The amounts that a node reports, clamped to between -`LARGEST_ON_NODE` and `LARGEST_ON_NODE`."""
    most = Amounts(MilliCpu(LARGEST_ON_NODE), Bytes(LARGEST_ON_NODE))
    return reported.at_most(most).at_least(NOTHING.minus(most))


class InitRequest(NamedTuple):
    """The request of one init container. `sidecar`: its restart policy is Always, so it keeps running with the app
    containers."""

    nanos: int
    sidecar: bool


def effective_nanos(asked: int, reported: tuple[int, int] | None, *, infeasible: bool) -> int:
    """The request of one resource that counts for a container, or for a pod as a whole, also during an in-place resize.

    `asked` is the spec's request; `reported` the status's (actual, allocated), None if the status has no resources. A resize
    that the node calls `infeasible` will not happen, so `asked` does not count then.
    """
    if reported is None:
        return asked
    actual, allocated = reported
    return max(actual, allocated) if infeasible else max(asked, actual, allocated)


def pod_nanos(*, apps: Iterable[int], inits: Iterable[InitRequest], pod_level: int | None) -> int:
    """The pod's request of one resource: the most that runs at the same time, or `pod_level` if that is set, without overhead.

    The formula is that of k8s.io/component-helpers/resource as kube-scheduler calls it. During an in-place resize the status
    counts too, both that of the containers and that of the pod; how it counts depends on the version
    (`adapters.kube.pod_requests`). An amount that is not set counts as 0: the API refuses negative ones, so sums and maxima
    stay the same. Node-allocatable claims of DRA are not supported (an alpha gate, off).

    Init containers run one after another, each together with the sidecars that come before it.
    """
    running = sum(apps)
    sidecars = highest = 0
    for nanos, sidecar in inits:
        if sidecar:
            running += nanos
            sidecars += nanos
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + nanos)
    return max(running, highest) if pod_level is None else pod_level


def rounded_up(*, cpu_nanos: int, memory_nanos: int) -> Amounts:
    """Rounds exact amounts as kube-scheduler does (`MilliValue` and `Value`): up to whole milliCPU and bytes, and to
    `LARGEST_AMOUNT` at most."""
    cpu, memory = -(-cpu_nanos // NANOS_PER_MILLI), -(-memory_nanos // NANO)
    return Amounts(MilliCpu(min(cpu, LARGEST_AMOUNT)), Bytes(min(memory, LARGEST_AMOUNT)))
