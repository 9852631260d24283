"""Pods that filter refused, and what wakes them: kube-scheduler retries on the events that it sees, not on ours.

Three things free room without any event that kube-scheduler acts on: a hold that ends unused; a change of configuration; and
room whose watch event reached kube-scheduler before it reached us, so that it asked again, was refused from the older cluster
state, and has spent the event. Each refusal is woken once at most; the touch leads to a new filter call, which may refuse
again.

Room that appears within seconds of a refusal wakes the pod at once. How far our watch is behind nobody can tell, so every other
refusal is looked at again and again (`missed_room`).
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from slackwater.model.effects import Activate, Effect
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod

#: How far our watch is behind kube-scheduler's, mostly. Room that appears later reaches kube-scheduler after the refusal.
_LAG_SECONDS: Final = 2.0
#: Where kube-scheduler saw the room, it has tried the pod again by then: it holds pods back for ten seconds at most.
_OWN_SECONDS: Final = 12.0
#: Refusals looked at in one tick; the others follow with the next.
_MOST_PER_TICK: Final = 8


@dataclass(frozen=True, slots=True)
class _UnschedulablePod:
    pod: Pod
    held: bool
    at: Instant


class UnschedulablePods:
    """By pod, until the pod is let pass, bound or gone. Oldest first."""

    def __init__(self) -> None:
        self._refused: dict[PodUid, _UnschedulablePod] = {}
        #: When each of them is looked at, the next one first; also of refusals that are over, until then.
        self._looks: deque[tuple[Instant, _UnschedulablePod]] = deque()

    def note(self, pod: Pod, *, held: bool, now: Instant) -> None:
        """`held`: on some node only holds were in the way."""
        self._refused.pop(pod.uid, None)
        refusal = self._refused[pod.uid] = _UnschedulablePod(pod, held, now)
        self._looks.append((Instant(now + _OWN_SECONDS), refusal))

    def forget(self, uid: PodUid) -> None:
        self._refused.pop(uid, None)

    def activate_held(self) -> list[Effect]:
        """A hold ended unused."""
        return self._wake([uid for uid, refusal in self._refused.items() if refusal.held], "hold-ended")

    def activate_recent(self, now: Instant) -> list[Effect]:
        """Room appeared, or a node."""
        recent = []
        for uid, refusal in reversed(self._refused.items()):
            if refusal.at + _LAG_SECONDS < now:
                break
            recent.append(uid)
        return self._wake(recent, "room-appeared")

    def overdue(self, now: Instant) -> list[Pod]:
        """Pods that kube-scheduler has not tried again by itself for so long: each every 12 s, a few at a time."""
        found: list[Pod] = []
        while self._looks and self._looks[0][0] <= now and len(found) < _MOST_PER_TICK:
            _, refusal = self._looks.popleft()
            if self._refused.get(refusal.pod.uid) is refusal:
                found.append(refusal.pod)
                self._looks.append((Instant(now + _OWN_SECONDS), refusal))
        return found

    def wake_overdue(self, uid: PodUid) -> list[Effect]:
        """There is room for the pod."""
        return self._wake([uid], "room-missed")

    def activate_all(self) -> list[Effect]:
        """The rules changed."""
        return self._wake(list(self._refused), "settings-changed")

    def _wake(self, uids: list[PodUid], why: str) -> list[Effect]:
        woken = [self._refused.pop(uid).pod for uid in uids]
        return [Activate(pod.uid, pod.key, why) for pod in woken]

    def __len__(self) -> int:
        return len(self._refused)
