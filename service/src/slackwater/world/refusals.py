"""Pods that filter refused, and what wakes them: kube-scheduler retries on the events that it sees, not on ours.

Three things free room without any event that kube-scheduler acts on: a hold that ends unused; a change of configuration; and
room whose watch event reached kube-scheduler before it reached us, so that it asked again, was refused from the older picture,
and has spent the event. Each refusal is woken once at most; the touch leads to a new filter call, which may refuse again.
"""

from dataclasses import dataclass
from typing import Final

from slackwater.model.effects import Effect, Touch
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

#: How far our watch may be behind kube-scheduler's. Room that appears later reaches kube-scheduler after the refusal.
_LAG_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    pod: Pod
    held: bool
    at: Instant


class Refusals:
    """By pod, until the pod is let pass, bound or gone. Oldest first."""

    def __init__(self) -> None:
        self._refused: dict[PodUid, _Refusal] = {}

    def note(self, pod: Pod, *, held: bool, now: Instant) -> None:
        """`held`: on some node only holds were in the way."""
        self._refused.pop(pod.uid, None)
        self._refused[pod.uid] = _Refusal(pod, held, now)

    def forget(self, uid: PodUid) -> None:
        self._refused.pop(uid, None)

    def wake_held(self) -> list[Effect]:
        """A hold ended unused."""
        return self._wake([uid for uid, refusal in self._refused.items() if refusal.held], "hold-ended")

    def wake_recent(self, now: Instant) -> list[Effect]:
        """Room appeared, or a node."""
        recent = []
        for uid, refusal in reversed(self._refused.items()):
            if refusal.at + _LAG_SECONDS < now:
                break
            recent.append(uid)
        return self._wake(recent, "room-appeared")

    def wake_all(self) -> list[Effect]:
        """The rules changed."""
        return self._wake(list(self._refused), "settings-changed")

    def _wake(self, uids: list[PodUid], why: str) -> list[Effect]:
        woken = [self._refused.pop(uid).pod for uid in uids]
        return [Touch(pod.uid, pod.key, why) for pod in woken]

    def __len__(self) -> int:
        return len(self._refused)
