"""The devices that a node group's new nodes will have, as its template states them: a number of equal devices of one driver.

A group without nodes has no ResourceSlice that shows this. The settings state it in `template.devices`; for Cluster API groups
and external providers Cluster Autoscaler's annotations state it: a driver, and `gpu-count` devices with the attribute type
"gpu".
"""

from collections.abc import Mapping
from typing import Final

from slackwater.model.devices import Attribute, Capacity, Device, NodeChoice, ResourceSlice

DRA_DRIVER: Final = "capacity.cluster-autoscaler.kubernetes.io/dra-driver"
GPU_COUNT: Final = "capacity.cluster-autoscaler.kubernetes.io/gpu-count"
#: The API's limit of devices in one ResourceSlice.
MOST_DEVICES: Final = 128
_MOST_DIGITS: Final = 3


def template_slice(
    driver: str, count: int, *, attributes: Mapping[str, Attribute] | None = None, capacity: Mapping[str, int] | None = None
) -> ResourceSlice:
    """The ResourceSlice of a template node: `count` equal devices of the driver. `capacity` is in units of 10^-9. The pool has
    no name yet: each planned node's pool gets the node's name."""
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
    """The ResourceSlices that a template's annotations state; empty without a driver or a count. Raises ValueError."""
    driver, count = annotations.get(DRA_DRIVER, "").strip(), annotations.get(GPU_COUNT, "").strip()
    if not driver or not count:
        return ()
    if not (count.isascii() and count.isdecimal() and len(count) <= _MOST_DIGITS and int(count) <= MOST_DEVICES):
        raise ValueError(f"annotation {GPU_COUNT}: got {count!r:.40}, want a whole number from 0 to {MOST_DEVICES}")
    return (template_slice(driver, int(count), attributes={"type": "gpu"}),) if int(count) else ()
