"""The annotation that says how many volumes of each CSI driver a new node can attach, in Cluster Autoscaler's form.

A group without nodes has no CSINode that shows this. The form is `ebs.csi.aws.com=25,efs.csi.aws.com`: a driver without a
number is installed and attaches any number of volumes.
"""

from typing import Final

from slackwater.model.storage import CsiNode

CSI_DRIVERS: Final = "capacity.cluster-autoscaler.kubernetes.io/csi-driver"
#: The largest limit that the API allows (int32).
_MOST: Final = 2**31 - 1
_MOST_DIGITS: Final = 10


def read_attach_limits(text: str) -> CsiNode | None:
    """Reads the annotation's text as a CsiNode without a name. None where the text names no driver. Raises ValueError."""
    drivers: dict[str, int | None] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        driver, equals, limit = (part.strip() for part in entry.partition("="))
        if not driver or driver in drivers:
            raise ValueError(f"{entry!r:.80}, want driver=limit, each driver once")
        drivers[driver] = _limit(entry, limit) if equals else None
    return CsiNode(name="", drivers=tuple(drivers.items())) if drivers else None


def _limit(entry: str, text: str) -> int:
    readable = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not readable or int(text) > _MOST:
        raise ValueError(f"{entry!r:.80}, want driver=limit with a whole number from 0 to {_MOST}")
    return int(text)
