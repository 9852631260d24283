"""The policy of live migration: its settings as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """Settings of migration. `max_concurrent`, `max_per_source` and `max_per_target` limit the migrations that run at the same
    time: in the cluster, from one node, and to one node. `weight_ppm`: the weight of denied growth, in millionths.
    """

    enabled: bool = True
    max_concurrent: int = 10
    max_per_source: int = 2
    max_per_target: int = 2
    weight_ppm: int = 1_000_000
