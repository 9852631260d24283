"""Implements the embedded scheduler's queue, its view of pods and nodes, and its own filters.

The queue has active pods, pods in back-off, and unschedulable pods. The filters are those that most pods need: cordons, taints,
node selectors, anti-affinity to pods on the same host, CPU, memory and the number of pods. There are no other plug-ins of
kube-scheduler, and no scores.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

import anyio

from slackwater.model.exponential_backoff import ExponentialBackoff
from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import selects
from slackwater.sandbox.embedded.store import Key, StoredObject
from slackwater.sandbox.embedded.timers import Timers
from slackwater_protocol.units import byte_count, milli_cpu

#: kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds.
_BACKOFF: Final = ExponentialBackoff(first_seconds=1.0, longest_seconds=10.0)
#: After how many seconds an unschedulable pod is tried again although nothing has changed.
_FORGOTTEN_SECONDS: Final = 300.0


@dataclass(slots=True)
class _Waiting:
    """A pod in the queue. `number`: its place in the order of arrival. `until`: the end of its back-off. `dormant`: it is
    unschedulable until the cluster changes. `busy`: it is being scheduled."""

    number: int
    attempts: int = 0
    until: float = 0.0
    dormant: bool = False
    busy: bool = False
    moved: bool = False  #: the cluster changed during its last scheduling attempt


class SchedulingQueue:
    """The queue of pending pods, by key. `priority_of` returns the priority of the pod with a key."""

    def __init__(self, timers: Timers, priority_of: Callable[[Key], int]) -> None:
        self._timers = timers
        self._priority_of = priority_of
        self._pods: dict[Key, _Waiting] = {}
        self._numbers = count()
        self._woken = anyio.Event()

    def add(self, key: Key) -> None:
        """Adds the pod to the queue; if it is in the queue already, activates it."""
        if key not in self._pods:
            self._pods[key] = _Waiting(next(self._numbers))
        else:
            self._move(self._pods[key])
        self._wake()

    def remove(self, key: Key) -> None:
        self._pods.pop(key, None)

    def move_all(self) -> None:
        """Activates all unschedulable pods, because the cluster has changed. They are tried again after their back-off."""
        for waiting in self._pods.values():
            self._move(waiting)
        self._wake()

    def _move(self, waiting: _Waiting) -> None:
        waiting.dormant = False
        waiting.moved = True

    def failed(self, key: Key, *, error: bool = False) -> None:
        """Starts the pod's back-off after a failed attempt. The pod is unschedulable, unless the cluster has changed during the
        attempt, or the attempt ended with an error: kube-scheduler tries a pod that no plug-in rejected again by itself."""
        waiting = self._pods.get(key)
        if waiting is None:
            return
        waiting.attempts += 1
        seconds = _BACKOFF.seconds(waiting.attempts)
        waiting.until = anyio.current_time() + seconds
        waiting.busy, waiting.dormant = False, not (waiting.moved or error)
        number = waiting.number
        self._timers.after(seconds, self._wake)
        self._timers.after(_FORGOTTEN_SECONDS, lambda: self._remembered(key, number))

    def _remembered(self, key: Key, number: int) -> None:
        waiting = self._pods.get(key)
        if waiting is not None and waiting.number == number:
            waiting.dormant = False
            self._wake()

    def _wake(self) -> None:
        self._woken.set()

    async def next(self) -> Key:
        """Waits for the next pod to schedule and returns its key. The pod is in progress until `failed` or `remove`."""
        while True:
            now = anyio.current_time()
            ready = [
                (-self._priority_of(key), waiting.number, key)
                for key, waiting in self._pods.items()
                if not waiting.busy and not waiting.dormant and waiting.until <= now
            ]
            if ready:
                key = min(ready)[2]
                self._pods[key].busy, self._pods[key].moved = True, False
                return key
            self._woken = anyio.Event()
            await self._woken.wait()


_KUBELETS_PODS: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """A pod as the scheduler has observed it. `cpu` (milliCPU) and `memory` (bytes) are its requests. `node` and `nominated`
    are empty if there is no such node."""

    key: Key
    uid: str
    raw: bytes
    labels: Mapping[str, str]
    spec: Json
    cpu: int
    memory: int
    priority: int
    node: str
    nominated: str
    alive: bool  #: neither ended nor being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeObservation:
    """A node as the scheduler has observed it, with its allocatable amounts (milliCPU, bytes, number of pods)."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Json, ...]
    unschedulable: bool
    cpu: int
    memory: int
    pods: int


def pod_observation(stored: StoredObject) -> PodObservation:
    body = stored.body
    meta, spec, status = body["metadata"], body["spec"], body["status"]
    cpu, memory = _requests(spec, status)
    return PodObservation(
        key=(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        raw=stored.raw,
        labels=meta.get("labels") or {},
        spec=spec,
        cpu=cpu,
        memory=memory,
        priority=spec.get("priority") or 0,
        node=spec.get("nodeName") or "",
        nominated=status.get("nominatedNodeName") or "",
        alive=status.get("phase") not in {"Succeeded", "Failed"} and "deletionTimestamp" not in meta,
    )


def node_observation(stored: StoredObject) -> NodeObservation:
    meta, spec, status = stored.body["metadata"], stored.body["spec"], stored.body["status"]
    amounts = status.get("allocatable") or status.get("capacity") or {}
    return NodeObservation(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        cpu=milli_cpu(str(amounts.get("cpu", "0"))),
        memory=byte_count(str(amounts.get("memory", "0"))),
        pods=int(amounts.get("pods", _KUBELETS_PODS)),
    )


def _requests(spec: Json, status: Json) -> tuple[int, int]:
    granted = {s["name"]: s.get("allocatedResources") or {} for s in status.get("containerStatuses") or ()}
    asked = [_amounts((c.get("resources") or {}).get("requests") or {}) for c in spec["containers"]]
    given = [_amounts(granted.get(c["name"], {})) for c in spec["containers"]]
    apps = [(max(a[0], g[0]), max(a[1], g[1])) for a, g in zip(asked, given, strict=True)]
    inits = [_amounts((c.get("resources") or {}).get("requests") or {}) for c in spec.get("initContainers") or ()]
    sums = (sum(cpu for cpu, _ in apps), sum(memory for _, memory in apps))
    return max([sums[0], *(cpu for cpu, _ in inits)]), max([sums[1], *(memory for _, memory in inits)])


def _amounts(requests: Mapping[str, object]) -> tuple[int, int]:
    return milli_cpu(str(requests.get("cpu", "0"))), byte_count(str(requests.get("memory", "0")))


def allows(pod: PodObservation, node: NodeObservation) -> bool:
    """Does the node admit the pod, room and anti-affinity aside? If not, preemption would not help."""
    tolerations = pod.spec.get("tolerations") or ()
    if node.unschedulable and not _tolerates(tolerations, "node.kubernetes.io/unschedulable", "", "NoSchedule"):
        return False
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not _tolerates(
            tolerations, taint["key"], taint.get("value", ""), taint["effect"]
        ):
            return False
    return all(node.labels.get(name) == value for name, value in (pod.spec.get("nodeSelector") or {}).items())


def _tolerates(tolerations: Iterable[Json], key: str, value: str, effect: str) -> bool:
    return any(
        t.get("key", key) == key
        and t.get("effect", effect) == effect
        and (t.get("operator") == "Exists" or t.get("value", "") == value)
        for t in tolerations
    )


def has_room(pod: PodObservation, node: NodeObservation, there: Iterable[PodObservation]) -> bool:
    """Does the node have room for the pod in addition to the pods `there`, and does no anti-affinity separate them?"""
    found = list(there)
    return (
        sum(p.cpu for p in found) + pod.cpu <= node.cpu
        and sum(p.memory for p in found) + pod.memory <= node.memory
        and len(found) < node.pods
        and not any(_repels(pod, other) or _repels(other, pod) for other in found if _has_affinity(pod) or _has_affinity(other))
    )


def _has_affinity(pod: PodObservation) -> bool:
    return "affinity" in pod.spec


def _repels(pod: PodObservation, other: PodObservation) -> bool:
    """Does the required anti-affinity of `pod` exclude `other`? Every topology key is treated as the host name."""
    affinity = ((pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return pod.key[0] == other.key[0] and any(selects(term.get("labelSelector"), dict(other.labels)) for term in affinity or ())
