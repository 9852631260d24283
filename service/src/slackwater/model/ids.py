"""Ids, one type each, so that a checker refuses one where another is meant."""

from typing import NamedTuple, NewType

PodUid = NewType("PodUid", str)  # unique in time; a name is not
NodeName = NewType("NodeName", str)
Row = NewType("Row", int)  # a position in the state machine's columns; a snapshot keeps the meaning it had when taken
Generation = NewType("Generation", int)  # counts the state machine's changes; a plan carries the one it was made on
Instant = NewType("Instant", float)  # seconds on a monotonic clock; only differences mean anything
UnixTime = NewType("UnixTime", float)  # seconds since 1970 by the clock on the wall: what objects' times are compared with


class PodKey(NamedTuple):
    """How people and the API name a pod. The name may be given again after a deletion: see `PodUid`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
