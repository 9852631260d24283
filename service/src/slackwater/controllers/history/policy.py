"""The bounds of the history: how much is kept, and how often it is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from slackwater.model.history import Ring

#: The chunks of each ring. A chunk is one ConfigMap.
SLOTS: Final[Mapping[Ring, int]] = MappingProxyType({"acts": 8, "waits": 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPolicy:
    """Settings of the history: how much is kept, and how often it is written.

    `chunk_bytes` bounds a chunk before compression; what cannot be compressed becomes a third larger in the ConfigMap. A chunk
    is due `delay_seconds` (by ring) after its first unwritten entry. Writes are at least `min_seconds` apart, and no faster
    than `bytes_per_second` on average. Entries that are not written yet are lost if the process is killed.

    Every `look_seconds` the loop looks at changed pods, in up to `slices` slices, between which requests are answered. All
    looks of a slice may cost `looks` together: one costs 1, or `record_cost` if the pod may get an entry. A disruption waits
    `answer_seconds` for the answer to our own call, which is a better source than the pod's condition but may come later. At
    most `most_disrupted` disruptions wait; further ones get no entry.
    """

    chunk_bytes: int = 192 << 10
    delay_seconds: Mapping[Ring, float] = field(default_factory=lambda: MappingProxyType({"acts": 1.0, "waits": 5.0}))
    min_seconds: float = 1.0
    bytes_per_second: int = 16 << 10
    look_seconds: float = 0.5
    looks: int = 400
    slices: int = 10
    record_cost: int = 20
    answer_seconds: float = 2.0
    most_disrupted: int = 10_000
