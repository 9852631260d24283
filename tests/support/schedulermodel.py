"""A model of kube-scheduler beside one state machine on virtual time: what a rule about room costs in seconds and refusals.

Cycles are serial and binds run beside them. The scheduler assumes a pod on its node by its requests from the cycle on, as
kube-scheduler does. It scores by LeastAllocated and by our prioritize. Deliberately absent: sampling, preemption, priorities.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.controllers.policy import Policy
from slackwater.model.columns import OK, Rows
from slackwater.model.effects import Activate, Effect, ReadPod
from slackwater.model.events import BindEnded, NodeSeen, PodRead, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant, NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.reasons import Reason
from slackwater.runtime.state_machine import StateMachine
from tests.support.invariants import violations

_CYCLE_SECONDS: Final = 0.01
_WRITE_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 1.0
#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_FIRST_BACKOFF_SECONDS: Final = 1.0
_LONGEST_BACKOFF_SECONDS: Final = 10.0


@dataclass(slots=True, kw_only=True)
class Job:
    """A pod that waits for a place. `volume_seconds` pass between its cycle and its bind. Where it `fails`, the cycle ends then
    without a bind, and the pod is tried again."""

    pod: Pod
    volume_seconds: float = 0.0
    fails: bool = False
    attempts: int = 0
    refused: int = 0
    queued: bool = False
    moved: bool = False
    ready_at: float = 0.0
    bound_at: float | None = None


class SchedulerModel:
    """`over_total`: nodes that were promised more than their Total at some moment. `denied`: binds that were refused."""

    def __init__(self, policy: Policy, *, seed: int = 1) -> None:
        self.state_machine = StateMachine(policy)
        self.now = 0.0
        self.denied = 0
        self.over_total: set[str] = set()
        self.jobs: dict[PodUid, Job] = {}
        self._nodes: dict[str, Node] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._assumed: dict[PodUid, str] = {}
        self._dormant: dict[PodUid, None] = {}
        self._queue: list[Job] = []
        self._rng = np.random.default_rng(seed)

    @property
    def at(self) -> Instant:
        return Instant(self.now)

    def begin(self, nodes: Iterable[Node], placed: Iterable[Pod] = ()) -> None:
        for node in nodes:
            self._nodes[node.name] = node
            self._apply(NodeSeen(node))
        for pod in placed:
            self._apply(PodSeen(pod))
        self._names = tuple(self._nodes)
        self._rows = self.state_machine.state.nodes.rows_of(self._names)
        self._free = np.array([self._nodes[name].allocatable for name in self._names], np.int64).T.copy()
        self._capacity = self._free.copy()
        for pod in placed:
            assert pod.node is not None
            self._take(pod, pod.node)
        self._apply(Synced())
        self._after(_TICK_SECONDS, self._tick)
        self._after(_CYCLE_SECONDS, self._cycle)

    def comes(self, job: Job, *, after: float = 0.0) -> Job:
        def come() -> None:
            self.jobs[job.pod.uid] = job
            self._apply(PodSeen(job.pod))
            self._enqueue(job)

        self._after(after, come)
        return job

    def run(self, seconds: float) -> None:
        """Until nobody waits for a place any more, so long at most."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, act = heapq.heappop(self._due)
            act()
            if self.jobs and all(job.bound_at is not None for job in self.jobs.values()):
                return
        self.now = end

    # --- the API server and our service ----------------------------------------------------------------------------------

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), act))

    def _apply(self, event: NodeSeen | PodSeen | PodRead | BindEnded | Synced | TimePassed) -> None:
        self._carry_out(self.state_machine.apply(event, self.at))
        columns = self.state_machine.state.ledger.columns
        for row in np.flatnonzero((columns.reserved > columns.total).any(axis=0)).tolist():
            node = self.state_machine.state.nodes.by_row[row]
            self.over_total.add("" if node is None else node.name)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Activate) and effect.uid in self.jobs:
                self._after(_WRITE_SECONDS, partial(self._move, effect.uid))
            elif isinstance(effect, ReadPod) and effect.uid in self.jobs:
                self._after(_WRITE_SECONDS, partial(self._read, effect.uid))

    def _read(self, uid: PodUid) -> None:
        self._apply(PodRead(self.jobs[uid].pod))

    def _tick(self) -> None:
        self._apply(TimePassed())
        assert violations(self.state_machine) == []
        self._after(_TICK_SECONDS, self._tick)

    # --- kube-scheduler ---------------------------------------------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        if not job.queued and job.bound_at is None and job.pod.uid not in self._assumed:
            self._dormant.pop(job.pod.uid, None)
            job.queued = True
            self._queue.append(job)

    def _move(self, uid: PodUid) -> None:
        """Something changed for the pod: it is tried when it has backed off."""
        job = self.jobs[uid]
        job.moved = True
        if uid in self._dormant:
            del self._dormant[uid]
            self._after(max(0.0, job.ready_at - self.now), lambda: self._enqueue(job))

    def _failed(self, job: Job, *, dormant: bool) -> None:
        self._forget(job.pod.uid)
        seconds = min(_FIRST_BACKOFF_SECONDS * 2 ** min(job.attempts - 1, 9), _LONGEST_BACKOFF_SECONDS)
        job.ready_at = self.now + seconds
        if dormant and not job.moved:
            self._dormant[job.pod.uid] = None
        else:
            self._after(seconds, lambda: self._enqueue(job))

    def _cycle(self) -> None:
        if self._queue:
            job = self._queue.pop(0)
            job.queued, job.moved = False, False
            job.attempts += 1
            self._try(job)
        self._after(_CYCLE_SECONDS, self._cycle)

    def _try(self, job: Job) -> None:
        want = np.array(job.pod.kind.requests, np.int64)
        fits = np.flatnonzero((self._free >= want[:, None]).all(axis=0))
        passed = fits
        if len(fits):
            passed = fits[self.state_machine.filter(job.pod, self._rows[fits], self.at) == OK]
        if not len(passed):
            job.refused += bool(len(fits))
            self._failed(job, dormant=True)
            return
        node = self._names[self._best(job.pod, passed)]
        self._assumed[job.pod.uid] = node
        self._take(job.pod, node)
        if job.fails:
            self._after(job.volume_seconds, lambda: self._failed(job, dormant=False))
        else:
            self._after(job.volume_seconds, lambda: self._bind(job, node))

    def _best(self, pod: Pod, passed: Rows) -> int:
        if len(passed) == 1:
            return int(passed[0])
        after = self._free[:, passed] - np.array(pod.kind.requests, np.int64)[:, None]
        score = (100 * after / self._capacity[:, passed]).mean(axis=0).astype(np.int64)
        score += 10 * self.state_machine.prioritize(pod, self._rows[passed], self.at)
        best = passed[score == score.max()]
        return int(self._rng.choice(best))

    def _take(self, pod: Pod, node: str, sign: int = 1) -> None:
        self._free[:, self._names.index(node)] -= sign * np.array(pod.kind.requests, np.int64)

    def _forget(self, uid: PodUid) -> None:
        node = self._assumed.pop(uid, None)
        if node is not None:
            self._take(self.jobs[uid].pod, node, -1)

    def _bind(self, job: Job, node: str) -> None:
        if self.state_machine.policy.bind:
            answer = self.state_machine.bind(job.pod.uid, job.pod.key, NodeName(node), self.at)
            if answer.reason is not Reason.OK:
                self.denied += 1
                self._failed(job, dormant=False)
                return
        self._after(_WRITE_SECONDS, lambda: self._bound(job, node))

    def _bound(self, job: Job, node: str) -> None:
        job.pod = structs.replace(job.pod, node=NodeName(node), resource_version=job.pod.resource_version + 1)
        job.bound_at = self.now
        del self._assumed[job.pod.uid]  # it counts there for good
        if self.state_machine.policy.bind:
            self._apply(BindEnded(job.pod.uid, NodeName(node), "bound", ""))
        self._apply(PodSeen(job.pod))
        for uid in list(self._dormant):  # an assigned pod wakes whom an extender refused
            self._move(uid)
