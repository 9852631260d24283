"""What pods and nodes use at one moment, as the metrics API (metrics.k8s.io) of a cluster answers it.

In: the JSON text of a list. Out: each object's name with milliCPU and bytes. Deliberately absent: asking for the list.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from slackwater.model.resources import LARGEST_AMOUNT, Amounts, amounts_of
from slackwater_protocol.units import byte_count, milli_cpu

PODS: Final = "/apis/metrics.k8s.io/v1beta1/pods"
NODES: Final = "/apis/metrics.k8s.io/v1beta1/nodes"


class Measured(msgspec.Struct):
    """The pod or node that was measured; a node has no namespace."""

    name: str
    namespace: str = ""


class _Container(msgspec.Struct):
    usage: dict[str, str]


class _Metrics(msgspec.Struct):
    metadata: Measured
    usage: dict[str, str] = {}
    containers: list[_Container] = []


class _MetricsList(msgspec.Struct):
    items: Annotated[list[_Metrics], msgspec.Meta(max_length=1_000_000)]


def used_of(page: bytes) -> Iterator[tuple[Measured, Amounts]]:
    """What each object of a list uses, a pod with all its containers; from 0 to the largest amount that counts.

    Raises `msgspec.MsgspecError` or `ValueError`."""
    for item in msgspec.json.decode(page, type=_MetricsList).items:
        usages: tuple[Mapping[str, str], ...] = (item.usage, *(each.usage for each in item.containers))
        cpu = sum(milli_cpu(usage.get("cpu", "0")) for usage in usages)
        memory = sum(byte_count(usage.get("memory", "0")) for usage in usages)
        yield item.metadata, amounts_of([max(0, min(each, LARGEST_AMOUNT)) for each in (cpu, memory)])
