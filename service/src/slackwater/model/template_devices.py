"""Devices that a new node of a group will have, as its template states them: so many devices of a driver, all alike.

A group without nodes has no ResourceSlice that shows this. The settings state it in `template.devices`, Cluster API groups and
external providers in Cluster Autoscaler's annotations: a driver, and `gpu-count` devices with the attribute type "gpu".
"""

from collections.abc import Mapping
from typing import Final

from slackwater.model.devices import Attribute, Capacity, Device, NodeChoice, ResourceSlice

DRA_DRIVER: Final = "capacity.cluster-autoscaler.kubernetes.io/dra-driver"
GPU_COUNT: Final = "capacity.cluster-autoscaler.kubernetes.io/gpu-count"
#: As many as a ResourceSlice has at most.
MOST_DEVICES: Final = 128
_MOST_DIGITS: Final = 3


def template_slice(
    driver: str, count: int, *, attributes: Mapping[str, Attribute] | None = None, capacity: Mapping[str, int] | None = None
) -> ResourceSlice:
    """A slice of `count` equal devices; their capacity is in nanos. The pool will be called like the node."""
    has = tuple(sorted((attributes or {}).items(), key=lambda item: item[0]))
    holds = tuple(Capacity(name=name, amount=amount) for name, amount in sorted((capacity or {}).items()))
    return ResourceSlice(
        name=driver,
        driver=driver,
        pool="",
        generation=1,
        slices=1,
        nodes=NodeChoice(name="template"),
        devices=tuple(Device(name=f"gpu-{at}", attributes=has, capacity=holds) for at in range(count)),
    )


def read_template_devices(annotations: Mapping[str, str]) -> tuple[ResourceSlice, ...]:
    """The slices that a template's annotations state; none without a driver and a count. Raises ValueError."""
    driver, count = annotations.get(DRA_DRIVER, "").strip(), annotations.get(GPU_COUNT, "").strip()
    if not driver or not count:
        return ()
    if not (count.isascii() and count.isdecimal() and len(count) <= _MOST_DIGITS and int(count) <= MOST_DEVICES):
        raise ValueError(f"annotation {GPU_COUNT}: got {count!r:.40}, want a whole number from 0 to {MOST_DEVICES}")
    return (template_slice(driver, int(count), attributes={"type": "gpu"}),) if int(count) else ()
