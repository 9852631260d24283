"""Versions of the agent protocol: the integers on the wire, their names, and what each of them changed.

A request names one version and is answered by its rules; nothing is negotiated. Deliberately absent: rules of versions
that nobody speaks any more, apart from their names.
"""

from enum import IntEnum
from typing import Final


class ProtocolVersion(IntEnum):
    """The integer in `protoVersion` of those versions that are answered."""

    V3_0 = 5  #: memory counts slots; `computeUnit` may be absent
    V4_0 = 6  #: memory in bytes; `computeUnit` needed
    V5_0 = 7  #: `metrics` has the one-minute load only


OLDEST: Final = ProtocolVersion.V3_0
NEWEST: Final = ProtocolVersion.V5_0

_NAMES: Final = ("<invalid: zero>", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v4.0", "v5.0")


def version_name(version: int) -> str:
    """How messages and metrics call the integer of a version, known or not; `version` >= 0."""
    return _NAMES[version] if version < len(_NAMES) else f"<unknown = {_NAMES[-1]} + {version - int(NEWEST)}>"


def is_answered(version: int) -> bool:
    return OLDEST <= version <= NEWEST


def counts_slots(version: int) -> bool:
    """Does memory count slots of the pod's own size, not bytes?"""
    return version < ProtocolVersion.V4_0


def has_extended_metrics(version: int) -> bool:
    """Do metrics carry the five-minute load and the memory usage too?"""
    return version < ProtocolVersion.V5_0
