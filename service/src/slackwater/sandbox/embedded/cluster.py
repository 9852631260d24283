"""The embedded cluster as a whole: an API server, and what lives around one."""

from collections.abc import Callable
from random import Random

import msgspec

from slackwater.sandbox.embedded.agenda import Agenda
from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import BUDGETS, PODS, ResourceKind
from slackwater.sandbox.embedded.kubelets import Kubelets, Paces
from slackwater.sandbox.embedded.machines import Machines, Moves
from slackwater.sandbox.embedded.patches import MERGE
from slackwater.sandbox.embedded.selectors import selects
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change, Key


class Disruptions:
    """Recounts a namespace's budgets `delay_seconds` after its pods or budgets have changed. All its pods are expected."""

    def __init__(self, api: ApiServer, agenda: Agenda, *, delay_seconds: Callable[[], float] = lambda: 0.02) -> None:
        self._api = api
        self._agenda = agenda
        self._delay = delay_seconds
        self._due: set[str] = set()
        api.store.on_change.append(self._heard)

    def _heard(self, kind: ResourceKind, change: Change) -> None:
        namespace = change.key[0]
        if kind in {PODS, BUDGETS} and namespace not in self._due:
            self._due.add(namespace)
            self._agenda.after(self._delay(), lambda: self._recount(namespace))

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
            and _counts(stored.body)
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
            return  # as the controller does: a status that says this already is not written
        path = f"/apis/policy/v1/namespaces/{key[0]}/poddisruptionbudgets/{key[1]}/status"
        self._api.request("PATCH", path, body=msgspec.json.encode(patch), content_type=MERGE)


def _counts(pod: Json) -> bool:
    return pod["status"].get("phase") not in {"Succeeded", "Failed"}


def _is_healthy(pod: Json) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
    return ready and "deletionTimestamp" not in pod["metadata"]


def _amount(said: int | str, of: int) -> int:
    """A share is rounded up, as the controller does for both."""
    return said if isinstance(said, int) else -(-int(said.removesuffix("%")) * of // 100)


class Sandbox:
    """`run` it, and talk to `api`. A scheduler is started beside it, where there is one to ask (`scheduler.Scheduler`)."""

    def __init__(self, *, rng: Random, wall: Callable[[], float], paces: Paces = Paces(), moves: Moves = Moves()) -> None:
        self.api = ApiServer(rng=rng, wall=wall)
        self.agenda = Agenda()
        self.kubelets = Kubelets(self.api, self.agenda, rng=rng, wall=wall, paces=paces)
        self.disruptions = Disruptions(self.api, self.agenda)
        self.machines = Machines(self.api, self.agenda, rng=rng, moves=moves)

    async def run(self) -> None:
        """Until cancelled."""
        await self.agenda.run()
