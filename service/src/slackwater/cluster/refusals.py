"""What was refused to pods that are not bound yet, and when they are to be tried again.

- `UnschedulablePods`: the refusals of filter, until the pod is feasible, bound or gone. kube-scheduler retries pods on the
  events that it sees, not on ours, so we activate them.
- `Conditions`: whether a pod's new condition reports our refusal or that of in-tree filters.
- `BindBackoff`: after a denied bind, the pod's next filter calls leave the node out. Otherwise kube-scheduler would choose the
  same node again and again. If a bind was denied for lack of room, its back-off ends as soon as room appears on the node.

Invariant: each refusal is activated at most once. The activation leads to a new filter call, which may refuse again.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from slackwater.cluster.event_counts import EventCounts
from slackwater.cluster.nodes import NodeTable
from slackwater.model.effects import Activate, Effect
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Pod

#: How far our watch usually lags behind kube-scheduler's. Room that appears later than that reaches kube-scheduler after the
#: refusal.
_LAG_SECONDS: Final = 2.0
#: The time after which kube-scheduler has tried the pod again if it saw the room: it backs pods off for ten seconds at most.
_OWN_SECONDS: Final = 12.0
#: The most refusals checked in one tick; the others follow in the next ticks.
_MOST_PER_TICK: Final = 8


@dataclass(frozen=True, slots=True)
class _UnschedulablePod:
    pod: Pod
    held: bool
    at: Instant


class UnschedulablePods:
    """The refusals by pod, until the pod is feasible, bound or gone. Oldest first.

    Three causes free room without an event that makes kube-scheduler retry: a hold that ends unused; a change of configuration;
    and room whose watch event reached kube-scheduler before it reached us. In the last case kube-scheduler has used up the
    event: it asked again, and we refused from our older state.

    Room that appears within seconds of a refusal activates the pod at once. Our watch may lag by any time, so every other
    refusal is checked again from time to time (`runtime.flows.activation`).
    """

    def __init__(self) -> None:
        self._refused: dict[PodUid, _UnschedulablePod] = {}
        #: When each refusal is checked, the earliest first. Refusals that ended stay here until that time.
        self._looks: deque[tuple[Instant, _UnschedulablePod]] = deque()

    def note(self, pod: Pod, *, held: bool, now: Instant) -> None:
        """Notes a refusal. `held`: some node had no room only because of holds."""
        self._refused.pop(pod.uid, None)
        refusal = self._refused[pod.uid] = _UnschedulablePod(pod, held, now)
        self._looks.append((Instant(now + _OWN_SECONDS), refusal))

    def forget(self, uid: PodUid) -> None:
        self._refused.pop(uid, None)

    def activate_held(self) -> list[Effect]:
        """Activates pods refused because of holds, after a hold ended unused."""
        return self.activate([uid for uid, refusal in self._refused.items() if refusal.held], "hold-ended")

    def activate_recent(self, now: Instant) -> list[Effect]:
        """Activates the pods that were refused within the last `_LAG_SECONDS`, because room or a node appeared."""
        recent = []
        for uid, refusal in reversed(self._refused.items()):
            if refusal.at + _LAG_SECONDS < now:
                break
            recent.append(uid)
        return self.activate(recent, "room-appeared")

    def overdue(self, now: Instant) -> list[Pod]:
        """The refused pods whose check is due, because kube-scheduler has not tried them again by itself. Each is due every 12
        s; a call returns only a few."""
        found: list[Pod] = []
        while self._looks and self._looks[0][0] <= now and len(found) < _MOST_PER_TICK:
            _, refusal = self._looks.popleft()
            if self._refused.get(refusal.pod.uid) is refusal:
                found.append(refusal.pod)
                self._looks.append((Instant(now + _OWN_SECONDS), refusal))
        return found

    def activate_all(self) -> list[Effect]:
        """Activates all refused pods, after the settings changed."""
        return self.activate(list(self._refused), "settings-changed")

    def activate(self, uids: list[PodUid], why: str) -> list[Effect]:
        """Activates these refused pods, for the reason `why`."""
        woken = [self._refused.pop(uid).pod for uid in uids]
        return [Activate(pod.uid, pod.key, why) for pod in woken]

    def __len__(self) -> int:
        return len(self._refused)


class Conditions:
    """Decides which refusal a pod's new condition PodScheduled reports: ours, or that of kube-scheduler's own filters.

    For a pod that filter refused, the next new condition reports our refusal; every other condition reports in-tree filters.
    """

    def __init__(self, event_counts: EventCounts) -> None:
        self._event_counts = event_counts
        self._refused_by_us: set[PodUid] = set()

    def judged(self, uid: PodUid, *, refused: bool) -> None:
        """Notes whether filter refused the pod."""
        if refused:
            self._refused_by_us.add(uid)
        else:
            self._refused_by_us.discard(uid)

    def forget(self, uid: PodUid) -> None:
        self._refused_by_us.discard(uid)

    def newly_failed(self, before: Pod | None, pod: Pod) -> bool:
        """Whether the pod's condition reports a newly failed attempt. If in-tree filters ended the attempt, it is added to
        `EventCounts`: filter was not called for it."""
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


@dataclass(frozen=True, slots=True)
class Denial:
    """A denied bind. `room_version` is that of the node at the time, or None if the bind was not denied for lack of room."""

    room_version: int | None
    deadline: Instant


class BindBackoff:
    """The denied binds of each pod by node, until their back-off ends."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._bind_backoff: dict[PodUid, dict[NodeName, Denial]] = {}

    def add(self, uid: PodUid, node: NodeName, *, for_room: bool, deadline: Instant) -> None:
        row = self._nodes.row_of.get(node)
        version = int(self._nodes.room_version[row]) if for_room and row is not None else None
        self._bind_backoff.setdefault(uid, {})[node] = Denial(version, deadline)

    def has(self, uid: PodUid) -> bool:
        """Whether a bind of the pod was denied and is not forgotten yet."""
        return uid in self._bind_backoff

    def nodes_denied(self, uid: PodUid, now: Instant, *, forget: bool = True) -> list[NodeName]:
        """The nodes that filter leaves out for the pod now. With `forget`, back-offs that ended are forgotten."""
        denied = self._bind_backoff.get(uid)
        if denied is None:
            return []
        still = {node: denial for node, denial in denied.items() if not self._ended(node, denial, now)}
        if forget and still:
            self._bind_backoff[uid] = still
        elif forget:
            del self._bind_backoff[uid]
        return list(still)

    def _ended(self, node: NodeName, denial: Denial, now: Instant) -> bool:
        if denial.deadline <= now:
            return True
        row = self._nodes.row_of.get(node)
        return row is None or (denial.room_version is not None and denial.room_version != self._nodes.room_version[row])

    def forget(self, uid: PodUid) -> None:
        self._bind_backoff.pop(uid, None)

    def expire(self, now: Instant) -> list[PodUid]:
        """Forgets back-offs that ended; returns the pods for which filter offers a node again."""
        before = {uid: len(denied) for uid, denied in self._bind_backoff.items()}
        return [uid for uid, count in before.items() if len(self.nodes_denied(uid, now)) < count]

    def left(self, now: Instant) -> list[tuple[PodUid, NodeName, float, bool]]:
        """Each back-off, as (pod, node, seconds that are left at most, whether the bind was denied for lack of room)."""
        return [
            (uid, node, denial.deadline - now, denial.room_version is not None)
            for uid, denied in self._bind_backoff.items()
            for node, denial in denied.items()
            if not self._ended(node, denial, now)
        ]

    def __len__(self) -> int:
        return sum(len(denied) for denied in self._bind_backoff.values())
