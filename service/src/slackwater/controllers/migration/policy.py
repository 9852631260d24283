"""The policy of live migration: its settings as values."""

from dataclasses import dataclass

from slackwater.model.ids import Ppm


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """Settings of migration. `max_concurrent`, `max_per_source` and `max_per_target` limit the migrations that run at the same
    time: in the cluster, from one node, and to one node. `capacity_pressure_weight`: the weight of denied growth, in
    millionths.
    """

    enabled: bool
    max_concurrent: int
    max_per_source: int
    max_per_target: int
    capacity_pressure_weight: Ppm
