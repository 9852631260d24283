"""Limits of a removal: how long each step may take, and what it may do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityGroup:
    """Pods of at least this priority, up to the next group's; each has so many seconds to end."""

    priority: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """Limits, in seconds. Defaults are Cluster Autoscaler's, except `deadline_seconds`, which bounds a removal until its
    provider is asked.

    The first pod of a batch is evicted `settle_seconds` after its last taint, so that schedulers have seen it. Priority groups
    leave one after another, lower priorities first; a pod below the lowest group leaves with it. A blocked eviction is sent
    again after `retry_seconds`, or as soon as the budget allows one. With `force` pods whose eviction takes too long are
    deleted. `delay_seconds` is how long annotations may delay the deletion, `removal_seconds` how long a node may exist after
    its provider has accepted the deletion. `migrate`: virtual machines that may migrate do so instead of being evicted.
    """

    cordon: bool = True
    settle_seconds: float = 5.0
    retry_seconds: float = 10.0
    eviction_seconds: float = 120.0
    groups: tuple[PriorityGroup, ...] = (PriorityGroup(priority=-(2**31), seconds=600.0),)
    headroom_seconds: float = 30.0
    deadline_seconds: float = 3600.0
    delay_seconds: float = 120.0
    removal_seconds: float = 900.0
    force: bool = False
    evict_daemons: bool = True
    migrate: bool = True

    def group_of(self, priority: int) -> int:
        """The group of the priority: the highest whose bound it reaches, else the lowest."""
        return max((at for at, group in enumerate(self.groups) if group.priority <= priority), default=0)
