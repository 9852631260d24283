"""Composes the embedded cluster of its parts, and simulates the disruption controller."""

from collections.abc import Callable
from random import Random

from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import BUDGETS, PODS, ResourceKind, selects
from slackwater.sandbox.embedded.kubelets import KubeletDelays, Kubelets
from slackwater.sandbox.embedded.machines import Machines, MigrationBehavior
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change, Key
from slackwater.sandbox.embedded.timers import Timers


class Disruptions:
    """Simulates the disruption controller: updates the status of a namespace's budgets `delay_seconds` after pods or budgets of
    the namespace have changed."""

    def __init__(self, api: ApiServer, timers: Timers, *, delay_seconds: Callable[[], float] = lambda: 0.02) -> None:
        self._api = api
        self._timers = timers
        self._delay = delay_seconds
        self._due: set[str] = set()
        api.store.on_change.append(self._on_change)

    def _on_change(self, kind: ResourceKind, change: Change) -> None:
        namespace = change.key[0]
        if kind in {PODS, BUDGETS} and namespace not in self._due:
            self._due.add(namespace)
            self._timers.after(self._delay(), lambda: self._recount(namespace))

    def _recount(self, namespace: str) -> None:
        self._due.discard(namespace)
        for stored in self._api.store.all(BUDGETS, namespace):
            self._count((namespace, stored.body["metadata"]["name"]), stored.body)

    def _count(self, key: Key, budget: Json) -> None:
        spec, before = budget["spec"], budget.get("status") or {}
        pods = [
            stored.body
            for stored in self._api.store.each(PODS)
            if stored.body["metadata"]["namespace"] == key[0]
            and selects(spec.get("selector"), stored.body["metadata"].get("labels") or {})
            and stored.body["status"].get("phase") not in {"Succeeded", "Failed"}
        ]
        there = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        disrupted = {name: at for name, at in (before.get("disruptedPods") or {}).items() if name in there}
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        if "maxUnavailable" in spec:
            desired = max(len(pods) - _amount(spec["maxUnavailable"], len(pods)), 0)
        else:
            desired = _amount(spec.get("minAvailable", 0), len(pods))
        status = {
            "expectedPods": len(pods),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(healthy - desired, 0) if pods else 0,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        gone = dict.fromkeys((before.get("disruptedPods") or {}).keys() - disrupted.keys())
        patch = {"status": {**status, "disruptedPods": {**disrupted, **gone}} if disrupted or gone else status}
        if not gone and all(before.get(part) == value for part, value in status.items()):
            return  # the status is correct already; the real controller does not write it either
        path = f"/apis/policy/v1/namespaces/{key[0]}/poddisruptionbudgets/{key[1]}/status"
        self._api.merge(path, patch)


def _is_healthy(pod: Json) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
    return ready and "deletionTimestamp" not in pod["metadata"]


def _amount(said: int | str, of: int) -> int:
    """The number that a budget's field means for `of` pods: the field's integer, or its percentage of `of`, rounded up."""
    return said if isinstance(said, int) else -(-int(said.removesuffix("%")) * of // 100)


class Sandbox:
    """The embedded cluster: call `run`, and send requests to `api`. A scheduler (`scheduler.Scheduler`) is started
    separately."""

    def __init__(
        self,
        *,
        rng: Random,
        wall: Callable[[], float],
        kubelet_delays: KubeletDelays = KubeletDelays(),
        migration_behavior: MigrationBehavior = MigrationBehavior(),
    ) -> None:
        self.api = ApiServer(rng=rng, wall=wall)
        self.timers = Timers()
        self.kubelets = Kubelets(self.api, self.timers, rng=rng, wall=wall, kubelet_delays=kubelet_delays)
        self.disruptions = Disruptions(self.api, self.timers)
        self.machines = Machines(self.api, self.timers, rng=rng, migration_behavior=migration_behavior)

    async def run(self) -> None:
        """Runs the simulated kubelets and controllers until cancelled."""
        await self.timers.run()
