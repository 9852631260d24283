"""Pods that were woken and have not come back to filter yet: each is woken again, later every time, and in the end left alone.

Also those whose preemption has failed: they are woken when the pods that did not leave may be counted on again.

kube-scheduler may hold a pod back up to ten seconds, and has lost wake-ups (field notes 2.6); it tries every pod again by
itself within five minutes.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.model.backoff import ExponentialBackoff
from slackwater.model.effects import Activate, OpenGate
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater_protocol.names import GATE

_BACKOFF: Final = ExponentialBackoff(first_seconds=5.0)
_MOST_AGAIN: Final = 5


def activating(pod: Pod, why: str) -> Activate | OpenGate:
    """What makes kube-scheduler try the pod: where it waits behind a real gate of ours, that gate has to go."""
    return OpenGate(pod.uid, pod.key, why) if GATE in pod.gates else Activate(pod.uid, pod.key, why)


@dataclass(slots=True)
class _Expected:
    pod: Pod
    due: Instant
    again: int = 0


class Activations:
    """By pod UID."""

    def __init__(self) -> None:
        self._expected: dict[PodUid, _Expected] = {}
        self._later: dict[PodUid, tuple[Instant, Pod]] = {}

    def expect(self, pod: Pod, now: Instant) -> None:
        """The pod was woken just now."""
        self._expected[pod.uid] = _Expected(pod, Instant(now + _BACKOFF.seconds(1)))

    def put_off(self, pod: Pod, until: Instant) -> None:
        """Whatever comes of this wake-up, the pod may be helped then."""
        self._later[pod.uid] = (until, pod)

    def forget(self, uid: PodUid) -> None:
        """It came back."""
        self._expected.pop(uid, None)

    def drop(self, uid: PodUid) -> None:
        """It needs no wake-up any more."""
        self.forget(uid)
        self._later.pop(uid, None)

    def put_off_until(self, now: Instant) -> list[Pod]:
        """The pods whose time has come, once."""
        ready = [pod for until, pod in self._later.values() if until <= now]
        for pod in ready:
            del self._later[pod.uid]
        return ready

    def due(self, now: Instant) -> list[Pod]:
        """The pods to wake again."""
        woken = []
        for uid, expected in list(self._expected.items()):
            if expected.due > now:
                continue
            expected.again += 1
            expected.due = Instant(now + _BACKOFF.seconds(expected.again + 1))
            woken.append(expected.pod)
            if expected.again >= _MOST_AGAIN:
                del self._expected[uid]
        return woken

    def __len__(self) -> int:
        return len(self._expected) + len(self._later)
