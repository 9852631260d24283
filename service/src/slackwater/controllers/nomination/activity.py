"""Says whether kube-scheduler is at work, by when it last took a pod from its queue."""

from typing import Final

from slackwater.model.ids import Instant

#: If kube-scheduler has taken no pod for this long, it has nothing to do or is down.
_IDLE_SECONDS: Final = 1.0


class SchedulerActivity:
    """Remembers when kube-scheduler last asked filter about a pod."""

    def __init__(self) -> None:
        self._taken_at: Instant | None = None

    def taken(self, now: Instant) -> None:
        """Notes that kube-scheduler took a pod from its queue now."""
        self._taken_at = now

    def at_work(self, now: Instant) -> bool:
        """Has kube-scheduler taken a pod within the last second?"""
        return self.idle_at(_IDLE_SECONDS, now) is not None

    def idle_at(self, seconds: float, now: Instant) -> Instant | None:
        """When kube-scheduler will have taken no pod for `seconds`, unless it takes one; None if that is so now."""
        at = None if self._taken_at is None else Instant(self._taken_at + seconds)
        return at if at is not None and at > now else None
