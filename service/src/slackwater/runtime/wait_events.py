"""Announces by Kubernetes Events why pods that have been pending for some time wait and what would help. `kubectl describe pod`
shows the Events.

In: pods that changed, from the journal; answers of explain. Out: Events, a few a second. Pods with equal constraints share one
explanation. At most a tenth of the time is spent on explanations. No decision about a pod calls or awaits this module.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.lowlevel
import msgspec
import structlog

from slackwater.cluster.pods import PodTable
from slackwater.explain.events import note_of
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, PodUid
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import Kind
from slackwater.ports.clock import Clock
from slackwater.ports.protocols import Explain, NothingThere, WhatIfRefused

_log = structlog.get_logger(__name__)

#: The reason of the Events; the same as that of the pod's condition PodScheduled.
REASON: Final = "Unschedulable"

#: What pods have to have in common to share an explanation: their constraints and their priority.
_Alike = tuple[Kind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEventsPolicy:
    """Limits of the Events on waiting pods.

    The loop runs every `look_seconds`; each time it sends at most `events` Events, and reads changed pods in `slices` slices
    of at most `changes` pods. `again_seconds`: the time until a pod's next Event. `fresh_seconds`: how long an explanation is
    used for other pods with the same constraints. `rest`: the pause before the next explanation, as a multiple of the time that
    the last one took. `retry_seconds`: the pause of a pod whose explanation was refused. `most_kept`: the most explanations
    kept.
    """

    events: int = 5
    look_seconds: float = 1.0
    again_seconds: float = 600.0
    fresh_seconds: float = 60.0
    rest: float = 9.0
    retry_seconds: float = 10.0
    slices: int = 4
    changes: int = 1000
    most_kept: int = 1000


class WaitEvents:
    """Announces on pending pods why they wait. `after_seconds`: how long a pod waits before its first Event. `only_of`: the
    name of the scheduler whose pods are followed; None for all pods.
    """

    def __init__(
        self,
        pods: PodTable,
        explain: Explain,
        submit: Callable[[Iterable[Announce]], None],
        *,
        clock: Clock,
        after_seconds: float,
        only_of: str | None = None,
        policy: WaitEventsPolicy | None = None,
    ) -> None:
        self._pods = pods
        self._explain = explain
        self._submit = submit
        self._clock = clock
        self._after_seconds = after_seconds
        self._only_of = only_of
        self._policy = policy or WaitEventsPolicy()
        self._changed: set[PodUid] = set()
        self._unread: list[PodUid] = []
        #: When each waiting pod is due; `_heap` has the same times in order. An entry of `_heap` that differs is outdated.
        self._due: dict[PodUid, Instant] = {}
        self._heap: list[tuple[Instant, PodUid]] = []
        self._notes: OrderedDict[_Alike, tuple[Instant, str | None]] = OrderedDict()
        self._explaining_again_at = Instant(0.0)

    async def run(self) -> None:
        """Follows the pods and announces on those that wait, until cancelled."""
        self._unread = [pod.uid for pod in self._pods]
        self._pods.journal.add_reader(self._changed)
        try:
            while True:
                await anyio.sleep(self._policy.look_seconds)
                for _ in range(self._policy.slices):
                    self._read_changes()
                    await anyio.lowlevel.checkpoint()  # requests have their turn
                await self._announce()
        finally:
            self._pods.journal.remove_reader(self._changed)

    def _read_changes(self) -> None:
        for _ in range(self._policy.changes):
            if not self._unread:
                self._unread = sorted(self._changed)
                self._changed.clear()
                if not self._unread:
                    return
            uid = self._unread.pop()
            if self._waiting(uid) is None:
                self._due.pop(uid, None)
            elif uid not in self._due:
                self._put_off(uid, self._after_seconds)

    def _waiting(self, uid: PodUid) -> Pod | None:
        """The pod, if it is unschedulable and its scheduler is followed; otherwise None."""
        pod = self._pods.get(uid)
        if pod is None or pod.node is not None or pod.unschedulable_message is None or pod.ended or pod.deleting:
            return None
        return pod if self._only_of is None or pod.kind.scheduler_name == self._only_of else None

    def _put_off(self, uid: PodUid, seconds: float) -> None:
        at = self._due[uid] = Instant(self._clock() + seconds)
        heapq.heappush(self._heap, (at, uid))

    async def _announce(self) -> None:
        """Announces on the pods that are due, at most `events` of them; asks for one new explanation at most."""
        explained = False
        for _ in range(self._policy.events):
            pod = self._next()
            if pod is None:
                return
            note = self._fresh_note(pod)
            if note is None and (explained or self._clock() < self._explaining_again_at):
                self._put_off(pod.uid, 0.0)
                return
            if note is None:
                explained = True
                note = await self._explained(pod)
            if note is None:
                self._put_off(pod.uid, self._policy.retry_seconds)
                continue
            text = note[1]
            self._put_off(pod.uid, self._policy.fresh_seconds if text is None else self._policy.again_seconds)
            if text is not None:
                self._submit([Announce(pod.uid, pod.key, "Warning", REASON, text)])

    def _next(self) -> Pod | None:
        """The pod that has been due for longest; None if none is."""
        while self._heap and self._heap[0][0] <= self._clock():
            at, uid = heapq.heappop(self._heap)
            if self._due.get(uid) != at:
                continue
            if (pod := self._waiting(uid)) is not None:
                return pod
            del self._due[uid]
        return None

    def _fresh_note(self, pod: Pod) -> tuple[Instant, str | None] | None:
        note = self._notes.get((pod.kind, pod.priority))
        return note if note is not None and self._clock() - note[0] < self._policy.fresh_seconds else None

    async def _explained(self, pod: Pod) -> tuple[Instant, str | None] | None:
        """Explains the pod, and keeps the text for pods with the same constraints. Returns when the explanation was made and
        its text (None: there is nothing to say). Returns None if the question was refused, which may be repeated later."""
        began = self._clock()
        text: str | None = None
        try:
            answer = await self._explain("pod", pod.key.namespace, pod.key.name)
            text = note_of(msgspec.json.decode(answer))
        except NothingThere:
            pass
        except WhatIfRefused as refused:
            _log.debug("pod not explained yet", pod=str(pod.key), detail=str(refused))
            return None
        except Exception:  # a pod that cannot be explained must not end the service
            _log.exception("pod not explained", pod=str(pod.key))
        finally:
            self._explaining_again_at = Instant(self._clock() + self._policy.rest * (self._clock() - began))
        note = self._notes[pod.kind, pod.priority] = (self._clock(), text)
        self._notes.move_to_end((pod.kind, pod.priority))
        if len(self._notes) > self._policy.most_kept:
            self._notes.popitem(last=False)
        return note
