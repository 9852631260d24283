"""What happens in the cluster of a run: pods of several sizes and priorities come and go, machines grow, nodes vanish."""

import math
from collections.abc import Callable
from random import Random
from typing import Any, Final

import anyio
import msgspec

from slackwater.adapters.api_calls import MERGE_PATCH
from slackwater.sandbox.embedded.agents import a_machine
from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import BUDGETS, MACHINES, NODES, PODS
from slackwater.sandbox.embedded.server import ApiServer

NAMESPACE: Final = "default"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_LABEL: Final = "vm.neon.tech/name"
_MOST_NODES: Final = 8
_MOST_PODS: Final = 60
_BUDGETS: Final = ({"minAvailable": 0}, {"minAvailable": 1}, {"minAvailable": 2}, {"maxUnavailable": 1}, {"maxUnavailable": 0})


class Story:
    """`tell` until cancelled; `begin` before. `foreign` is given nodes that others than the service have filled or shrunk."""

    def __init__(self, server: ApiServer, rng: Random, foreign: Callable[[str], None]) -> None:
        self._server = server
        self._rng = rng
        self._foreign = foreign
        self._numbers = 0
        self._phases: dict[str, tuple[float, float]] = {}
        self.calm = False
        self._vertical = rng.random() < 0.7
        self._preempting = rng.random() < 0.6
        self._meddling = rng.random() < 0.3

    def begin(self) -> None:
        for _ in range(self._rng.randrange(2, 6)):
            self._add_node()
        if self._vertical:
            for _ in range(self._rng.randrange(2, 7)):
                self._add_machine()
        for app in range(2):
            spec = {**self._rng.choice(_BUDGETS), "selector": {"matchLabels": {"app": f"app-{app}"}}}
            path = f"{BUDGETS.prefix}/namespaces/{NAMESPACE}/{BUDGETS.plural}"
            self._send("POST", path, {"metadata": {"name": f"budget-{app}"}, "spec": spec})
        for _ in range(self._rng.randrange(4, 20)):
            self._add_pod()

    async def tell(self) -> None:
        while True:
            await anyio.sleep(self._rng.expovariate(5.0))
            self._happen()

    def _happen(self) -> None:
        acts: list[tuple[float, Callable[[], None]]] = [
            (6.0, self._add_pod),
            (4.0, self._drop_pod),
            (0.3, self._add_node),
            (0.2, self._drop_node),
            (0.4, self._cordon),
            (0.5 if self._vertical else 0.0, self._add_machine),
            (0.3 if self._vertical else 0.0, self._drop_machine),
            (1.0, self._renew_pod),
            (1.0 if self._preempting else 0.0, self._add_preemptor),
            (0.5 if self._meddling else 0.0, self._bind_by_hand),
        ]
        weights = [weight for weight, _ in acts]
        self._rng.choices([act for _, act in acts], weights)[0]()

    # --- what others want -------------------------------------------------------------------------------------------------

    def wants(self, machine: str, now: float) -> int:
        """Compute units, as a load that rises and falls."""
        phase, period = self._phases.setdefault(machine, (self._rng.uniform(0, math.tau), self._rng.uniform(5.0, 30.0)))
        return 1 if self.calm else round(4 * (1 + math.sin(phase + math.tau * now / period)))

    # --- acts -------------------------------------------------------------------------------------------------------------

    def _name(self, what: str) -> str:
        self._numbers += 1
        return f"{what}-{self._numbers}"

    def _add_node(self) -> None:
        if len(self._server.store.all(NODES)) >= _MOST_NODES:
            return
        name, cpu = self._name("node"), self._rng.choice((2, 4, 8))
        capacity = {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "20"}
        status = {"capacity": capacity, "allocatable": capacity}
        labels = {"kubernetes.io/hostname": name}
        self._send("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

    def _drop_node(self) -> None:
        nodes = self._server.store.all(NODES)
        if len(nodes) > 2:
            self._send("DELETE", f"/api/v1/nodes/{self._rng.choice(nodes).body['metadata']['name']}", None)

    def _cordon(self) -> None:
        node = self._rng.choice(self._server.store.all(NODES)).body
        spec = {"unschedulable": None if node["spec"].get("unschedulable") else True}
        self._send("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", {"spec": spec}, MERGE_PATCH)

    def _add_pod(self, priority: int = 0) -> None:
        if len(self._server.store.all(PODS)) >= _MOST_PODS:
            return
        cpu = self._rng.choice((100, 250, 500, 1000, 1500))
        requests = {"cpu": f"{cpu}m", "memory": f"{self._rng.choice((128, 512, 1024, 4096))}Mi"}
        meta: Json = {"name": self._name("pod"), "labels": {"app": f"app-{self._rng.randrange(3)}"}}
        if self._rng.random() < 0.2:
            meta["annotations"] = {"sandbox.slackwater.dev/runs-for": str(self._rng.randrange(1, 10))}
        if self._rng.random() < 0.9:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "some", "uid": "some", "controller": True}
            meta["ownerReferences"] = [owner]
        spec: Json = {
            "schedulerName": "slackwater",
            "priority": priority or self._rng.choice((0, 0, 0, 10)),
            "terminationGracePeriodSeconds": self._rng.choice((0, 1, 5)),
            "containers": [{"name": "app", "image": "example/app", "resources": {"requests": requests}}],
        }
        self._send("POST", _PODS, {"metadata": meta, "spec": spec})

    def _add_preemptor(self) -> None:
        self._add_pod(priority=1000)

    def _drop_pod(self) -> None:
        pods = [s.body["metadata"]["name"] for s in self._server.store.all(PODS) if _LABEL not in s.body["metadata"]["labels"]]
        if pods:
            self._send("DELETE", f"{_PODS}/{self._rng.choice(pods)}", {})

    def _renew_pod(self) -> None:
        """Another pod of the same name takes the place of one, as in a StatefulSet."""
        pods = [s.body for s in self._server.store.all(PODS) if _LABEL not in s.body["metadata"]["labels"]]
        if pods:
            old = self._rng.choice(pods)
            name = old["metadata"]["name"]
            self._send("DELETE", f"{_PODS}/{name}", {"gracePeriodSeconds": 0})
            parts = ("schedulerName", "priority", "terminationGracePeriodSeconds", "containers")
            meta = {"name": name, "labels": old["metadata"]["labels"]}
            self._send("POST", _PODS, {"metadata": meta, "spec": {part: old["spec"][part] for part in parts}})

    def _add_machine(self) -> None:
        if len(self._server.store.all(MACHINES)) >= 8:
            return
        high, movable = self._rng.randrange(2, 9), self._rng.random() < 0.8
        machine = a_machine(self._name("vm"), low=1, high=high, use=self._rng.randrange(1, high + 1), movable=movable)
        self._send("POST", f"{MACHINES.prefix}/namespaces/{NAMESPACE}/{MACHINES.plural}", machine)

    def _drop_machine(self) -> None:
        machines = self._server.store.all(MACHINES)
        if machines:
            name = self._rng.choice(machines).body["metadata"]["name"]
            self._send("DELETE", f"{MACHINES.prefix}/namespaces/{NAMESPACE}/{MACHINES.plural}/{name}", None)

    def _bind_by_hand(self) -> None:
        pods = [s.body["metadata"]["name"] for s in self._server.store.all(PODS) if not s.body["spec"].get("nodeName")]
        if pods:
            pod = self._rng.choice(pods)
            node = self._rng.choice(self._server.store.all(NODES)).body["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            self._foreign(node)
            self._send("POST", f"{_PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": target})

    def settle(self) -> None:
        """The end: nothing more happens, and every node takes pods."""
        self.calm = True
        for stored in self._server.store.all(NODES):
            self._send(
                "PATCH", f"/api/v1/nodes/{stored.body['metadata']['name']}", {"spec": {"unschedulable": None}}, MERGE_PATCH
            )

    def _send(self, method: str, path: str, body: Any, content_type: str = "application/json") -> None:
        raw = None if body is None else msgspec.json.encode(body)
        self._server.request(method, path, body=raw, content_type=content_type)
