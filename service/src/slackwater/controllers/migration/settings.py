"""The `migration` section of the configuration file: live migration away from crowded nodes."""

from pydantic import Field

from slackwater.configuration.values import Section, Switch, Weight, Width


class Migration(Section):
    """Live migration away from nodes above their watermark."""

    enabled: Switch = True
    """Whether migrations are started. true by default."""
    max_concurrent: Width = Field(default=10, examples=[10])
    """Migrations that run at the same time in the cluster. 10 by default: the network carries each one's memory."""
    max_per_source: Width = Field(default=2, examples=[2])
    """Migrations that leave one node at the same time. 2 by default: they share the node's network link."""
    max_per_target: Width = Field(default=2, examples=[2])
    """Migrations that arrive at one node at the same time. 2 by default: they share the node's network link."""
    capacity_pressure_weight: Weight = Field(default=1.0, examples=[1.0, 0.5])
    """Factor of denied growth (CapacityPressure) when a node is compared with its watermark. 1.0 by default: denied growth
    counts as if it had been granted. With any factor, denied growth counts for more than nothing."""
