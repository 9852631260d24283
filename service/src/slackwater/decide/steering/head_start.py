"""Whether kube-scheduler is kept waiting with the pod that it asks about, until pods behind that one were told where to go.

A pod that was told takes it a fraction of a search, and to tell one takes less than is saved by it: as long as that is so, a
moment's wait is won back. While it waits nobody searches, and the pods that it takes next are told in time. (Where they are
told while it searches, each slows the other down, and many are told too late.)

Deliberately absent: who waits, and for how long at most (`run.loops.head_start`).
"""

from typing import Final

from slackwater.model.ids import Instant, PodUid

#: Fewer pods are told in passing.
LEAST: Final = 16
#: Before anybody was told: an API server of a small machine.
_FIRST_SECONDS: Final = 0.002
_NEWEST: Final = 0.3


class HeadStart:
    """One at a time. `uid` is the pod that kube-scheduler waits with; `count` and `seconds` only grow."""

    def __init__(self) -> None:
        self.uid: PodUid | None = None
        self.count = 0
        self.seconds = 0.0
        self._since = Instant(0.0)
        self._told_before = 0
        #: To tell one pod while kube-scheduler waits, in the mean of late.
        self._telling_seconds = _FIRST_SECONDS

    def pays(self, saved_seconds: float) -> bool:
        """Is a wait won back? `saved_seconds`: what kube-scheduler saves with a pod that was told."""
        return self._telling_seconds < saved_seconds

    def begin(self, uid: PodUid, told: int, now: Instant) -> None:
        """`told`: how many were, ever."""
        self.uid, self._since, self._told_before = uid, now, told

    def end(self, told: int, now: Instant) -> float:
        """How many seconds it has waited."""
        waited, count = now - self._since, told - self._told_before
        self.uid = None
        self.count += 1
        self.seconds += waited
        self._telling_seconds += (waited / max(1, count) - self._telling_seconds) * _NEWEST
        return waited
