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

    `chunk_bytes` bounds a chunk before compression: what cannot be compressed becomes a third larger in the ConfigMap. A chunk
    is written `delay_seconds` after its first new entry, by ring; `min_seconds` after the write before it; and no faster than
    `bytes_per_second` on average. Entries younger than that are lost if the process is killed. `look_seconds`: how often pods
    are looked at, in `slices` between which requests are answered. `looks` pods bound the work of a slice; a pod that gets an
    entry costs `record_cost` of them. `answer_seconds`: a pod's condition may be seen before the API server has answered our
    own call, which is the better source.
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
