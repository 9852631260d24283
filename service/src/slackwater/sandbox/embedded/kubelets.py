"""Simulates the kubelets' effects on API objects: nodes become ready; pods start, end, are resized and, once deleted, removed.

Each step takes some time. There are no containers, and no node refuses a resize.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from slackwater.sandbox.embedded.admission import rfc3339
from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import NODES, PODS, ResourceKind
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change, Key
from slackwater.sandbox.embedded.timers import Timers

#: The annotation that says after how many seconds a running pod succeeds.
RUNS_FOR: Final = "sandbox.slackwater.dev/runs-for"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDelays:
    """How many seconds each step takes; each time is multiplied by a random factor from 0.5 to 1.5."""

    start: float = 0.2
    stop: float = 0.2
    boot: float = 0.5
    resize: float = 0.1


class Kubelets:
    """Simulates the kubelets of all nodes. Follows the changes of the store, and writes by requests to the API server."""

    def __init__(
        self,
        api: ApiServer,
        timers: Timers,
        *,
        rng: Random,
        wall: Callable[[], float],
        kubelet_delays: KubeletDelays = KubeletDelays(),
    ) -> None:
        self._api = api
        self._timers = timers
        self._rng = rng
        self._wall = wall
        self._kubelet_delays = kubelet_delays
        self._ending: set[str] = set()
        api.store.on_change.append(self._on_change)

    def _on_change(self, kind: ResourceKind, change: Change) -> None:
        if kind is PODS:
            self._pod_changed(change)
        elif kind is NODES and change.type == "ADDED":
            self._after(self._kubelet_delays.boot, lambda: self._boot(change.key))
        elif kind is NODES and change.type == "MODIFIED":
            if _NOT_READY in _taints(change.before) and _NOT_READY not in _taints(change.now):
                self._after(self._kubelet_delays.boot, lambda: self._boot(change.key))
        elif kind is NODES:
            self._collect(change.key[1])

    def _pod_changed(self, change: Change) -> None:
        body = change.now.body
        if change.type == "DELETED":
            self._ending.discard(body["metadata"]["uid"])
            return
        uid, node = body["metadata"]["uid"], body["spec"].get("nodeName")
        if not node:
            return
        if "deletionTimestamp" in body["metadata"]:
            if uid not in self._ending:
                self._ending.add(uid)
                left = min(body["metadata"]["deletionGracePeriodSeconds"], self._kubelet_delays.stop)
                self._after(left, lambda: self._gone(change.key, uid))
        elif change.before is None or not change.before.body["spec"].get("nodeName"):
            self._after(self._kubelet_delays.start, lambda: self._start(change.key, uid))
        elif body["spec"] != change.before.body["spec"] and body["status"].get("phase") == "Running":
            self._after(self._kubelet_delays.resize, lambda: self._resize(change.key, uid))

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._timers.after(seconds * self._rng.uniform(0.5, 1.5), act)

    # --- steps ------------------------------------------------------------------------------------------------------------

    def _boot(self, key: Key) -> None:
        node = self._api.store.find(NODES, key)
        if node is None or _NOT_READY in _taints(node):
            return
        now = rfc3339(self._wall())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now}
        self._api.merge(f"/api/v1/nodes/{key[1]}/status", {"status": {"conditions": [ready]}})

    def _collect(self, node: str) -> None:
        """Deletes the pods of a node that no longer exists, as the pod garbage collector does."""
        lost = [s.body["metadata"] for s in self._api.store.each(PODS) if s.body["spec"].get("nodeName") == node]
        for meta in sorted(lost, key=lambda meta: (meta["namespace"], meta["name"])):
            self._after(self._kubelet_delays.stop, partial(self._gone, (meta["namespace"], meta["name"]), meta["uid"]))

    def _start(self, key: Key, uid: str) -> None:
        pod = self._there(key, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") != "Pending":
            return
        if self._api.store.find(NODES, ("", pod["spec"]["nodeName"])) is None:
            self._collect(pod["spec"]["nodeName"])
            return
        now = rfc3339(self._wall())
        held = [c for c in pod["status"].get("conditions") or () if c["type"] not in _CONDITIONS]
        conditions = [*held, *({"type": name, "status": "True", "lastTransitionTime": now} for name in _CONDITIONS)]
        statuses = [_status_of(container, now) for container in pod["spec"]["containers"]]
        status = {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": statuses}
        self._api.merge(_path(key) + "/status", {"status": status})
        runs_for = (pod["metadata"].get("annotations") or {}).get(RUNS_FOR)
        if runs_for is not None:
            self._timers.after(float(runs_for), lambda: self._succeed(key, uid))

    def _succeed(self, key: Key, uid: str) -> None:
        pod = self._there(key, uid)
        if pod is not None and pod["status"].get("phase") == "Running":
            conditions = [{**c, "status": "False"} if c["type"] == "Ready" else c for c in pod["status"]["conditions"]]
            self._api.merge(_path(key) + "/status", {"status": {"phase": "Succeeded", "conditions": conditions}})

    def _resize(self, key: Key, uid: str) -> None:
        pod = self._there(key, uid)
        if pod is None or pod["status"].get("phase") != "Running":
            return
        wanted = {c["name"]: c["resources"] for c in pod["spec"]["containers"]}
        statuses: list[Json] = [
            {**s, "resources": wanted[s["name"]], "allocatedResources": wanted[s["name"]].get("requests") or {}}
            for s in pod["status"].get("containerStatuses") or ()
        ]
        self._api.merge(_path(key) + "/status", {"status": {"containerStatuses": statuses}})

    def _gone(self, key: Key, uid: str) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._api.request("DELETE", _path(key), body=msgspec.json.encode(body))

    def _there(self, key: Key, uid: str) -> Json | None:
        stored = self._api.store.find(PODS, key)
        return stored.body if stored is not None and stored.body["metadata"]["uid"] == uid else None


def _status_of(container: Json, now: str) -> Json:
    resources = container.get("resources") or {}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
        "resources": resources,
        "allocatedResources": resources.get("requests") or {},
    }


def _path(key: Key) -> str:
    return f"/api/v1/namespaces/{key[0]}/pods/{key[1]}"


def _taints(stored: Any) -> set[str]:
    return set() if stored is None else {taint["key"] for taint in stored.body["spec"].get("taints") or ()}
