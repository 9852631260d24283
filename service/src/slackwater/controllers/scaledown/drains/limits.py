"""How long each step of a removal may take, and what it may do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityGroup:
    """Pods of at least this priority, up to the next group's; they have so many seconds to end."""

    priority: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """Seconds. Defaults are Cluster Autoscaler's, but for `deadline_seconds`, which bounds a whole removal there and not here.

    `settle_seconds` after the last taint of a batch the first pod is evicted, so that schedulers have seen it. Groups are
    drained one after another, lower priorities first; a pod below the lowest goes with it. A blocked eviction is asked again
    after `retry_seconds`, or as soon as the budget allows one. With `force` pods whose eviction takes too long are deleted.
    `delay_seconds` is how long annotations may put off the deletion, `removal_seconds` how long a node may stay after
    its provider has taken the deletion. `migrate`: virtual machines that may migrate do.
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
        """The highest group that takes the priority."""
        return max((at for at, group in enumerate(self.groups) if group.priority <= priority), default=0)
