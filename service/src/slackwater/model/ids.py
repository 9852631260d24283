"""Ids, one type each, so that the type checker refuses one where another is meant."""

from typing import Annotated, Final, NamedTuple, NewType

PodUid = NewType("PodUid", str)  # unique for all time, unlike a name
NodeName = NewType("NodeName", str)
Row = NewType("Row", int)  # a position in the state machine's columns; a snapshot has rows of its own
Generation = NewType("Generation", int)  # counts the state machine's changes; a plan carries the one it was made on
Instant = NewType("Instant", float)  # seconds on a monotonic clock; only differences mean anything
UnixTime = NewType("UnixTime", float)  # seconds since 1970 by the wall clock; comparable with times in objects
#: The units of settings in policies. Parts per million, because what is computed of a share has to be exact.
Seconds = float
Ppm = Annotated[int, "ppm"]
PPM: Final = 1_000_000
DAY_SECONDS: Final = 86_400


class PodKey(NamedTuple):
    """Namespace and name of a pod. A name may be used again after a deletion, unlike `PodUid`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
