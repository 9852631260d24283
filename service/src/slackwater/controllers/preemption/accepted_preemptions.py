"""Preemptions that the preempt verb accepted. They are kept because kube-scheduler may see the victims leave before we do.

kube-scheduler then asks again from its newer state. Filter refuses from our older state, and the preempt verb would accept a
second set of victims on another node, which would be deleted in vain. So the verb answers "no victims" instead, and the pod is
activated when our watch shows the room, at the latest after the allowed lag. The verb answers the same if our watch showed the
room after filter was asked: the question is then older than our state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod

#: How far our watch may lag behind kube-scheduler's.
_LAG_SECONDS: Final = 2.0
#: An entry is out of date when the longest grace period of its victims and this time have passed.
_KEPT_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _AcceptedPreemption:
    victims: Mapping[NodeName, Sequence[PodUid]]
    at: Instant
    grace_seconds: float
    overtaken_at: Instant | None = None

    @property
    def ends_at(self) -> float:
        return self.at + self.grace_seconds + _KEPT_SECONDS if self.overtaken_at is None else self.overtaken_at + _LAG_SECONDS


class AcceptedPreemptions:
    """The latest accepted preemption of each preemptor, until the preemptor is bound or gone. Oldest first."""

    def __init__(self) -> None:
        self._accepted: dict[PodUid, _AcceptedPreemption] = {}

    def note(self, preemptor: PodUid, victims: Mapping[NodeName, Sequence[PodUid]], grace_seconds: float, now: Instant) -> None:
        """`grace_seconds`: the longest grace period of the victims."""
        self._accepted.pop(preemptor, None)
        self._accepted[preemptor] = _AcceptedPreemption(victims, now, grace_seconds)

    def _current(self, preemptor: PodUid, now: Instant) -> _AcceptedPreemption | None:
        accepted = self._accepted.get(preemptor)
        return accepted if accepted is not None and accepted.ends_at > now else None

    def overtaken(
        self,
        preemptor: PodUid,
        proposed: Iterable[NodeName],
        seen_on: Callable[[PodUid, NodeName], Pod | None],
        fits: Callable[[NodeName], bool],
        now: Instant,
    ) -> bool:
        """Whether kube-scheduler's state was newer than ours when filter was asked.

        It was newer if kube-scheduler no longer proposes a node with accepted victims, and we see one of two things: either
        some of these victims still count on the node, and all of them are being deleted or the preemption was accepted just
        now; or all victims are gone and the pod fits there.
        """
        accepted = self._current(preemptor, now)
        if accepted is None:
            return False
        fresh = accepted.at + _LAG_SECONDS > now
        asked = set(proposed)
        for node, uids in accepted.victims.items():
            if node in asked:
                continue
            left = [pod for uid in uids if (pod := seen_on(uid, node)) is not None]
            if (fresh or all(pod.deleting for pod in left)) if left else fits(node):
                if accepted.overtaken_at is None:
                    self._accepted[preemptor] = replace(accepted, overtaken_at=now)
                return True
        return False

    def awaited(self, preemptor: PodUid, seen_on: Callable[[PodUid, NodeName], Pod | None], now: Instant) -> bool:
        """Whether a preemption by kube-scheduler is under way for the pod: some victim still exists, and the preemption was
        accepted just now or some victim is being deleted."""
        accepted = self._current(preemptor, now)
        if accepted is None:
            return False
        left = [pod for node, uids in accepted.victims.items() for uid in uids if (pod := seen_on(uid, node)) is not None]
        return bool(left) and (accepted.at + _LAG_SECONDS > now or any(pod.deleting for pod in left))

    def victims_of(self, preemptor: PodUid, now: Instant) -> Mapping[NodeName, Sequence[PodUid]]:
        """The victims that were accepted for the preemptor, by node; empty if nothing was accepted, or too long ago."""
        accepted = self._current(preemptor, now)
        return {} if accepted is None else accepted.victims

    def preemptor_of(self, victim: PodUid) -> PodUid | None:
        """The one preemptor for which this victim was accepted on some node; None if there is none, or several."""
        found = [uid for uid, accepted in self._accepted.items() if any(victim in uids for uids in accepted.victims.values())]
        return found[0] if len(found) == 1 else None

    def forget(self, preemptor: PodUid) -> None:
        self._accepted.pop(preemptor, None)

    def expire(self, now: Instant) -> list[PodUid]:
        """Forgets entries that are out of date. Returns the preemptors that were answered "no victims" and have now waited for
        the allowed lag."""
        over = {
            uid: accepted
            for uid, accepted in self._accepted.items()
            if accepted.at + accepted.grace_seconds + _KEPT_SECONDS <= now
            or (accepted.overtaken_at is not None and accepted.overtaken_at + _LAG_SECONDS <= now)
        }
        for uid in over:
            del self._accepted[uid]
        return [uid for uid, accepted in over.items() if accepted.overtaken_at is not None]

    def __len__(self) -> int:
        return len(self._accepted)
