"""Missing nodes: nodes that were requested of the provider and of which it lists no instance yet."""

from collections import deque

from slackwater.model.ids import Instant


class MissingNodes:
    """When each missing node of one group was requested. It assumes that the nodes requested first appear first."""

    def __init__(self) -> None:
        self._requested_at: deque[Instant] = deque()  # the earliest first

    def __len__(self) -> int:
        return len(self._requested_at)

    def observe(self, missing: int, appeared: int, now: Instant) -> None:
        """Takes in that `missing` nodes are missing now, and that `appeared` new instances are listed since the last call."""
        for _ in range(min(len(self), max(appeared, len(self) - missing))):
            self._requested_at.popleft()
        self._requested_at.extend([now] * (missing - len(self)))

    def longer_than(self, seconds: float, now: Instant) -> int:
        """How many nodes have been missing for more than `seconds`."""
        return sum(now - requested_at > seconds for requested_at in self._requested_at)
