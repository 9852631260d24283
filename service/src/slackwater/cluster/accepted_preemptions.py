"""Preemptions that the preempt verb agreed to: the room of victims who left may reach kube-scheduler before it reaches us.

kube-scheduler then asks again from its newer cluster state; filter refuses from our older one, and the preempt verb would agree
to a second set of victims elsewhere, who die for nothing. Such a question is answered "no victims": the pod is woken when our
own watch shows the room, at the latest when the lag that is allowed for is over. So it is where the watch showed the room after
filter was asked: the question is older than what we know.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod

#: How far our watch may be behind kube-scheduler's.
_LAG_SECONDS: Final = 2.0
#: Victims may take their grace period to leave, thirty seconds mostly; what is older says nothing any more.
_KEPT_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _AcceptedPreemption:
    victims: Mapping[NodeName, Sequence[PodUid]]
    at: Instant
    overtaken_at: Instant | None = None

    @property
    def ends_at(self) -> float:
        return self.at + _KEPT_SECONDS if self.overtaken_at is None else self.overtaken_at + _LAG_SECONDS


class AcceptedPreemptions:
    """The last one for each preemptor, until it is bound or gone. Oldest first."""

    def __init__(self) -> None:
        self._agreed: dict[PodUid, _AcceptedPreemption] = {}

    def note(self, preemptor: PodUid, victims: Mapping[NodeName, Sequence[PodUid]], now: Instant) -> None:
        self._agreed.pop(preemptor, None)
        self._agreed[preemptor] = _AcceptedPreemption(victims, now)

    def overtaken(
        self,
        preemptor: PodUid,
        proposed: Iterable[NodeName],
        seen_on: Callable[[PodUid, NodeName], Pod | None],
        fits: Callable[[NodeName], bool],
        now: Instant,
    ) -> bool:
        """Was kube-scheduler's cluster state ahead of ours when filter was asked? It asks for victims again, and no longer on a
        node that was agreed to: where we still count some of them, either on their way out or agreed to just now, or where they
        are gone and the pod fits."""
        agreed = self._agreed.get(preemptor)
        if agreed is None or agreed.ends_at <= now:
            return False
        fresh = agreed.at + _LAG_SECONDS > now
        asked = set(proposed)
        for node, uids in agreed.victims.items():
            if node in asked:
                continue
            left = [pod for uid in uids if (pod := seen_on(uid, node)) is not None]
            if (fresh or all(pod.deleting for pod in left)) if left else fits(node):
                if agreed.overtaken_at is None:
                    self._agreed[preemptor] = replace(agreed, overtaken_at=now)
                return True
        return False

    def awaited(self, preemptor: PodUid, seen_on: Callable[[PodUid, NodeName], Pod | None], now: Instant) -> bool:
        """Is a preemption of kube-scheduler's own under way for the pod: agreed to lately, or with victims on their way out?"""
        agreed = self._agreed.get(preemptor)
        if agreed is None or agreed.ends_at <= now:
            return False
        left = [pod for node, uids in agreed.victims.items() for uid in uids if (pod := seen_on(uid, node)) is not None]
        return bool(left) and (agreed.at + _LAG_SECONDS > now or any(pod.deleting for pod in left))

    def victims_on(self, preemptor: PodUid, node: NodeName, now: Instant) -> Sequence[PodUid]:
        """Whom it was agreed to evict there; nobody where nothing was."""
        agreed = self._agreed.get(preemptor)
        return () if agreed is None or agreed.ends_at <= now else agreed.victims.get(node, ())

    def forget(self, preemptor: PodUid) -> None:
        self._agreed.pop(preemptor, None)

    def expire(self, now: Instant) -> list[PodUid]:
        """Forgets what is over; answers the preemptors who learned that there are no victims and have waited long enough."""
        over = {
            uid: agreed
            for uid, agreed in self._agreed.items()
            if agreed.at + _KEPT_SECONDS <= now
            or (agreed.overtaken_at is not None and agreed.overtaken_at + _LAG_SECONDS <= now)
        }
        for uid in over:
            del self._agreed[uid]
        return [uid for uid, agreed in over.items() if agreed.overtaken_at is not None]

    def __len__(self) -> int:
        return len(self._agreed)
