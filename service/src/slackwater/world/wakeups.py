"""Pods that were woken and have not come back to filter yet: each is woken again, later every time, and in the end left alone.

kube-scheduler may hold a pod back up to ten seconds, and has lost wake-ups (field notes 2.6); it tries every pod again by
itself within five minutes.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

_FIRST_SECONDS: Final = 5.0
_MOST_AGAIN: Final = 5


@dataclass(slots=True)
class _Expected:
    pod: Pod
    due: Instant
    again: int = 0


class Wakeups:
    """By pod UID."""

    def __init__(self) -> None:
        self._expected: dict[PodUid, _Expected] = {}

    def expect(self, pod: Pod, now: Instant) -> None:
        """The pod was woken just now."""
        self._expected[pod.uid] = _Expected(pod, Instant(now + _FIRST_SECONDS))

    def forget(self, uid: PodUid) -> None:
        self._expected.pop(uid, None)

    def due(self, now: Instant) -> list[Pod]:
        """The pods to wake again."""
        woken = []
        for uid, expected in list(self._expected.items()):
            if expected.due > now:
                continue
            expected.again += 1
            expected.due = Instant(now + _FIRST_SECONDS * 2**expected.again)
            woken.append(expected.pod)
            if expected.again >= _MOST_AGAIN:
                del self._expected[uid]
        return woken

    def __len__(self) -> int:
        return len(self._expected)
