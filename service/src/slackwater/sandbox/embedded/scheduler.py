"""Implements a scheduler that calls an extender in the same order as kube-scheduler 1.36: one pod at a time, while binds run
concurrently with the next scheduling cycle.

    own filters on a sample of nodes -> filter -> prioritize, if more than one node is left -> bind
    if no node is left:  choose victims by own rules -> preempt -> delete the victims, nominate the pod

The scheduler observes changes of the cluster `lag` seconds late. It has no scores of its own, and chooses among nodes with
equal extender scores at random.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from slackwater.adapters.api_calls import MERGE_PATCH, STRATEGIC_PATCH
from slackwater.sandbox.embedded.extender_client import Ask, ExtenderClient, ExtenderError
from slackwater.sandbox.embedded.kinds import NODES, PODS, ResourceKind
from slackwater.sandbox.embedded.queue import (
    NodeObservation,
    PodObservation,
    SchedulingQueue,
    allows,
    has_room,
    node_observation,
    pod_observation,
)
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change, Key
from slackwater.sandbox.embedded.timers import Timers

#: After how many seconds an assumed pod whose bind was not confirmed is forgotten.
_ASSUMED_SECONDS: Final = 900.0
#: The least number of feasible nodes that kube-scheduler searches for (its sample).
_LEAST_SAMPLE: Final = 100
#: The reason of a condition after an attempt that ended with an error, not with a rejection.
_ERROR: Final = "SchedulerError"
_CREATED: Final = 201
_NAME: Final = "slackwater"


class Scheduler:
    """Schedules the pods with schedulerName slackwater. `binds`: it binds by itself, otherwise by the extender's bind.
    Its own bind reaches the API server after `bind_delay()` seconds, even if the scheduler has ended by then. `rng` breaks
    ties."""

    def __init__(
        self,
        api: ApiServer,
        timers: Timers,
        ask: Ask,
        *,
        rng: Random,
        binds: bool = True,
        lag: Callable[[], float] = lambda: 0.0,
        bind_delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.extender = ExtenderClient(ask)
        self.attempts: dict[str, int] = {}  #: the number of scheduling cycles by UID
        self._api = api
        self._timers = timers
        self._rng = rng
        self._binds = binds
        self._lag = lag
        self._bind_delay = bind_delay
        self._followed_until = 0.0
        self._pods: dict[Key, PodObservation] = {}
        self._nodes: dict[str, NodeObservation] = {}
        self._on: dict[str, dict[str, PodObservation]] = {}  # by node, by UID
        self._assumed: dict[str, PodObservation] = {}
        self._nominated: dict[str, str] = {}  # by UID
        self._next_start = 0
        self._queue = SchedulingQueue(timers, self._priority_of)
        self._group: TaskGroup | None = None

    def _priority_of(self, key: Key) -> int:
        return self._pods[key].priority if key in self._pods else 0

    # --- observing --------------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Reads the whole cluster, and follows its changes from now on."""
        for kind in (NODES, PODS):
            for stored in self._api.store.all(kind):
                meta = stored.body["metadata"]
                self._follow_change(
                    kind, Change(stored.revision, "ADDED", (meta.get("namespace", ""), meta["name"]), stored, None)
                )
        self._api.store.on_change.append(self._on_change)

    def detach(self) -> None:
        self._api.store.on_change.remove(self._on_change)

    def _on_change(self, kind: ResourceKind, change: Change) -> None:
        if kind is not PODS and kind is not NODES:
            return
        lag = self._lag()
        if lag <= 0 and self._followed_until <= anyio.current_time():
            self._follow_change(kind, change)
            return
        # Changes are observed in their order, even if their lags differ.
        self._followed_until = max(self._followed_until, anyio.current_time() + lag)
        self._timers.after(self._followed_until - anyio.current_time(), lambda: self._follow_change(kind, change))

    def _follow_change(self, kind: ResourceKind, change: Change) -> None:
        if kind is NODES:
            name = change.key[1]
            if change.type == "DELETED":
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = node_observation(change.now)
            self._queue.move_all()
            return
        before = self._pods.pop(change.key, None)
        if before is not None and before.node:
            self._on.get(before.node, {}).pop(before.uid, None)
        pod = pod_observation(change.now)
        ended = change.now.body["status"].get("phase") in {"Succeeded", "Failed"}
        if change.type != "DELETED":
            self._pods[change.key] = pod
            if pod.node and not ended:
                self._on.setdefault(pod.node, {})[pod.uid] = pod
        self._requeue(change, before, pod)

    def _requeue(self, change: Change, before: PodObservation | None, pod: PodObservation) -> None:
        gone = change.type == "DELETED"
        if pod.node or gone or not pod.alive:
            self._assumed.pop(pod.uid, None)
            self._nominated.pop(pod.uid, None)
            self._queue.remove(change.key)
            if pod.node:
                self._queue.move_all()
            return
        if before is not None and before.uid != pod.uid:
            self._queue.remove(change.key)
        if self._waits(pod) and (before is None or before.uid != pod.uid or _matters_to_scheduling(change)):
            self._queue.add(change.key)

    def _waits(self, pod: PodObservation) -> bool:
        ours = pod.spec.get("schedulerName") == _NAME
        return ours and pod.alive and not pod.node and not pod.spec.get("schedulingGates") and pod.uid not in self._assumed

    # --- a cycle ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedules pods until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            while True:
                key = await self._queue.next()
                pod = self._pods.get(key)
                if pod is None or not self._waits(pod):
                    self._queue.remove(key)
                    continue
                self.attempts[pod.uid] = self.attempts.get(pod.uid, 0) + 1
                try:
                    await self._cycle(pod)
                except ExtenderError as error:
                    self._unschedulable(pod, _ERROR, str(error), nominated=None)

    async def _cycle(self, pod: PodObservation) -> None:
        nominated = self._nominated.get(pod.uid) or pod.nominated
        passed: list[str] = []
        resolvable: frozenset[str] = frozenset()
        if nominated in self._nodes and self._fits(pod, self._nodes[nominated]):
            passed = (await self.extender.filter(pod, [nominated])).passed
        if not passed:
            names, resolvable = self._sample(pod)
            if names:
                filtered = await self.extender.filter(pod, names)
                passed, resolvable = filtered.passed, resolvable | filtered.resolvable
        if not passed:
            await self._preempt(pod, resolvable)
            return
        node = passed[0]
        if len(passed) > 1:
            scores = await self.extender.prioritize(pod, passed)
            node = max(passed, key=lambda name: (scores.get(name, 0) * 10 + self._rng.randrange(100), name))
        self._bind(pod, node)

    def _sample(self, pod: PodObservation) -> tuple[list[str], frozenset[str]]:
        """The nodes that pass the scheduler's own filters, up to the size of the sample; and the nodes where preemption might
        help, because only room or anti-affinity rejects the pod."""
        names = sorted(self._nodes)
        share = max(50 - len(names) // 125, 5)
        wanted = max(_LEAST_SAMPLE, len(names) * share // 100)
        found: list[str] = []
        full: list[str] = []
        for at in range(len(names)):
            node = self._nodes[names[(self._next_start + at) % len(names)]]
            if not allows(pod, node):
                continue
            (found if self._fits(pod, node) else full).append(node.name)
            if len(found) == wanted:
                self._next_start = (self._next_start + at + 1) % len(names)
                break
        return found, frozenset(full)

    def _fits(self, pod: PodObservation, node: NodeObservation) -> bool:
        return allows(pod, node) and has_room(pod, node, self._there(node.name, pod))

    def _there(self, node: str, besides: PodObservation) -> list[PodObservation]:
        """The pods that count on a node when the pod `besides` is judged: bound and assumed ones, and nominated ones of the
        same or a higher priority."""
        bound = self._on.get(node, {})
        assumed = [p for uid, p in self._assumed.items() if p.node == node and uid not in bound]
        uids = {uid for uid, name in self._nominated.items() if name == node and uid != besides.uid}
        waiting = (p for p in self._pods.values() if p.uid in uids) if uids else ()
        coming = [p for p in waiting if p.priority >= besides.priority and not p.node]
        return [*bound.values(), *assumed, *coming]

    # --- bind -------------------------------------------------------------------------------------------------------------

    def _bind(self, pod: PodObservation, node: str) -> None:
        assert self._group is not None
        self._assumed[pod.uid] = replace(pod, node=node)
        self._timers.after(_ASSUMED_SECONDS, lambda: self._forget(pod))
        self._group.start_soon(self._binding, pod, node)

    async def _binding(self, pod: PodObservation, node: str) -> None:
        try:
            if self._binds:
                await self._bind_later(pod, node)
            else:
                await self.extender.bind(pod, node)
        except ExtenderError as error:
            self._forget(pod)
            known = self._pods.get(pod.key)
            if known is not None and self._waits(known):
                self._unschedulable(known, _ERROR, str(error), nominated=None)
            self._queue.move_all()

    async def _bind_later(self, pod: PodObservation, node: str) -> None:
        """Binds without the extender, after `bind_delay`. Raises `ExtenderError` if the API server refuses."""
        errors: list[ExtenderError] = []
        arrived = anyio.Event()

        def arrive() -> None:
            path = f"/api/v1/namespaces/{pod.key[0]}/pods/{pod.key[1]}/binding"
            binding = {"metadata": {"name": pod.key[1], "uid": pod.uid}, "target": {"kind": "Node", "name": node}}
            answer = self._api.request("POST", path, body=msgspec.json.encode(binding))
            if answer.status != _CREATED:
                errors.append(ExtenderError(f"bind: {answer.status}"))
            arrived.set()

        delay = self._bind_delay()
        if delay <= 0:
            arrive()
        else:
            self._timers.after(delay, arrive)
            await arrived.wait()
        if errors:
            raise errors[0]

    def _forget(self, pod: PodObservation) -> None:
        self._assumed.pop(pod.uid, None)

    # --- no feasible node -------------------------------------------------------------------------------------------------

    async def _preempt(self, pod: PodObservation, resolvable: Iterable[str]) -> None:
        proposed: dict[str, list[str]] = {}
        if pod.spec.get("preemptionPolicy") != "Never" and not self._victims_leave(pod):
            for name in sorted(resolvable):
                victims = self._victims(pod, name)
                if victims:
                    proposed[name] = [victim.uid for victim in victims]
        if proposed:
            proposed = await self.extender.preempt(pod, proposed)
        if not proposed:
            nominated = None if self._victims_leave(pod) else ""
            self._unschedulable(pod, "Unschedulable", self._why_nowhere(pod), nominated=nominated)
            return
        node = min(proposed, key=lambda name: (len(proposed[name]), name))
        for uid in proposed[node]:
            victim = self._on.get(node, {}).get(uid)
            if victim is not None:
                self._delete(victim, pod)
        self._nominated[pod.uid] = node
        self._unschedulable(pod, "Unschedulable", "preempted victims are leaving", nominated=node)

    def _why_nowhere(self, pod: PodObservation) -> str:
        """The message of the pod's condition in kube-scheduler's format: for each reason, how many nodes have it."""
        counts: Counter[str] = Counter()
        for node in self._nodes.values():
            there = self._there(node.name, pod)
            if not allows(pod, node):
                counts["node(s) didn't match Pod's node affinity/selector, or repel it"] += 1
                continue
            if sum(other.cpu for other in there) + pod.cpu > node.cpu:
                counts["Insufficient cpu"] += 1
            if sum(other.memory for other in there) + pod.memory > node.memory:
                counts["Insufficient memory"] += 1
        text = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        return f"0/{len(self._nodes)} nodes are available" + (f": {text}." if text else "")

    def _victims_leave(self, pod: PodObservation) -> bool:
        """Are victims of an earlier attempt still being deleted? Then no further ones are chosen."""
        node = self._nominated.get(pod.uid, "")
        return any(not p.alive and p.priority < pod.priority for p in self._on.get(node, {}).values())

    def _victims(self, pod: PodObservation, name: str) -> list[PodObservation]:
        """Chooses victims on a node: removes all pods of lower priority, then keeps those that fit beside the pod, the highest
        priority first. Empty if the pod does not fit even without all of them."""
        node = self._nodes.get(name)
        if node is None or not allows(pod, node):
            return []
        there = self._there(name, pod)
        staying = [p for p in there if p.priority >= pod.priority or not p.node or p.uid in self._assumed]
        if not has_room(pod, node, staying):
            return []
        victims: list[PodObservation] = []
        for candidate in sorted((p for p in there if p not in staying), key=lambda p: (-p.priority, p.uid)):
            if has_room(pod, node, [*staying, candidate]):
                staying.append(candidate)
            else:
                victims.append(candidate)
        return victims

    def _delete(self, victim: PodObservation, preemptor: PodObservation) -> None:
        path = f"/api/v1/namespaces/{victim.key[0]}/pods/{victim.key[1]}"
        message = f"{_NAME}: preempting to accommodate a higher priority pod {preemptor.uid}"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message}
        self._send("PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)
        self._send("DELETE", path, {"preconditions": {"uid": victim.uid}})

    def _unschedulable(self, pod: PodObservation, reason: str, message: str, *, nominated: str | None) -> None:
        """Writes the pod's condition and its nominated node: an empty `nominated` clears the nomination, None leaves it as it
        is. The pod backs off."""
        self._queue.failed(pod.key, error=reason == _ERROR)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        status: dict[str, Any] = {"conditions": [condition]}
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
            if not nominated:
                self._nominated.pop(pod.uid, None)
        path = f"/api/v1/namespaces/{pod.key[0]}/pods/{pod.key[1]}/status"
        self._send("PATCH", path, {"metadata": {"uid": pod.uid}, "status": status}, STRATEGIC_PATCH)

    def _send(self, method: str, path: str, body: Any, content_type: str = MERGE_PATCH) -> None:
        """Sends a write, and ignores errors, such as those about a pod that no longer exists or was replaced."""
        self._api.request(method, path, body=msgspec.json.encode(body), content_type=content_type)


def _matters_to_scheduling(change: Change) -> bool:
    """Has the pod changed in a way that may matter to scheduling: labels, annotations, spec or nominated node?"""
    if change.before is None:
        return True
    old, new = change.before.body, change.now.body
    parts = ("labels", "annotations")
    changed = any(old["metadata"].get(part) != new["metadata"].get(part) for part in parts) or old["spec"] != new["spec"]
    return changed or old["status"].get("nominatedNodeName") != new["status"].get("nominatedNodeName")
