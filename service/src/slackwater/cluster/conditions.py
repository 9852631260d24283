"""What the condition PodScheduled says: in-tree filters refused the pod, unless the condition reports our own refusal."""

from slackwater.cluster.event_counts import EventCounts
from slackwater.model.ids import PodUid
from slackwater.model.objects import Pod


class Conditions:
    """The pods that filter refused, whose next new condition is therefore ours."""

    def __init__(self, event_counts: EventCounts) -> None:
        self._event_counts = event_counts
        self._refused_by_us: set[PodUid] = set()

    def judged(self, uid: PodUid, *, refused: bool) -> None:
        """Notes filter's answer for the pod."""
        if refused:
            self._refused_by_us.add(uid)
        else:
            self._refused_by_us.discard(uid)

    def forget(self, uid: PodUid) -> None:
        self._refused_by_us.discard(uid)

    def told(self, before: Pod | None, pod: Pod) -> bool:
        """Whether the pod's condition reports a newly failed attempt. Counts the attempt if in-tree filters ended it."""
        message = pod.unschedulable_message
        if message is None or (before is not None and before.unschedulable_message == message):
            return False
        if pod.uid in self._refused_by_us:
            self._refused_by_us.discard(pod.uid)
        else:
            self._event_counts.attempts += 1
            self._event_counts.failures += 1
            self._event_counts.failures_in_tree += 1
        return True
