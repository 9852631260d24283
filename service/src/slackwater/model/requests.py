"""Resource requests of a pod: Kubernetes' formula, one resource at a time, exact in nanos.

The formula is `PodRequests` of k8s.io/component-helpers/resource v0.36.3 as kube-scheduler 1.36.3 calls it: status counts
during an in-place resize, of containers as well as of the pod as a whole. An amount that is not set counts as 0: the API
refuses negative ones, so sums and maxima stay the same. Deliberately absent: node-allocatable claims of DRA (an alpha gate,
off), and resources that the ledger does not account for.
"""

from collections.abc import Iterable
from typing import NamedTuple

from slackwater.model.resources import LARGEST_AMOUNT, Amounts
from slackwater_protocol.units import Bytes, MilliCpu

_NANOS_PER_MILLI = 10**6
_NANO = 10**9


class InitRequest(NamedTuple):
    """The request of one init container, given in their order. A sidecar (restart policy Always) keeps running with the app
    containers."""

    nanos: int
    sidecar: bool


def effective_nanos(asked: int, reported: tuple[int, int] | None, *, infeasible: bool) -> int:
    """What a container, or a pod as a whole, takes while it may be in the middle of a resize.

    `asked` is the spec's request; `reported` the status's (actual, allocated), None where the status has no resources. A resize
    that the node called `infeasible` will not happen, so `asked` does not count then.
    """
    if reported is None:
        return asked
    actual, allocated = reported
    return max(actual, allocated) if infeasible else max(asked, actual, allocated)


def pod_nanos(*, apps: Iterable[int], inits: Iterable[InitRequest], pod_level: int | None, overhead: int) -> int:
    """The pod's request of one resource: the most that runs at once, or `pod_level` where that is set, plus `overhead`.

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
    return (max(running, highest) if pod_level is None else pod_level) + overhead


def rounded_up(*, cpu_nanos: int, memory_nanos: int) -> Amounts:
    """The amounts as kube-scheduler counts them: `MilliValue` and `Value` of the exact sum, at most `LARGEST_AMOUNT`."""
    cpu, memory = -(-cpu_nanos // _NANOS_PER_MILLI), -(-memory_nanos // _NANO)
    return Amounts(MilliCpu(min(cpu, LARGEST_AMOUNT)), Bytes(min(memory, LARGEST_AMOUNT)))
