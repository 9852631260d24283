"""Activations: tracks the pods that kube-scheduler was asked to try again, until filter is asked about them.

Each is activated again, after a longer pause each time, and at most `_MOST_AGAIN` times. Pods whose preemption has failed wait
here too: they are activated when a new preemption may choose the victims that did not leave.

kube-scheduler may hold a pod back up to ten seconds, and has been seen to lose activations; it tries every pod again by itself
within five minutes.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.model.effects import Activate, OpenGate
from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater_protocol.names import GATE

_BACKOFF: Final = ExponentialBackoff(first_seconds=5.0)
_MOST_AGAIN: Final = 5


def activating(pod: Pod, why: str) -> Activate | OpenGate:
    """The effect that makes kube-scheduler try the pod: removes our scheduling gate from the pod if it has one, else activates
    the pod."""
    return OpenGate(pod.uid, pod.key, why) if GATE in pod.gates else Activate(pod.uid, pod.key, why)


@dataclass(slots=True)
class _Expected:
    pod: Pod
    due: Instant
    again: int = 0


class Activations:
    """The pods that were activated and for which filter has not been asked since, and the pods to activate later."""

    def __init__(self) -> None:
        self._expected: dict[PodUid, _Expected] = {}
        self._later: dict[PodUid, tuple[Instant, Pod]] = {}

    def expect(self, pod: Pod, now: Instant) -> None:
        """Notes that the pod was activated just now."""
        self._expected[pod.uid] = _Expected(pod, Instant(now + _BACKOFF.seconds(1)))

    def put_off(self, pod: Pod, until: Instant) -> None:
        """Schedules an activation of the pod at `until`, even if an earlier activation makes kube-scheduler try it before."""
        self._later[pod.uid] = (until, pod)

    def forget(self, uid: PodUid) -> None:
        """Ends the repeated activation of a pod, because filter was asked about it."""
        self._expected.pop(uid, None)

    def drop(self, uid: PodUid) -> None:
        """Forgets a pod that needs no activation any more, also none that was scheduled for later."""
        self.forget(uid)
        self._later.pop(uid, None)

    def put_off_until(self, now: Instant) -> list[Pod]:
        """Removes the pods whose scheduled activation is due, and returns them."""
        ready = [pod for until, pod in self._later.values() if until <= now]
        for pod in ready:
            del self._later[pod.uid]
        return ready

    def due(self, now: Instant) -> list[Pod]:
        """The pods to activate again now."""
        activated = []
        for uid, expected in list(self._expected.items()):
            if expected.due > now:
                continue
            expected.again += 1
            expected.due = Instant(now + _BACKOFF.seconds(expected.again + 1))
            activated.append(expected.pod)
            if expected.again >= _MOST_AGAIN:
                del self._expected[uid]
        return activated

    def __len__(self) -> int:
        return len(self._expected) + len(self._later)
