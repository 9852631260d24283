"""The policy of live migration: its settings as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """Settings of migration. `weight_ppm`: the weight of denied growth, in millionths. `sustained_seconds`: how long growth
    must have been denied before it counts. The limits are on migrations that run at the same time.
    """

    enabled: bool = True
    max_concurrent: int = 10
    max_per_source: int = 2
    max_per_target: int = 2
    weight_ppm: int = 1_000_000
    sustained_seconds: float = 0.0
