"""Versions of the agent protocol: the integers on the wire, their names, and what each of them changed.

A request names one version and is answered by the rules of that version; nothing is negotiated. Deliberately absent: the rules
of older versions, which no agent uses any more. Only their names are here.
"""

from enum import IntEnum
from typing import Final


class ProtocolVersion(IntEnum):
    """The protocol versions that Slackwater answers. The value is the integer in `protoVersion`."""

    V3_0 = 5  #: memory is a number of memory slots; `computeUnit` may be absent
    V4_0 = 6  #: memory is in bytes; `computeUnit` is required
    V5_0 = 7  #: `metrics` has only the one-minute load


OLDEST: Final = ProtocolVersion.V3_0
NEWEST: Final = ProtocolVersion.V5_0

_NAMES: Final = ("<invalid: zero>", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v4.0", "v5.0")


def version_name(version: int) -> str:
    """The name of a protocol version in messages and metrics, also for an integer that no version has. `version` >= 0."""
    return _NAMES[version] if version < len(_NAMES) else f"<unknown = {_NAMES[-1]} + {version - int(NEWEST)}>"


def is_answered(version: int) -> bool:
    return OLDEST <= version <= NEWEST


def counts_slots(version: int) -> bool:
    """Is memory a number of slots of the pod's memory slot size, instead of bytes?"""
    return version < ProtocolVersion.V4_0


def has_extended_metrics(version: int) -> bool:
    """Do metrics have the five-minute load and the memory usage, beside the one-minute load?"""
    return version < ProtocolVersion.V5_0
