"""The pods that exist, as the watch shows them, and pods that a filter call contained before the watch showed them."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from slackwater.cluster.journal import ChangeJournal
from slackwater.model.ids import Instant, NodeName, PodKey, PodUid
from slackwater.model.objects import Pod

#: How long a deleted pod is remembered as deleted. This is longer than any read of a pod can take: a read that was answered
#: before the deletion must not bring the pod back. UIDs are never reused, so remembering them too long does no harm.
_GONE_SECONDS: Final = 300.0
#: How long a pod that only a filter call contained counts as existing: the watch shows it within moments, or it is gone.
_FROM_FILTER_SECONDS: Final = 60.0


class Disruption(NamedTuple):
    """A pod whose condition DisruptionTarget was seen for the first time. `why` is as in `Pod.disruption`.

    It has copies of the pod's data, because the pod may be gone when a reader of the journal looks.
    """

    uid: PodUid
    key: PodKey
    node: NodeName | None
    why: str


class PodTable:
    """Pods by UID and by name; kept apart from these, the pods that only filter calls contained."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._uid_of: dict[PodKey, PodUid] = {}
        #: Deleted pods: when to forget the deletion, and whether a read (not the watch) showed it.
        self._gone: dict[PodUid, tuple[Instant, bool]] = {}
        self._from_filter: dict[PodUid, tuple[Pod, Instant]] = {}
        #: The UIDs of pods that were added, changed or removed.
        self.journal = ChangeJournal[PodUid]()
        #: Pods that somebody began to disrupt.
        self.disruptions = ChangeJournal[Disruption]()
        #: How many pods came without a node, and how often a pod's condition first said that it fits nowhere, by the pod's
        #: scheduler. The autoscaler plans again when the latter changes.
        self.came = 0
        self.became_stuck: Counter[str] = Counter()
        #: How many pods have each priority, which never changes.
        self.priorities: Counter[int] = Counter()
        #: Pods that are being deleted.
        self.leaving: set[PodUid] = set()
        #: How many pods have required anti-affinity.
        self.repelling = 0
        #: How many pods grow in place.
        self.vertical = 0

    def put(self, pod: Pod, *, read: bool = False) -> bool:
        """Stores the pod as its newest state. Returns False, and stores nothing, if a newer state is known or the pod is known
        to be gone.

        A read may have been answered before a deletion that the watch has shown, and the watch may lag behind a read that found
        nothing: neither brings a pod back. The watch may bring a pod back after its own deletion event, since it does so after
        a restore of etcd.
        """
        known = self._pods.get(pod.uid)
        gone = self._gone.get(pod.uid)
        if (gone is not None and (read or gone[1])) or (known is not None and known.resource_version > pod.resource_version):
            return False
        self._gone.pop(pod.uid, None)
        if pod.node is None:
            self.came += known is None
            if pod.unschedulable_message is not None and (known is None or known.unschedulable_message is None):
                self.became_stuck[pod.kind.scheduler_name] += 1
        if pod.disruption is not None and (known is None or known.disruption is None):
            self.disruptions.note(Disruption(pod.uid, pod.key, pod.node, pod.disruption))
        self._count(known, -1)
        self._count(pod, 1)
        self._pods[pod.uid] = pod
        (self.leaving.add if pod.deleting else self.leaving.discard)(pod.uid)
        self._uid_of[pod.key] = pod.uid
        self._from_filter.pop(pod.uid, None)
        self.journal.note(pod.uid)
        return True

    def note_from_filter(self, pod: Pod, now: Instant) -> None:
        """Notes a pod that a filter call contained; ignored if the watch has already shown it."""
        if pod.uid not in self._pods and pod.uid not in self._gone:
            self._from_filter.pop(pod.uid, None)
            self._from_filter[pod.uid] = (pod, Instant(now + _FROM_FILTER_SECONDS))

    def drop(self, uid: PodUid, key: PodKey, now: Instant, *, read: bool = False) -> Pod | None:
        """Removes a pod that is gone, as the watch or (with `read`) a read shows. Returns its last state, None if it was
        unknown."""
        self._gone.pop(uid, None)
        self._gone[uid] = (Instant(now + _GONE_SECONDS), read)
        self._from_filter.pop(uid, None)
        if self._uid_of.get(key) == uid:
            del self._uid_of[key]
        dropped = self._pods.pop(uid, None)
        self.leaving.discard(uid)
        self._count(dropped, -1)
        self.journal.note(uid)
        return dropped

    def _count(self, pod: Pod | None, change: int) -> None:
        if pod is not None:
            self.repelling += change * pod.kind.repels
            self.vertical += change * (pod.vertical is not None)
            self.priorities[pod.priority] += change
            if not self.priorities[pod.priority]:
                del self.priorities[pod.priority]

    def get(self, uid: PodUid) -> Pod | None:
        """The pod as the watch shows it; None if it does not."""
        return self._pods.get(uid)

    def known(self, uid: PodUid) -> Pod | None:
        """The pod as the watch shows it, or else as a filter call contained it; None if neither."""
        pod = self._pods.get(uid)
        if pod is None:
            known_from_filter = self._from_filter.get(uid)
            pod = known_from_filter[0] if known_from_filter else None
        return pod

    def is_gone(self, uid: PodUid) -> bool:
        return uid in self._gone

    def by_key(self, key: PodKey) -> Pod | None:
        uid = self._uid_of.get(key)
        return None if uid is None else self._pods.get(uid)

    def keys(self) -> list[PodKey]:
        """The keys of all pods."""
        return list(self._uid_of)

    def expire(self, now: Instant) -> list[PodUid]:
        """Forgets pods that are long gone. Returns the pods that only filter calls contained and that no longer count as
        existing."""
        # Both tables are in order of time, since all entries of one table live equally long.
        while self._gone and self._gone[first := next(iter(self._gone))][0] <= now:
            del self._gone[first]
        expired = []
        while self._from_filter and self._from_filter[first := next(iter(self._from_filter))][1] <= now:
            del self._from_filter[first]
            expired.append(first)
        return expired

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._pods.values())

    def __len__(self) -> int:
        return len(self._pods)
